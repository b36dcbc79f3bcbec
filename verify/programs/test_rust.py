"""tokio, hyper and reqwest: an event loop that adds to a copy of its epoll descriptor."""

from __future__ import annotations

from pathlib import Path

import kernel_view
import pytest
import rust_programs
from heliostat_run import Side
from real_programs import MODES

SAID = {
    "echo": ("echoed 66914560 bytes of 20 clients\n", "20 of 20 clients got back what they sent\n"),
    "http": ("answered 4000 requests\n", "4000 right answers\n"),
}


@pytest.fixture(scope="session")
def program() -> Path:
    """Both servers and both clients, by their first word."""
    return rust_programs.build()


def run_pair(harness, program: Path, kind: str, server_side: Side, client_side: Side) -> tuple[str, str]:
    """What a server and its client printed."""
    port = kernel_view.free_port()
    server = harness.start(server_side, [program, f"{kind}-server", port], name="server")
    kernel_view.wait_listening(port, server.process)
    client = harness.start(client_side, [program, f"{kind}-client", port], name="client")
    assert [client.wait(60), server.wait(60)] == [0, 0], client.errors() + server.errors()
    return server.output(), client.output()


@pytest.mark.parametrize("kind", SAID)
@pytest.mark.parametrize(
    "sides",
    [pytest.param(sides, id=mode, marks=() if mode == "plain" else pytest.mark.heliostat) for mode, sides in MODES.items()],
)
def test_server_and_client_say_what_they_say_under_plain_linux(harness, program, kind, sides):
    assert run_pair(harness, program, kind, *sides) == SAID[kind]


@pytest.mark.heliostat
@pytest.mark.parametrize("kind", SAID)
def test_every_connection_of_server_and_client_is_direct_to_its_end(harness, program, kind):
    port, mark = kernel_view.free_port(), harness.folder / f"mark-{kind}"
    server = harness.start(Side.HELIOSTAT, [program, f"{kind}-server", port, mark])
    kernel_view.wait_listening(port, server.process)
    client = harness.start(Side.HELIOSTAT, [program, f"{kind}-client", port, mark])
    for role in ("server", "client"):
        kernel_view.wait_until(Path(f"{mark}-{kind}-{role}").exists, 60, role)
    ends = [one for one in harness.status()["sessions"] if one["pid"] in (server.pid, client.pid)]
    mark.touch()
    assert [server.wait(), client.wait()] == [0, 0]
    # A connection that reqwest opens and does not need is given up before it is accepted.
    unneeded = {"http": {"DoneEarly", "NoOffer", "PeerNotOurs"}, "echo": set()}[kind]
    assert all(end["counters"]["direct_streams"] >= 20 and set(end["reasons"]) <= unneeded for end in ends), ends
