"""Every two-program case, with either or both ends under Heliostat, against plain Linux.

Plain on both sides gives the reference transcript, so that a case which Linux itself answers
differently from what its author thought is not held against Heliostat.
"""

from __future__ import annotations

import difflib
import itertools
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side, copies_descriptors
from pair import HERE, all_cases

MODES = {
    "both": (Side.HELIOSTAT, Side.HELIOSTAT),
    "server": (Side.HELIOSTAT, Side.PLAIN),
    "client": (Side.PLAIN, Side.HELIOSTAT),
}
references: dict[str, list[str]] = {}
numbers = itertools.count()


def fence(folder: Path, port: int) -> list[str]:
    """A program before whose words this stands is sealed, with all that an end of a case needs."""
    grants = [f"{folder}:rw", f"{HERE.parent}:ro", f"{Path(sys.prefix).resolve()}:ro", f"{Path(sys.base_prefix)}:ro"]
    words = [str(BINARY), "run", "--sealed", *(word for grant in grants for word in ("--grant", grant))]
    return [*words, "--listen", f"127.0.0.1:{port}", "--listen", "127.0.0.1:0", "--connect", f"127.0.0.1:{port}", "--"]


def transcript(harness: Harness, case: str, server_side: Side, client_side: Side, sealed: bool = False) -> list[str]:
    """What both ends of a case printed, and how they ended."""
    folder: Path = harness.folder / f"case-{next(numbers)}"
    folder.mkdir()
    port = kernel_view.free_port()
    words = [*(fence(folder, port) if sealed else []), sys.executable, HERE / "pair.py", case]
    server = harness.start(server_side, [*words, "server", port, folder], name="server")
    kernel_view.wait_listening(port, server.process)
    client = harness.start(client_side, [*words, "client", port, folder], name="client")
    lines = []
    for name, program in (("client", client), ("server", server)):
        status = program.wait(120)
        lines += [f"{name}: {line}" for line in program.output().splitlines()]
        lines += [f"{name}! {line}" for line in program.errors().splitlines()[-12:]]
        lines.append(f"{name} ended with {status}")
    return lines


def reference(harness: Harness, case: str) -> list[str]:
    """The transcript under plain Linux, taken once."""
    if case not in references:
        references[case] = transcript(harness, case, Side.PLAIN, Side.PLAIN)
    return references[case]


@dataclass
class Paths:
    """How the streams of a case went, summed over both ends."""

    direct: int
    native: int
    demoted: int
    reasons: dict[str, int]


def paths(harness: Harness, case: str) -> Paths:
    """What the control plane says of both ends once they are done and before they end."""
    folder: Path = harness.folder / f"case-{next(numbers)}"
    folder.mkdir()
    port = kernel_view.free_port()
    words, inspected = [sys.executable, HERE / "pair.py", case], {"PAIR_INSPECTED": "1"}
    server = harness.start(Side.HELIOSTAT, [*words, "server", port, folder], env=inspected)
    kernel_view.wait_listening(port, server.process)
    client = harness.start(Side.HELIOSTAT, [*words, "client", port, folder], env=inspected)
    for name in ("server-over", "client-over"):
        kernel_view.wait_until((folder / f"mark-{name}").exists, 60, name)
    ends = [one for one in harness.status()["sessions"] if one["pid"] in (server.pid, client.pid)]
    (folder / "mark-inspected").touch()
    assert [server.wait(), client.wait()] == [0, 0]
    kinds = ("direct_streams", "native_connections", "demoted_streams")
    reasons = Counter()
    for end in ends:
        reasons.update(end["reasons"])
    return Paths(*(sum(end["counters"][kind] for end in ends) for kind in kinds), dict(reasons))


@pytest.mark.parametrize("case", all_cases())
def test_case_ends_without_error_under_plain_linux(harness, case):
    lines = reference(harness, case)
    assert not [line for line in lines if "Traceback" in line or "! Timeout" in line], lines
    assert [line for line in lines if line.startswith(("client:", "server:"))], "an empty transcript"


