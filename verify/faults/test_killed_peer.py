"""Either end is killed: the other sees an ordinary error in time, and nothing stays behind.

The promise is an error within 100 ms of the kill. A loaded test machine may not even run the
survivor within that time, so the best of some attempts must keep it. Where none does, the machine is
asked what it takes under plain Linux.
"""

from __future__ import annotations

import os
import signal

import kernel_view
import pytest
from fault_pairs import start_pair, start_transfer, transfer_result
from heliostat_run import Harness, Side

PROMISE_NS = 100_000_000
ATTEMPTS = 10
ORDINARY = {"end", "ECONNRESET", "EPIPE"}
PLAIN = pytest.param(Side.PLAIN, id="plain")
HELIOSTAT = pytest.param(Side.HELIOSTAT, id="heliostat", marks=pytest.mark.heliostat)

# What the victim does when it is struck, and what the survivor does meanwhile.
SITUATIONS = [
    ("recv", "recv"), ("recv", "epoll"), ("recv", "poll"), ("recv", "select"),
    ("drain", "flood"), ("flood", "drain"), ("recv", "flood"), ("exchange", "exchange"),
]  # fmt: skip


@pytest.mark.parametrize("side", [PLAIN, HELIOSTAT])
@pytest.mark.parametrize("victim_role", ["accept", "connect"])
@pytest.mark.parametrize(("victim_does", "survivor_does"), SITUATIONS, ids="-".join)
def test_survivor_sees_an_ordinary_error_in_time(harness, side, victim_role, victim_does, survivor_does):
    took = best_ns(harness, side, victim_role, victim_does, survivor_does)
    promise = PROMISE_NS
    if took > promise:
        promise = 4 * best_ns(harness, Side.PLAIN, victim_role, victim_does, survivor_does)
    assert took <= promise


def best_ns(harness: Harness, *pair_of) -> int:
    """From the kill to the survivor's error, in the first attempt that kept the promise or the best."""
    best = None
    for _ in range(ATTEMPTS):
        pair = start_pair(harness, *pair_of)
        struck = pair.kill_victim(signal.SIGKILL)
        word, at = pair.survivor_ended()
        assert word in ORDINARY
        best = min(at - struck, best or at - struck)
        if best <= PROMISE_NS:
            break
    return best


@pytest.mark.heliostat
def test_nothing_stays_allocated_after_both_were_killed(harness):
    before, shm = shared_of_control_plane(harness), set(os.listdir("/dev/shm"))
    for _ in range(5):
        pair = start_pair(harness, Side.HELIOSTAT, "accept", "drain", "flood")
        pair.kill_victim(signal.SIGKILL)
        pair.survivor.kill()
        pair.survivor.process.wait()
        pair.victim.process.wait()
    kernel_view.wait_until(lambda: harness.status()["channels"] == 0, 60, "no channels")
    kernel_view.wait_until(lambda: not harness.status()["sessions"], 60, "no sessions")
    kernel_view.wait_until(lambda: shared_of_control_plane(harness) == before, 60, "no shared memory")
    assert not [name for name in set(os.listdir("/dev/shm")) - shm if "helio" in name]


@pytest.mark.heliostat
def test_control_plane_keeps_its_descriptors_and_memory_over_fifty_kills(harness):
    warm_up(harness, 5)
    descriptors, memory = resources(harness.control_plane())
    warm_up(harness, 50)
    kernel_view.wait_until(lambda: not harness.status()["sessions"], 60, "no sessions")
    control_plane = harness.control_plane()
    kernel_view.wait_until(lambda: resources(control_plane)[0] <= descriptors, 60, "no more descriptors")
    later_memory = resources(control_plane)[1]
    assert later_memory <= memory + (2 << 20)


@pytest.mark.heliostat
def test_other_transfers_are_untouched_by_a_kill(harness):
    taker, sender = start_transfer(harness, Side.HELIOSTAT, 3)
    for _ in range(4):
        pair = start_pair(harness, Side.HELIOSTAT, "connect", "flood", "drain")
        pair.kill_victim(signal.SIGKILL)
        assert pair.survivor_ended()[0] in ORDINARY
    sent, taken = transfer_result(taker, sender)
    assert sent == taken and int(sent) > 0


@pytest.mark.parametrize("side", [PLAIN, HELIOSTAT])
@pytest.mark.parametrize("stopped", [0, 1], ids=["taker", "sender"])
def test_transfer_is_whole_when_one_end_was_stopped_and_continued(harness, side, stopped):
    programs = start_transfer(harness, side, 2)
    for _ in range(5):
        os.kill(programs[stopped].pid, signal.SIGSTOP)
        kernel_view.wait_until(lambda: state(programs[stopped].pid) == "T", 60, "stopped")
        os.kill(programs[stopped].pid, signal.SIGCONT)
    sent, taken = transfer_result(*programs)
    assert sent == taken and int(sent) > 0


def shared_of_control_plane(harness: Harness) -> list[str]:
    """The memfds that the control plane holds."""
    return kernel_view.shared_memory(harness.control_plane())


def state(pid: int) -> str:
    """The scheduler's letter for a process."""
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def warm_up(harness: Harness, count: int) -> None:
    """Starts and kills programs under Heliostat, with a connection each tenth time."""
    for number in range(count):
        if number % 10 == 0:
            pair = start_pair(harness, Side.HELIOSTAT, "accept", "recv", "recv")
            pair.kill_victim(signal.SIGKILL)
            pair.survivor_ended()
        program = harness.start(Side.HELIOSTAT, ["sleep", "60"])
        kernel_view.wait_until(lambda: kernel_view.command_name(program.pid) == "sleep", 60, "started")
        program.kill()
        program.process.wait()


def resources(pid: int) -> tuple[int, int]:
    """(open descriptors, resident bytes) of a process."""
    with open(f"/proc/{pid}/statm") as statm:
        pages = int(statm.read().split()[1])
    return len(os.listdir(f"/proc/{pid}/fd")), pages * os.sysconf("SC_PAGE_SIZE")
