"""Every two-program case, with either or both ends under Heliostat, against plain Linux.

Plain on both sides gives the reference transcript, so that a case which Linux itself answers
differently from what its author thought is not held against Heliostat.
"""

from __future__ import annotations

import difflib
import itertools
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import House, Side
from pair import HERE, all_cases

MODES = {
    "both": (Side.HELIOSTAT, Side.HELIOSTAT),
    "server": (Side.HELIOSTAT, Side.PLAIN),
    "client": (Side.PLAIN, Side.HELIOSTAT),
}
references: dict[str, list[str]] = {}
numbers = itertools.count()


def transcript(house: House, case: str, server_side: Side, client_side: Side) -> list[str]:
    """What both ends of a case printed, and how they ended."""
    folder: Path = house.folder / f"case-{next(numbers)}"
    folder.mkdir()
    port = kernel_view.free_port()
    words = [sys.executable, HERE / "pair.py", case]
    server = house.start(server_side, [*words, "server", port, folder], name="server")
    kernel_view.wait_listening(port, server.process)
    client = house.start(client_side, [*words, "client", port, folder], name="client")
    lines = []
    for name, program in (("client", client), ("server", server)):
        status = program.wait(60)
        lines += [f"{name}: {line}" for line in program.output().splitlines()]
        lines += [f"{name}! {line}" for line in program.errors().splitlines()[-12:]]
        lines.append(f"{name} ended with {status}")
    return lines


def reference(house: House, case: str) -> list[str]:
    """The transcript under plain Linux, taken once."""
    if case not in references:
        references[case] = transcript(house, case, Side.PLAIN, Side.PLAIN)
    return references[case]


@pytest.mark.parametrize("case", all_cases())
def test_case_ends_without_error_under_plain_linux(house, case):
    lines = reference(house, case)
    assert not [line for line in lines if "Traceback" in line or "! Timeout" in line], lines
    assert [line for line in lines if line.startswith(("client:", "server:"))], "an empty transcript"


@pytest.mark.heliostat
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", all_cases())
def test_transcript_under_heliostat_is_the_one_under_plain_linux(house, case, mode):
    plain = reference(house, case)
    found = transcript(house, case, *MODES[mode])
    assert found == plain, "\n" + "\n".join(difflib.unified_diff(plain, found, "plain", mode, lineterm=""))
