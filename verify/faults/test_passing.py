"""A connection that is passed to another process is TCP's, whatever its peer does meanwhile.

Three connections each: fresh, used, and with unread bytes in both directions. The receiver runs
under Heliostat or plainly; with the server and the client on plain Linux the same is asked of the
kernel itself.
"""

from __future__ import annotations

import signal
import socket
import sys

import kernel_view
import pytest
from fault_pairs import HERE
from heliostat_run import Harness, Program, Side

pytestmark = pytest.mark.heliostat

KINDS = ["fresh", "used", "unread"]
# In the first three the client makes no call on its connections until it is told to.
STATES = ["sleeps", "computes", "stopped", "reads", "polls"]
SIDES = [(Side.PLAIN, Side.PLAIN), (Side.HELIOSTAT, Side.HELIOSTAT), (Side.HELIOSTAT, Side.PLAIN)]


def pass_connections(harness: Harness, side: Side, receiver_side: Side, state: str) -> tuple[Program, Program, Program]:
    """Client, server and receiver after the last byte, each having ended by itself."""
    folder = harness.folder / f"passing-{len(harness.programs)}"
    folder.mkdir()
    port, script = kernel_view.free_port(), HERE / "passed_on.py"
    receiver = harness.start(receiver_side, [sys.executable, script, "receiver", folder], name="receiver")
    kernel_view.wait_until(lambda: "listens" in receiver.output(), 20, "listens")
    server = harness.start(side, [sys.executable, script, "server", port, folder], name="server")
    kernel_view.wait_listening(port, server.process)
    client = harness.start(side, [sys.executable, script, "client", port, folder, state], name="client")
    kernel_view.wait_until(lambda: "elsewhere" in client.output(), 20, "elsewhere")
    if state == "stopped":
        client.process.send_signal(signal.SIGSTOP)
    (folder / "pass").touch()
    # The server is gone, and what lay unread has come, before the client makes a call.
    assert server.wait(20) == 0, server.errors()
    kernel_view.wait_until(lambda: "waits" in receiver.output(), 20, "waits")
    (folder / "resume").touch()
    if state == "stopped":
        client.process.send_signal(signal.SIGCONT)
    assert (client.wait(30), receiver.wait(30)) == (0, 0), client.errors() + receiver.errors()
    return client, server, receiver


def numbers(program: Program, word: str) -> dict[str, str]:
    """`word KIND=NUMBER ...` of a program's output."""
    line = next(line for line in program.output().splitlines() if line.startswith(word))
    return dict(pair.split("=") for pair in line.split()[1:])


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("side, receiver_side", SIDES)
def test_passed_connection_is_tcp_s_whatever_its_peer_does(harness, side, receiver_side, state):
    client, server, receiver = pass_connections(harness, side, receiver_side, state)
    ports, sockets, given = numbers(client, "ends"), numbers(server, "sockets"), {}
    for line in receiver.output().splitlines():
        if line.startswith("given"):
            _, kind, own_ip, _, *rest = line.split()
            given[kind] = rest
            assert own_ip == "127.0.0.1"
    for kind in KINDS:
        ip, port, *more = given[kind][:4]
        assert [ip, *more] == ["127.0.0.1", str(socket.AF_INET.value), "1"]
        # A relay's connection has other ports where no network namespace may be made (docs/decisions/relay.md).
        assert port == ports[kind] or kind == "unread" and not kernel_view.makes_networks()
    # With nothing unread it is the very socket, and nobody was waited for.
    for kind in ("fresh", "used"):
        assert given[kind][4] == sockets[kind], kind
    said = set(receiver.output().splitlines()) | set(client.output().splitlines())
    for kind in KINDS:
        assert {f"unread {kind} True", f"receiver {kind} True", f"client {kind} True b''"} <= said
