"""What a client does before the other end has accepted, or read, as the server sees it.

Every way to leave, at every stage of the server: bytes and errors are those of plain Linux. The
large transfers are more than a ring and the socket buffers hold together.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Side

PROGRAM = Path(__file__).resolve().parent / "before_accept.py"
ENDS = ["close", "half close", "both shut", "exit", "kill", "exec", "exec, closing"]
LEAVES = ["fork", "low water", "asynchronous", "passed", "no delay"]
LARGE = ["large", "large vector", "large file", "large splice", "large level", "large edge"]
STAGES = ["not accepted", "accepted", "half read"]
CASES = [
    *itertools.product([*ENDS, *LEAVES], STAGES, ["waits", "does not wait"]),
    *itertools.product(LARGE, STAGES, ["waits"]),
]
numbers = itertools.count()


def transcript(harness: Harness, case: tuple[str, str, str], server_side: Side, client_side: Side) -> list[str]:
    """What both ends printed, and how they ended."""
    folder, port = harness.folder / f"before-{next(numbers)}", kernel_view.free_port()
    folder.mkdir()
    start = lambda side, role: harness.start(side, [sys.executable, PROGRAM, role, *case, str(port), folder])  # noqa: E731
    server = start(server_side, "server")
    kernel_view.wait_listening(port, server.process)
    client = start(client_side, "client")
    if case[0] in ("exit", "kill", "exec", "exec, closing"):
        client.wait(120)
        (folder / "over").touch()
    lines = []
    for name, program in (("server", server), ("client", client)):
        status = program.wait(120)
        lines += [f"{name}: {line}" for line in program.output().splitlines()]
        lines += [f"{name}! {line}" for line in program.errors().splitlines()[-6:]]
        lines.append(f"{name} ended with {status}")
    return lines


@pytest.mark.heliostat
@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case).replace(" ", "_").replace(",", ""))
def test_what_comes_before_the_accept_is_what_plain_linux_delivers(harness, case):
    plain = transcript(harness, case, Side.PLAIN, Side.PLAIN)
    assert any("got" in line for line in plain), plain
    assert transcript(harness, case, Side.HELIOSTAT, Side.HELIOSTAT) == plain


@pytest.mark.heliostat
@pytest.mark.parametrize("way", ["close", "kill", "half close", "large"])
def test_a_server_outside_heliostat_is_written_to_at_once(harness, way):
    case = (way, "not accepted", "waits")
    plain = transcript(harness, case, Side.PLAIN, Side.PLAIN)
    assert transcript(harness, case, Side.PLAIN, Side.HELIOSTAT) == plain