@pytest.mark.heliostat
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", all_cases())
def test_transcript_under_heliostat_is_the_one_under_plain_linux(harness, case, mode):
    plain = reference(harness, case)
    found = transcript(harness, case, *MODES[mode])
    assert found == plain, "\n" + "\n".join(difflib.unified_diff(plain, found, "plain", mode, lineterm=""))


@pytest.mark.heliostat
@pytest.mark.parametrize("case", [case for case in all_cases() if case.startswith("pointers.")])
def test_wild_pointers_of_sealed_programs_are_answered_as_under_plain_linux(harness, case):
    plain = reference(harness, case)
    found = transcript(harness, case, Side.PLAIN, Side.PLAIN, sealed=True)
    if not copies_descriptors():
        # Refused before anybody looks at them: docs/sealed.md, In containers.
        found = [line.replace("EPERM", "EFAULT") if ": sendmsg " in line else line for line in found]
    assert found == plain, "\n" + "\n".join(difflib.unified_diff(plain, found, "plain", "sealed", lineterm=""))


# Cases whose ends do not live to be looked at, or that make no connection.
LEAVES = {"processes.LeftOpenAtExit", "processes.ExecAfterTraffic", "processes.ClosedByExec", "ends.KilledByBrokenPipe",
          "ends.Refused", "held.HeldByTheKilled", "processes.StandardStreams"}  # fmt: skip
# Cases that ask for what only the kernel's path does, or leave a connection unaccepted, and the
# reasons that both ends then give.
REASONS = {
    "ends.ClosedBeforeAccept": {"DoneEarly", "NoOffer"},
    "endings.ReadingShutBesideReaders": {"Call", "PeerAsked"},
    "endings.TakenApart": {"Call", "NoOffer"},
    "epoll_sets.EpollForked": {"SharedSet", "PeerAsked"},
    "epoll_sets.EpollPassed": {"SharedSet", "PeerAsked"},
    "processes.DescriptorPassed": {"Passed", "PeerAsked"},
    "processes.ExecInForkedChild": {"PeerAsked"},  # the reason is the child's
    "processes.InheritedByExec": {"Exec", "PeerAsked"},
    "readiness.EpollMixed": {"DoneEarly"},
    "readiness.EpollNested": {"Nested", "PeerAsked"},
    "stream.Urgent": {"Call", "PeerAsked"},
}


# Cases with connections that may end after a message or two: before both ends have begun their rings
# all is on the kernel's path, and an end there is counted so.
MAY_END_EARLY = {
    "ends.BrokenPipe", "ends.BytesBeforeTheEnd", "ends.Names", "ends.OpenAndClose", "ends.Options",
    "epoll_sets.EpollBeforeConnect", "epoll_sets.EpollBeforeConnectOfOthers", "epoll_sets.EpollBeforeRefusedConnect",
    "epoll_sets.EpollForked", "pointers.WildPointersOfLargeTransfers", "processes.DescriptorPassed",
    "processes.EndOnlyWhenBothClosed", "processes.ReplacedDescriptor", "readiness.EpollForgetsClosed",
    "readiness.EpollTimes", "readiness.PollHundred", "stream.SpliceLarge", "threads.ServerToItself", "threads.ShutdownWakesReader",
}  # fmt: skip
EARLY = {"DoneEarly", "PeerAsked"}


@pytest.mark.heliostat
@pytest.mark.parametrize("case", [case for case in all_cases() if case not in LEAVES])
def test_case_takes_the_direct_path(harness, case):
    found = paths(harness, case)
    assert found.direct > 0, found
    allowed = EARLY if case in MAY_END_EARLY else set()
    expected = REASONS.get(case, set())
    assert set(found.reasons) - allowed == expected - allowed, found
    assert sum(found.reasons.values()) == found.native + found.demoted, found
