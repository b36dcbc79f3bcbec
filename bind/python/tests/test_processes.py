"""Other processes: found, killed, forked, restarted."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import time

import heliostat
import numpy as np
import pytest

PRODUCE = """
import sys, time, numpy, heliostat
a = numpy.zeros(200_000)
region = heliostat.Region.from_array(a, name=sys.argv[1])
while True:
    a += 1
    region.publish()
    print(region.generation, flush=True)
    time.sleep(0.005)
"""

BY_DESCRIPTORS = """
import socket, sys, heliostat
peer = socket.socket(fileno=int(sys.argv[1]))
_, given, _, _ = socket.recv_fds(peer, 1, 2)
def announce(pins, bell):
    socket.send_fds(peer, [b"?"], [pins, bell])
    assert peer.recv(1) == b"!"
source = heliostat.attach_by(tuple(given), announce)
for snapshot in source.versions():
    seen = snapshot.array()
    assert seen.min() == seen.max()
    print(seen[0], flush=True)
print("over" if source.is_over else "late")
"""

START_ONE = """
import heliostat
print(heliostat._binaries.control_plane(), heliostat.status()["pid"])
"""


def in_child(work) -> str:
    """What `work` answers in a forked child, as text."""
    receiver, sender = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(sender, repr(work()).encode())
        except BaseException as error:
            os.write(sender, type(error).__name__.encode())
        finally:
            os._exit(0)
    os.close(sender)
    with os.fdopen(receiver) as answer:
        text = answer.read()
    assert os.waitpid(child, 0) == (child, 0)
    return text


def test_a_killed_producer_leaves_its_last_version_whole(name, other):
    producer = other(PRODUCE, name)
    source = heliostat.attach(name, timeout=30)
    assert source.wait(20, 60)
    producer.kill()
    producer.wait()
    with source.latest() as snapshot:
        seen = snapshot.array()
        assert seen.min() == seen.max() == snapshot.number
    assert source.wait(snapshot.number) is False and source.is_over and not source.is_closed
    assert asyncio.run(source.wait_async(snapshot.number)) is False
    assert list(source.versions(after=snapshot.number)) == []
    with pytest.raises(heliostat.NotFound):
        while True:  # until the control plane has noticed
            heliostat.attach(name)
            time.sleep(0.01)


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_another_user_is_denied_without_a_rule(name, harness):
    def as_nobody() -> None:
        os.setuid(65534)
        heliostat.attach(name, owner=0)

    harness.chmod(0o755)
    (harness / "control.sock").chmod(0o777)
    with heliostat.Region.from_array(np.zeros(10), name=name):
        assert in_child(lambda: heliostat.attach(name, owner=0).name) == repr(name)
        assert in_child(as_nobody) == "Denied"


def test_a_producer_that_is_restarted_is_the_next_generation(name, other):
    for generation in (1, 2, 3):
        producer = other(PRODUCE, name)
        assert producer.stdout.readline() == f"{generation}\n"
        source = heliostat.attach(name)
        assert source.wait(3, 60) and source.latest().array()[0] >= 3
        producer.kill()
        producer.wait()
        with pytest.raises(heliostat.NotFound):
            while True:
                heliostat.attach(name)
                time.sleep(0.01)


def test_a_killed_consumer_costs_no_version(name, other):
    consume = "import sys, heliostat; s = heliostat.attach(sys.argv[1]); k = [s.latest().array()]; print(1, flush=True); input()"
    with heliostat.Region.from_array(np.zeros(1000), name=name, colours=2) as region:
        region.publish()
        consumer = other(consume, name)
        assert consumer.stdout.readline() == "1\n"
        region.publish()
        with pytest.raises(heliostat.Full):
            region.publish()
        consumer.kill()
        consumer.wait()
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            try:
                assert region.publish().number > 2
                return
            except heliostat.Full:
                time.sleep(0.01)
        pytest.fail("the killed consumer's pin was kept")


def test_a_consumer_in_another_process_attaches_by_descriptors_alone():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with heliostat.Region.from_array(np.full(100_000, 1.0), colours=3) as region:
        words = [sys.executable, "-c", BY_DESCRIPTORS, str(theirs.fileno())]
        consumer = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, pass_fds=[theirs.fileno()]
        )
        theirs.close()
        socket.send_fds(ours, [b"."], region.descriptors())
        _, shown, _, _ = socket.recv_fds(ours, 1, 2)
        region.admit(*shown)
        # A copy of the bell that stays here would be an end that never closes.
        for one in shown:
            os.close(one)
        ours.send(b"!")
        for value in range(1, 20):
            region.array[:] = value
            region.publish()
            assert float(consumer.stdout.readline()) == value
    assert consumer.communicate(timeout=60)[0] == "over\n"


def test_what_is_no_page_or_table_is_refused_as_a_descriptor():
    with heliostat.Region.from_array(np.zeros(1000)) as region, open(os.devnull) as null:
        with pytest.raises(heliostat.MappingFailed):
            region.admit(null.fileno(), null.fileno())
        with pytest.raises(heliostat.MappingFailed):
            heliostat.attach_by((null.fileno(), null.fileno()), lambda pins, bell: None)
        with pytest.raises(ZeroDivisionError):
            heliostat.attach_by(region.descriptors(), lambda pins, bell: 1 / 0)
        with pytest.raises(heliostat.MappingFailed):
            heliostat.attach_by((-1, -1), region.admit)
        assert heliostat.attach_by(region.descriptors(), region.admit).latest_number == 0


def test_a_forked_child_is_no_producer_and_harms_none(name):
    a = np.zeros(1000)
    with heliostat.Region.from_array(a, name=name) as region:
        region.publish()
        source = heliostat.attach(name)
        snapshot = source.latest()
        assert in_child(region.publish) == "Forked"
        assert in_child(region.close) == "Forked"
        assert in_child(source.latest) == "Forked"
        assert in_child(lambda: source.wait(0)) == "Forked"
        assert in_child(snapshot.array) == "Forked"
        assert in_child(snapshot.release) == "Forked"
        assert not source.is_closed and snapshot.is_pinned
        a[:] = 1
        region.publish()
        assert source.latest().array().sum() == 1000
        assert snapshot.array().sum() == 0


def test_a_forked_child_that_ends_lets_nothing_of_its_parent_go(name):
    with heliostat.Region.from_array(np.ones(1000), name=name, colours=3) as region:
        region.publish()
        source = heliostat.attach(name)
        snapshot = source.latest()
        seen = snapshot.array()
        # A real end of the interpreter, with all its destructors.
        child = multiprocessing.get_context("fork").Process(target=lambda: None)
        child.start()
        child.join(60)
        assert child.exitcode == 0
        for _ in range(10):
            region.array += 1
            region.publish()
        assert seen.sum() == 1000 and not source.is_closed


def test_an_array_stays_as_it_is_in_a_forked_child_too(name):
    with heliostat.Region.from_array(np.ones(100_000), name=name) as region:
        region.publish()
        source = heliostat.attach(name)
        snapshot = source.latest()
        seen = snapshot.array()
        receiver, sender = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(sender)  # else a parent that fails is never heard of
            os.read(receiver, 1)
            os._exit(0 if seen.sum() == 100_000 else 1)
        snapshot.release()
        del seen
        for _ in range(10):
            region.array += 1
            region.publish()
        assert snapshot.is_pinned
        os.write(sender, b"1")
        assert os.waitpid(child, 0) == (child, 0)
        source.latest()
        assert not snapshot.is_pinned


def test_a_fork_without_descriptors_closes_none_that_is_not_its_own(name, monkeypatch):
    with heliostat.Region.from_array(np.ones(1000), name=name, colours=3) as region:
        region.publish()
        source = heliostat.attach(name)
        seen = source.latest().array()
        assert in_child(lambda: 1) == "1"
        source.wait(0, 0)  # what was kept for the child is given back
        others = [os.open(os.devnull, os.O_RDONLY) for _ in range(8)]

        def none_left():
            raise OSError(24, "no descriptor left")

        monkeypatch.setattr(os, "pipe", none_left)
        if (child := os.fork()) == 0:
            os._exit(0 if seen.sum() == 1000 else 1)
        assert os.waitpid(child, 0) == (child, 0)
        for one in others:
            os.fstat(one)
            os.close(one)
        # Nobody says when such a child has ended, so what it may show stays as it is.
        for _ in range(10):
            region.array += 1
            region.publish()
        assert seen.sum() == 1000


def test_a_forked_child_attaches_and_produces_anew(name):
    a = np.full(1000, 4.0)

    def child() -> float:
        with heliostat.Region.from_array(np.full(10, 2.0), name=f"{name}-child") as mine:
            mine.publish()
            own = heliostat.attach(f"{name}-child").latest().array()[0]
            return float(heliostat.attach(name).latest().array()[0] + own)

    with heliostat.Region.from_array(a, name=name) as region:
        region.publish()
        heliostat.attach(name)
        assert in_child(child) == "6.0"
        region.publish()


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_attach(name, method):
    with heliostat.Region.from_array(np.arange(1000.0), name=name) as region:
        region.publish()
        with multiprocessing.get_context(method).Pool(2) as pool:
            sums = pool.starmap(_sum, [(name, part) for part in range(4)])
        assert sum(sums) == 999 * 500


def _sum(name: str, part: int) -> float:
    with heliostat.attach(name).latest() as snapshot:
        return float(snapshot.array()[part::4].sum())


def test_the_package_starts_a_control_plane_and_others_find_it(tmp_path):
    socket = str(tmp_path / "control.sock")
    environment = {**os.environ, "HELIOSTAT_SOCKET": socket}

    def ask() -> list[str]:
        command = [sys.executable, "-c", START_ONE]
        return subprocess.check_output(command, env=environment, text=True, timeout=60).split()

    first, second = ask(), ask()
    try:
        assert first[0] == socket and first == second
        assert os.path.exists(f"/proc/{first[1]}")
    finally:
        os.kill(int(first[1]), signal.SIGTERM)


def test_status_names_this_process_and_its_regions(name):
    with heliostat.Region.from_array(np.zeros(10), name=name):
        status = heliostat.status()
    assert os.getpid() in [session["pid"] for session in status["sessions"]]
    assert any(name in str(region) for region in status["regions"])
    assert heliostat.doctor()
    assert "heliostat" in heliostat.metrics()


def test_run_is_popen_under_heliostat():
    look = "import os; print('heliostat' in os.environ.get('LD_PRELOAD', ''))"
    with heliostat.run([sys.executable, "-c", look], stdout=subprocess.PIPE, text=True) as program:
        assert program.communicate(timeout=60)[0] == "True\n"
    with pytest.raises(heliostat.CommandFailed, match="process 1 has no session"):
        heliostat.explain(1)
