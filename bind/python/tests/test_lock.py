"""Locks, semaphores and barriers between processes."""

from __future__ import annotations

import os
import signal
import threading
import time

import heliostat
import pytest
from test_processes import in_child

HOLD = """
import sys, heliostat
lock = heliostat.lock.open().lock(sys.argv[1])
held = lock.acquire()
print(held.token, flush=True)
sys.stdin.readline()
held.release()
sys.stdin.readline()
"""

COUNT = """
import sys, heliostat
lock = heliostat.lock.open().lock(sys.argv[1])
for _ in range(int(sys.argv[3])):
    with lock.acquire():
        with open(sys.argv[2], "r+") as file:
            counted = int(file.read())
            file.seek(0)
            file.write(str(counted + 1))
"""

ARRIVE = """
import sys, heliostat
barrier = heliostat.lock.open().barrier(sys.argv[1], 2)
print("opened", flush=True)
sys.stdin.readline()
print(barrier.wait(), flush=True)
sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def locks():
    return heliostat.lock.open()


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def test_no_increment_is_lost(locks, name, other, tmp_path):
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [other(COUNT, name, counter, 100) for _ in range(3)]
    for process in processes:
        assert process.wait(60) == 0, process.stderr.read()
    assert counter.read_text() == "300"


def test_who_waits_gets_it_with_a_larger_token(locks, name, other):
    process = other(HOLD, name)
    first = int(process.stdout.readline())
    lock = locks.lock(name)
    for timeout in (0, 0.01):
        with pytest.raises(heliostat.TimedOut) as caught:
            lock.acquire(timeout=timeout)
        assert isinstance(caught.value, TimeoutError)
    go(process)
    with lock.acquire(timeout=60) as held:
        assert held.token > first and not held.has_owner_died and held.is_held
        (listed,) = locks.list(name)
        assert (listed.kind, listed.opened, listed.held, listed.waiting) == ("lock", 2, 1, 0)
    assert not held.is_held
    held.release()


def test_a_holder_that_was_killed_is_told(locks, name, other):
    process = other(HOLD, name)
    process.stdout.readline()
    lock = locks.lock(name)
    threading.Timer(0.05, process.kill).start()
    with lock.acquire(timeout=60) as held:
        assert held.has_owner_died
    with lock.acquire() as held:
        assert not held.has_owner_died


def test_threads_wait_at_the_same_time_and_readers_share(locks, name):
    lock, inside, most = locks.reader_writer(name), [], []

    def read():
        with lock.read():
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.05)
            inside.pop()

    writer = lock.write()
    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    assert not most
    writer.release()
    for thread in threads:
        thread.join(60)
    assert len(most) == 4 and max(most) > 1


def test_a_semaphore_has_so_many_permits(locks, name):
    gate = locks.semaphore(name, 3)
    two = gate.acquire(2)
    one = gate.acquire()
    with pytest.raises(heliostat.TimedOut):
        gate.acquire(timeout=0)
    two.release()
    gate.acquire(2, timeout=0).release()
    one.release()
    for count in (0, 4):
        with pytest.raises(ValueError):
            gate.acquire(count)


def test_two_meet_at_a_barrier_and_a_death_breaks_it(locks, name, other):
    barrier = locks.barrier(name, 2)
    process = other(ARRIVE, name)
    process.stdout.readline()
    go(process)
    passed = barrier.wait(60)
    assert passed.generation == 1 and "generation=1" in process.stdout.readline()
    threading.Timer(0.05, process.kill).start()
    with pytest.raises(heliostat.BrokenBarrier) as caught:
        barrier.wait(60)
    assert isinstance(caught.value, threading.BrokenBarrierError)
    barrier.reset()
    with pytest.raises(heliostat.TimedOut):
        barrier.wait(0.01)
    with pytest.raises(heliostat.BrokenBarrier):
        barrier.wait()


def test_a_name_is_one_thing(locks, name):
    lock = locks.lock(name)
    for other in (locks.reader_writer, lambda name: locks.semaphore(name, 2)):
        with pytest.raises(heliostat.NameTaken):
            other(name)
    with pytest.raises(heliostat.NameTaken):
        locks.lock(name, silent=True)
    lock.close()
    with pytest.raises(ValueError):
        lock.acquire()
    locks.semaphore(name, 2).close()
    with pytest.raises(heliostat.InvalidName):
        locks.lock("a//b")
    with pytest.raises(ValueError):
        locks.barrier(name, 0)


def test_a_signal_ends_a_wait_and_its_place_is_given_up(locks, name):
    lock = locks.lock(name)
    held = lock.acquire()
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        lock.acquire()
    assert locks.list(name)[0].waiting == 0
    held.release()
    lock.acquire(timeout=0).release()


def test_a_forked_child_has_nothing_of_its_parent(locks, name):
    lock = locks.lock(name)
    held = lock.acquire()

    def child():
        for use in (held.release, lock.acquire, locks.list):
            with pytest.raises(heliostat.Forked):
                use()
        own = heliostat.lock.open().lock(name)
        with pytest.raises(heliostat.TimedOut):
            own.acquire(timeout=0)

    in_child(child)
    assert held.is_held
    held.release()
    lock.acquire(timeout=60).release()
