"""Every wait with nothing to tell sleeps, whatever the other side has closed.

Measured is the processor time over a while in which nothing happens: in programs, in the control
plane, in the supervisor of a sealed program, and on both sides of a snapshot.
"""

from __future__ import annotations

import signal
import socket
import sys
import time
from contextlib import contextmanager
from typing import Iterator

import kernel_view
import pytest
from fault_pairs import HERE
from heliostat_run import BINARY, Harness, Program, Side
from idle_waits import EARLY, WAITS

pytestmark = pytest.mark.heliostat

QUIET_S = 1.0
# With payload unread, no bell is heard, and the wait looks now and then.
WITHOUT_LOOKS = [which for which in WAITS if not which.startswith("poll") or EARLY not in which]
# A tenth of what it would be that looks every 2 ms.
SLEEPS_MAX = QUIET_S * 50


@pytest.mark.parametrize("which", WITHOUT_LOOKS)
def test_program_that_waits_for_what_does_not_come_stays_asleep(harness, which):
    with waiting(harness, which) as waits:
        assert kernel_view.comes_to_rest(waits.pid), waits.output()
        before = kernel_view.sleeps(waits.pid)
        time.sleep(QUIET_S)
        assert kernel_view.sleeps(waits.pid) - before < SLEEPS_MAX, waits.output()


@pytest.mark.parametrize("which", WAITS)
def test_program_that_waits_for_what_does_not_come_sleeps(harness, which):
    with waiting(harness, which) as waits:
        assert kernel_view.comes_to_rest(waits.pid), waits.output()
        assert waits.process.poll() is None, waits.output() + waits.errors()
        assert waits.output() == "ready\n"


@contextmanager
def waiting(harness: Harness, which: str) -> Iterator[Program]:
    """The end that waits, once the other one has done what it does."""
    port, script = kernel_view.free_port(), HERE / "idle_waits.py"
    folder = harness.folder / f"idle-{len(harness.programs)}"
    folder.mkdir()
    waits = harness.start(Side.HELIOSTAT, [sys.executable, script, "wait", port, folder, which], name="wait")
    kernel_view.wait_listening(port, waits.process)
    peer = harness.start(Side.HELIOSTAT, [sys.executable, script, "peer", port, folder, which], name="peer")
    kernel_view.wait_until(lambda: "ready" in waits.output(), what="ready")
    kernel_view.wait_until(lambda: "through" in peer.output(), what="all that the peer does")
    try:
        yield waits
    finally:
        waits.kill()
        peer.kill()


def ask_control(harness: Harness) -> socket.socket:
    """A connection to the control plane that has said nothing."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(str(harness.folder / "control.sock"))
    return connection


@pytest.mark.parametrize("how", [socket.SHUT_RD, socket.SHUT_WR, socket.SHUT_RDWR, "part", "closed"])
def test_control_plane_sleeps_beside_a_client_that_has_shut_its_side(harness, how):
    control = harness.control_plane()
    connection = ask_control(harness)
    if how == "part":
        connection.send(b"\0" * 7)
    elif how == "closed":
        connection.close()
    else:
        connection.shutdown(how)
    assert kernel_view.comes_to_rest(control)
    connection.close()


SEALED = """
import os, socket, sys, time
print("ready", flush=True)
os.closerange(0 if sys.argv[1] == "nothing" else 3, 4096)
if sys.argv[1] == "pair":
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    other.close()
if sys.argv[1] == "child":
    if os.fork() == 0: os._exit(0)
if sys.argv[1] == "orphan":
    if os.fork() == 0:
        if os.fork(): os._exit(0)
        time.sleep(600)
time.sleep(600)
"""


@pytest.mark.parametrize("which", ["nothing", "pair", "child", "orphan"])
def test_supervisor_sleeps_while_its_program_does(harness, which):
    words = [BINARY, "run", "--sealed", "--grant", f"{sys.prefix}:ro", "--grant", f"{sys.base_prefix}:ro", "--"]
    program = harness.start(Side.PLAIN, [*words, sys.executable, "-c", SEALED, which], name="sealed")
    kernel_view.wait_until(lambda: "ready" in program.output(), 60, program.errors())
    assert kernel_view.comes_to_rest(program.pid, *kernel_view.descendants(program.pid))
    program.kill()


def test_both_sides_of_a_snapshot_sleep_when_the_other_is_gone_or_stopped(harness):
    holder = harness.start(Side.PLAIN, [sys.executable, "-c", "import time; time.sleep(600)"])
    publish = [BINARY, "snapshot", "publish", holder.pid, "--as", "idle", "--every", "50ms", "--json"]
    publisher = harness.start(Side.PLAIN, publish)
    kernel_view.wait_until(lambda: publisher.output(), 60, publisher.errors())
    name = next(iter(harness.status()["regions"]))["name"]
    watchers = [harness.start(Side.PLAIN, [BINARY, "snapshot", "watch", name]) for _ in range(2)]
    kernel_view.wait_until(lambda: all(len(one.output().splitlines()) > 2 for one in watchers), 60, "versions")
    publisher.process.send_signal(signal.SIGSTOP)
    assert kernel_view.comes_to_rest(*(one.pid for one in watchers))
    watchers[0].kill()
    watchers[0].process.wait()
    publisher.kill()
    watchers[1].wait(60)
    holder.kill()
