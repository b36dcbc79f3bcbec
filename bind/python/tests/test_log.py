"""Logs and queues: what only Python has. The calls of all languages are in verify/log."""

from __future__ import annotations

import asyncio
import gc
import os
import select
import threading

import heliostat
import pytest
from test_processes import in_child

BYTES = 256 << 10


@pytest.fixture
def place(tmp_path):
    return tmp_path / "log"


@pytest.fixture
def log(place):
    with heliostat.log.open(place, create=BYTES) as one:
        yield one


def test_any_buffer_is_appended_and_an_entry_is_one_without_a_copy(log):
    for payload in (b"bytes", bytearray(b"array"), memoryview(b"view")[1:], b""):
        log.append_sync(payload)
    log.append_sync(memoryview(bytearray(10_000)))
    found = list(log)
    assert [bytes(entry) for entry in found[:4]] == [b"bytes", b"array", b"iew", b""]
    view = memoryview(found[0])
    assert view.readonly and view == b"bytes" and len(found[4]) == 10_000
    del found
    gc.collect()
    assert view == b"bytes"
    with pytest.raises(TypeError):
        log.append("text")


def test_positions_compare_in_the_order_of_entries(log):
    first, second = log.append_sync(b"a"), log.append_sync(b"b")
    assert first < second == heliostat.log.Position(second.at, second.sequence)
    assert {first, second, first} == {second, first}
    assert next(iter(log)).next == second


def test_many_tasks_wait_for_their_entries(log):
    async def one(number: int) -> heliostat.log.Position:
        return await log.append(b"%d" % number)

    async def many() -> list[heliostat.log.Position]:
        return await asyncio.wait_for(asyncio.gather(*map(one, range(500))), 60)

    positions = asyncio.run(many())
    assert all(map(log.is_durable, positions)) and positions == sorted(positions)
    assert log._bell._wishes == []


def test_a_task_that_was_given_up_leaves_nothing_behind(place):
    async def impatient(queue: heliostat.log.Queue) -> None:
        for _ in range(20):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(queue.get(), 0.001)
        assert queue._bell._wishes == [] and not queue._bell._watched

    with heliostat.log.open_queue(place, create=BYTES) as queue:
        asyncio.run(impatient(queue))


def test_tasks_take_what_others_push_and_give_back(place):
    async def run(queue: heliostat.log.Queue) -> list[bytes]:
        taking = [asyncio.create_task(queue.get()) for _ in range(3)]
        await asyncio.sleep(0)
        for job in (b"a", b"b"):
            await queue.push(job)
        done, _ = await asyncio.wait(taking, timeout=60, return_when=asyncio.FIRST_COMPLETED)
        done.pop().result().give_back()
        items = await asyncio.wait_for(asyncio.gather(*taking), 60)
        return sorted(bytes(item) for item in items)

    with heliostat.log.open_queue(place, create=BYTES) as queue:
        assert set(asyncio.run(run(queue))) == {b"a", b"b"}


def test_a_close_settles_the_tasks_that_wait(place):
    async def run(queue: heliostat.log.Queue) -> None:
        taking = asyncio.create_task(queue.get())
        await asyncio.sleep(0.01)
        queue.close()
        with pytest.raises(ValueError, match="closed"):
            await asyncio.wait_for(taking, 60)

    asyncio.run(run(heliostat.log.open_queue(place, create=BYTES)))


def test_a_callback_hears_of_its_entry_and_may_append(log):
    heard, told = threading.Event(), []

    def second(position, error):
        told.append((position, error))
        heard.set()

    def first(position, error):
        told.append((position, error))
        log.append(b"second", then=second)

    log.append(b"first", then=first)
    assert heard.wait(60)
    assert [error for _, error in told] == [None, None]
    assert [bytes(entry) for entry in log] == [b"first", b"second"]


def test_the_descriptor_is_readable_when_something_was_acknowledged(log):
    descriptor = log.fileno()
    appended = log.append(b"x")
    while not appended.is_durable:
        assert select.select([descriptor], [], [], 60)[0]
        log.drain()
    assert select.select([descriptor], [], [], 0)[0] == []


def test_a_closed_log_lets_go_of_its_place_whatever_is_left_of_it(place):
    log = heliostat.log.open(place, create=BYTES)
    appended, entries = log.append(b"x"), iter(log)
    log.close()
    log.close()
    for use in (lambda: next(entries), lambda: log.append(b"y"), lambda: appended.is_durable):
        with pytest.raises(ValueError, match="closed"):
            use()
    with heliostat.log.open(place) as again:
        assert [bytes(entry) for entry in again] == [b"x"]


def test_an_item_is_acknowledged_by_its_block_or_given_back(place):
    with heliostat.log.open_queue(place, create=BYTES) as queue:
        queue.push_sync(b"job")
        with pytest.raises(KeyError), queue.pop() as item:
            raise KeyError(item.payload)
        with queue.pop() as item:
            assert bytes(item) == b"job"
        assert queue.pop(0.0) is None
        with pytest.raises(heliostat.NoEntry):
            item.acknowledge()


def test_a_reader_follows_a_writer(place, log, other):
    follower = other(
        "import sys, heliostat\n"
        "for number, entry in enumerate(heliostat.log.read(sys.argv[1]).follow()):\n"
        "    print(bytes(entry).decode(), flush=True)\n",
        place,
    )
    for number in range(5):
        log.append_sync(b"%d" % number)
        assert follower.stdout.readline() == f"{number}\n"


def test_damage_has_its_position(place):
    with heliostat.log.open(place, create=BYTES) as log:
        positions = [log.append_sync(b"x" * 100) for _ in range(3)]
    with place.open("r+b") as file:
        file.seek(8192 + positions[1].at + 40)
        file.write(b"?")
    with heliostat.log.open(place) as log, pytest.raises(heliostat.Damaged) as raised:
        list(log)
    assert raised.value.position == positions[1]
    assert isinstance(raised.value, heliostat.Corrupt)


def test_what_was_appended_is_durable_at_the_interpreters_end(place, other):
    writer = other(
        "import sys, heliostat\n"
        "log = heliostat.log.open(sys.argv[1], create=1 << 18)\n"
        "for number in range(100):\n"
        "    log.append(b'%d' % number)\n",
        place,
    )
    assert writer.wait(60) == 0, writer.stderr.read()
    with heliostat.log.read(place) as reader:
        assert [bytes(entry) for entry in reader] == [b"%d" % number for number in range(100)]


def test_a_forked_child_has_no_part_in_it(place, log):
    entries = iter(log)

    def child():
        for use in (lambda: log.append(b"x"), lambda: next(entries), log.close):
            with pytest.raises(heliostat.Forked):
                use()

    assert in_child(child) == "None"
    log.append_sync(b"parent")
    assert [bytes(entry) for entry in log] == [b"parent"]


def test_a_log_that_is_forgotten_lets_go_of_its_place(place):
    log = heliostat.log.open(place, create=BYTES)
    log.append(b"kept")
    del log
    gc.collect()
    with heliostat.log.open(place) as again:
        assert [bytes(entry) for entry in again] == [b"kept"]
    assert os.path.getsize(place) == BYTES
