"""Waiting for versions: threads, signals, asyncio."""

from __future__ import annotations

import asyncio
import signal
import threading
import time

import heliostat
import numpy as np
import pytest

WAIT_FOR_EVER = """
import signal, sys, heliostat
# Started in the background of a shell, a program ignores SIGINT.
signal.signal(signal.SIGINT, signal.default_int_handler)
source = heliostat.attach(sys.argv[1])
print("waiting", flush=True)
try:
    source.wait(0)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""

LEAVE_WHILE_WAITING = """
import asyncio, sys, threading, time, heliostat
source = heliostat.attach(sys.argv[1])
threading.Thread(target=source.wait, args=(0,), daemon=True).start()
async def leave():
    task = asyncio.create_task(source.wait_async(0))
    await asyncio.sleep(0.2)
asyncio.run(leave())
print("left", flush=True)
"""


@pytest.fixture
def region(name):
    with heliostat.Region.from_array(np.zeros(1000), name=name) as region:
        yield region


def later(work, seconds: float = 0.1) -> None:
    threading.Timer(seconds, work).start()


def test_waiting_ends_with_the_next_version_or_in_time(region):
    source = region.attachment()
    assert source.wait(0, 0.05) is False
    assert source.wait(0, 0) is False
    later(region.publish)
    assert source.wait(0) is True
    assert source.wait(0, 0) is True
    assert source.wait(1, 0) is False


def test_waiting_ends_with_the_region(region):
    source = region.attachment()
    later(region.close)
    assert source.wait(0) is False
    assert source.is_closed


def test_a_negative_timeout_is_none_at_all(region):
    assert region.attachment().wait(0, -1) is False


def test_other_threads_run_while_one_waits(region):
    source, ticks = region.attachment(), []
    waiter = threading.Thread(target=lambda: source.wait(0))
    waiter.start()
    while len(ticks) < 50:
        ticks.append(time.sleep(0.001))
    region.publish()
    waiter.join(60)
    assert not waiter.is_alive()


def test_control_c_ends_a_wait(region, name, other):
    consumer = other(WAIT_FOR_EVER, name)
    assert consumer.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    consumer.send_signal(signal.SIGINT)
    output, errors = consumer.communicate(timeout=60)
    assert (output, errors, consumer.returncode) == ("interrupted\n", "", 0)


def test_a_program_may_end_while_it_waits(region, name, other):
    consumer = other(LEAVE_WHILE_WAITING, name)
    output, errors = consumer.communicate(timeout=60)
    assert (output, errors, consumer.returncode) == ("left\n", "", 0)


def test_loop_over_versions_ends_with_the_region(region):
    source, seen = region.attachment(), []

    def produce():
        for value in range(1, 11):
            region.array[:] = value
            region.publish()
            time.sleep(0.01)
        region.close()

    later(produce, 0)
    for snapshot in source.versions():
        seen.append((snapshot.number, snapshot.array()[0]))
    assert seen == sorted(set(seen)) and seen[-1] == (10, 10)
    assert all(number == value for number, value in seen)
    assert not snapshot.is_pinned


def test_tasks_wait_together_and_each_gets_its_own(region):
    source = region.attachment()

    async def main():
        tasks = [asyncio.create_task(source.wait_async(number)) for number in (0, 1, 2, 0)]
        never = asyncio.create_task(source.wait_async(99))
        impatient = await source.wait_async(0, 0.05)
        for _ in range(3):
            await asyncio.sleep(0.02)
            region.publish()
        answers = await asyncio.wait_for(asyncio.gather(*tasks), 60)
        never.cancel()
        region.close()
        return impatient, answers, await source.wait_async(3), await source.wait_async(0)

    assert asyncio.run(main()) == (False, [True] * 4, False, True)


def test_async_loop_over_versions(region):
    source = region.attachment()

    async def consume():
        return [snapshot.array()[0] async for snapshot in source.versions_async()]

    async def produce():
        for value in range(1, 6):
            region.array[:] = value
            region.publish()
            await asyncio.sleep(0.05)
        region.close()

    async def main():
        values, _ = await asyncio.gather(consume(), produce())
        return values

    values = asyncio.run(main())
    assert values == sorted(values) and values[-1] == 5


def test_many_threads_share_one_attachment(region):
    source, faults, is_enough = region.attachment(), [], threading.Event()
    region.publish()

    def read():
        while not is_enough.is_set():
            try:
                with source.latest() as snapshot:
                    seen = snapshot.array()
                    if seen.min() != seen.max():
                        faults.append(snapshot.number)
            except heliostat.Full:
                pass  # eight pins are for all threads of an attachment together

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + 60
    while region.metrics().published < 300 and time.monotonic() < ends:
        region.array += 1
        try:
            region.publish()
        except heliostat.Full:
            pass
    is_enough.set()
    for thread in threads:
        thread.join()
    assert faults == []
    assert region.metrics().published == 300
