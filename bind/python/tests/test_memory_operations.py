"""Many operations on memory regions at once: in pieces, submitted, polled, awaited, given up."""

from __future__ import annotations

import asyncio
import select

import heliostat
import pytest


@pytest.fixture
def region(memory):
    with memory.allocate(1 << 20) as made:
        yield made


def test_pieces_of_one_call_go_where_they_should(region):
    assert region.write_pieces([(10, b"one"), (500_000, b"three"), (20, b"")]) == 8
    assert region.read_pieces([(500_000, 5), (9, 5), (0, 0)]) == [b"three", b"\0one\0", b""]
    with pytest.raises(heliostat.InvalidRegion, match="it has 1048576"):
        region.read_pieces([(0, 1), (1 << 20, 1)])
    with pytest.raises(heliostat.InvalidRegion):
        region.read_pieces([(0, 1 << 40)])


def test_each_operation_is_told_of_once_and_in_its_words(memory, region):
    operations = memory.operations(8)
    write = operations.write(region, 0, b"12345678abc")
    numbers = [
        operations.fetch_add(region, 64, -1),
        operations.swap(region, 64, 5, urgent=True),
        operations.compare_swap(region, 64, 5, 7),
        operations.copy(region, 0, region, 8, 8),
        operations.set(region, 0, 8, 46),
        operations.read(region, 0, 16),
    ]
    told = {completion.number: completion for completion in (operations.wait(10) for _ in range(7))}
    assert told[write].value() == 11
    assert [told[number].value() for number in numbers] == [0, (1 << 64) - 1, 5, 8, 8, 16]
    assert told[numbers[-1]].data == b"........12345678"
    assert operations.take() is None
    with pytest.raises(heliostat.Idle):
        operations.wait()


def test_what_is_wrong_is_in_the_completion_and_full_is_raised(memory, region):
    operations = memory.operations(1)
    operations.read(region, (1 << 20) - 1, 2)
    with pytest.raises(heliostat.Full):
        operations.read(region, 0, 1)
    completion = operations.wait(10)
    assert isinstance(completion.error, heliostat.InvalidRegion)
    with pytest.raises(heliostat.InvalidRegion):
        completion.value()
    with pytest.raises(heliostat.Full):
        memory.operations(0)
    assert not operations.cancel(completion.number)


def test_a_descriptor_is_readable_while_there_is_something_to_take(memory, region):
    operations = memory.operations()
    poll = select.epoll()
    poll.register(operations.fileno(), select.EPOLLIN)
    assert poll.poll(0) == []
    operations.read(region, 0, 8)
    operations.read(region, 0, 8)
    for _ in range(2):
        assert poll.poll(10)
        operations.take()
    assert (poll.poll(0), len(operations)) == ([], 0)


def test_completions_are_awaited_in_an_event_loop(memory, region):
    async def write_and_read() -> bytes:
        operations = memory.operations()
        operations.write(region, 0, b"awaited")
        assert (await operations.completed()).value() == 7
        operations.read(region, 0, 7)
        found = await asyncio.wait_for(operations.completed(), 10)
        with pytest.raises(heliostat.Idle):
            await operations.completed()
        return found.data

    assert asyncio.run(write_and_read()) == b"awaited"


def test_a_region_that_is_unmapped_stays_until_its_operations_are_taken(memory):
    region, operations = memory.allocate(4096), memory.operations()
    operations.write(region, 0, b"x")
    assert not region.unmap()
    assert operations.wait(10).value() == 1
