"""Queues between two processes: what is written in a slot is what is read, where it lies."""

from __future__ import annotations

import asyncio

import heliostat
import numpy as np
import pytest

PRODUCE = """
import sys, heliostat
with heliostat.Queue.create(sys.argv[1], (100, 50), "f4", slots=3) as queue:
    print("made", flush=True)
    sys.stdin.readline()
    for step in range(20):
        with queue.reserve(timeout=60) as slot:
            slot[...] = step
    if sys.argv[2:]:
        sys.stdin.readline()
"""


@pytest.fixture
def queue(name):
    with heliostat.Queue.create(name, 1000, "f8", slots=4) as queue:
        yield queue


def begun(other, name, *words):
    """A producer in another process, and a consumer that sees all of its items."""
    producer = other(PRODUCE, name, *words)
    assert producer.stdout.readline() == "made\n"
    consumer = heliostat.attach_queue(name)
    producer.stdin.write("go\n")
    producer.stdin.flush()
    return producer, consumer


def test_every_item_of_another_process_arrives_in_order_and_the_loop_ends(name, other):
    _, consumer = begun(other, name)
    seen = []
    for item in consumer.items(60):
        array = item.array()
        assert array.shape == (100, 50) and array.dtype == np.float32 and not array.flags.writeable
        seen.append((array.min(), array.max()))
        del array
    assert seen == [(step, step) for step in range(20)]
    with pytest.raises(heliostat.Gone, match="ended"):
        consumer.take()


def test_asyncio_takes_from_another_process(name, other):
    _, consumer = begun(other, name)

    async def follow():
        return [float(item.copy()[0, 0]) async for item in consumer.items_async(60)]

    assert asyncio.run(follow()) == list(range(20))


def test_a_killed_producer_is_the_end_after_what_it_committed(name, other):
    producer, consumer = begun(other, name, "stay")
    with consumer.take(60) as item:
        assert item.copy()[0, 0] == 0
    producer.kill()
    producer.wait()
    rest = [float(item.copy()[0, 0]) for item in consumer.items(60)]
    assert rest == [float(step) for step in range(1, len(rest) + 1)] and consumer.is_over


def test_a_full_queue_says_so_and_goes_on_when_somebody_reads(queue, name):
    consumer = heliostat.attach_queue(name)
    for value in range(4):
        queue.push(value)
    with pytest.raises(heliostat.Full):
        queue.push(4)
    with consumer.take(0) as item:
        assert item.copy().sum() == 0
    assert queue.push(4, timeout=10) > item.number
    assert queue.metrics().committed == 5


def test_overwriting_loses_the_oldest_and_counts_them(name):
    with heliostat.Queue.create(name, 8, slots=2, full="overwrite") as queue:
        consumer = heliostat.attach_queue(name)
        queue.push(0)
        consumer.take(0).release()
        for value in range(1, 6):
            queue.push(value)
        assert [int(item.copy()[0]) for item in consumer.items(0)] == [4, 5]
        assert consumer.lost == 3


def test_one_of_two_consumers_gets_an_item(name):
    with heliostat.Queue.create(name, 8, delivery="one") as queue:
        consumers = [heliostat.attach_queue(name) for _ in range(2)]
        for value in range(6):
            queue.push(value)
        taken = [[int(item.copy()[0]) for item in consumer.items(0)] for consumer in consumers]
        assert sorted(taken[0] + taken[1]) == list(range(6)) and all(taken)


def test_an_exception_in_the_block_commits_nothing(queue, name):
    consumer = heliostat.attach_queue(name)
    with pytest.raises(ZeroDivisionError):
        with queue.reserve() as slot:
            slot[:] = 1
            1 / 0
    queue.push(7)
    with consumer.take(0) as item:
        assert item.copy()[0] == 7
    with pytest.raises(TimeoutError):
        consumer.take(0)


def test_one_slot_is_written_at_a_time_and_not_after_its_block(queue):
    with queue.reserve() as slot:
        with pytest.raises(BufferError, match="reserved"):
            queue.reserve()
    with pytest.raises(ValueError, match="read-only"):
        slot[0] = 1
    queue.close()
    assert slot.sum() == 0  # its memory outlives the queue


def test_an_array_holds_its_item_and_the_next_is_refused_until_it_goes(queue, name):
    consumer = heliostat.attach_queue(name)
    queue.push(1)
    queue.push(2)
    with consumer.take(0) as item:
        seen = item.array()
    with pytest.raises(BufferError, match="still held"):
        consumer.take(0)
    for _ in range(2):
        queue.push(3)
    with pytest.raises(heliostat.Full):
        queue.push(4)
    assert seen.sum() == 1000
    del seen
    with consumer.take(0) as item:
        assert item.copy()[0] == 2
    queue.push(4)


@pytest.mark.parametrize("wrong", [{"slots": 1}, {"delivery": "some"}, {"full": "wait"}, {"shape": 0}])
def test_settings_outside_their_limits_are_refused(name, wrong):
    with pytest.raises(ValueError):
        heliostat.Queue.create(name, **{"shape": 8, **wrong})
