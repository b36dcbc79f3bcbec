"""A connection's first moments, in which part of it is the kernel's still: as under plain Linux."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Side

PROGRAM = Path(__file__).resolve().parent / "beginnings.py"
CASES = ["KilledPoll", "KilledEpoll", "KilledEdge", "KilledReading", "LeftToChild", "LeftToChildThenClosed"]
CASES += ["ShutAfterChild", "CutShort", "BrokenPipe", "ErrorAsked", "LookedAtWithoutCopy"]
MODES = {"both": (Side.HELIOSTAT, Side.HELIOSTAT), "client": (Side.PLAIN, Side.HELIOSTAT)}
numbers = itertools.count()


def transcript(harness: Harness, case: str, server_side: Side, client_side: Side) -> list[str]:
    """What both ends printed, and how they ended."""
    folder, port = harness.folder / f"beginning-{next(numbers)}", kernel_view.free_port()
    folder.mkdir()
    start = lambda side, role: harness.start(side, [sys.executable, PROGRAM, case, role, port, folder])  # noqa: E731
    server = start(server_side, "server")
    kernel_view.wait_listening(port, server.process)
    lines = []
    for name, program in (("client", start(client_side, "client")), ("server", server)):
        status = program.wait(120)
        lines += [f"{name}: {line}" for line in program.output().splitlines()]
        lines += [f"{name}! {line}" for line in program.errors().splitlines()[-6:]]
        lines.append(f"{name} ended with {status}")
    return lines


@pytest.mark.heliostat
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_what_a_young_connection_shows_is_what_plain_linux_shows(harness, case, mode):
    plain = transcript(harness, case, Side.PLAIN, Side.PLAIN)
    assert not any("Traceback" in line or "Timeout" in line for line in plain), plain
    assert transcript(harness, case, *MODES[mode]) == plain
