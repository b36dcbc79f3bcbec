"""Arrays over the bytes of memory regions: shared, kept, refused."""

from __future__ import annotations

import gc
import os
import threading

import heliostat
import numpy as np
import pytest
from test_processes import in_child

DOUBLE = """
import sys, heliostat
array = heliostat.memory.open().map(sys.argv[1]).array("f8", (10, 10), 64)
array *= 2
print(array.sum(), flush=True)
sys.stdin.readline()
array[0, 0] = -1
print("written", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def region(memory, name):
    with memory.allocate(4096, name=name) as region:
        yield region


def test_an_array_shares_its_bytes_between_processes(region, name, other):
    mine = region.array("f8", (10, 10), 64)
    mine[...] = np.arange(100).reshape(10, 10)
    process = other(DOUBLE, name)
    assert float(process.stdout.readline()) == 2 * 4950
    assert mine[9, 9] == 198
    process.stdin.write("go\n")
    process.stdin.flush()
    assert process.stdout.readline() == "written\n"
    assert mine[0, 0] == -1
    assert region.read(64, 8) == np.float64(-1).tobytes()


def test_an_array_keeps_the_region_after_its_block(memory, name):
    with memory.allocate(4096, name=name) as region:
        array = region.array("u4")
        array[7] = 7
    assert array.shape == (1024,)
    with memory.map(name, "read") as still:
        assert still.read(28, 1) == b"\7"
        with pytest.raises(ValueError, match="closed"):
            region.read(0, 1)
        assert region.is_unmapped
        del array
        gc.collect()
        with pytest.raises(heliostat.Gone):
            still.read(28, 1)


def test_a_region_with_arrays_is_not_freed(region):
    array = region.array()
    with pytest.raises(BufferError, match="arrays"):
        region.free()
    assert region.read(0, 1) == b"\0"
    assert region.unmap() is False
    assert region.unmap() is True
    del array


def test_an_array_is_read_only_without_the_right_to_write(region, memory, name):
    with memory.map(name, "read") as reader:
        array = reader.array("u8", 2)
        assert not array.flags.writeable
        with pytest.raises(ValueError):
            array.flags.writeable = True
        region.fetch_add(8, 5)
        assert array[1] == 5
    with memory.map(name, "write") as writer:
        with pytest.raises(heliostat.Denied, match="takes read"):
            writer.array()


@pytest.mark.parametrize("wrong", [{"offset": 4089, "shape": 8}, {"shape": 0}, {"shape": -1}, {"dtype": "O"}])
def test_an_array_outside_the_region_or_of_nothing_is_refused(region, wrong):
    with pytest.raises(heliostat.InvalidRegion):
        region.array(**wrong)


def test_bytes_in_several_pieces_are_copied_and_have_no_array(memory):
    with memory.allocate(1 << 20) as region, memory.allocate(1 << 20):
        region.set((1 << 20) - 4, 4, 1)
        region.grow(3 << 20)
        assert len(region) == 3 << 20
        with pytest.raises(heliostat.Unsupported, match="several pieces"):
            region.array()
        assert region.array(shape=1 << 20)[-1] == 1
        region.write((1 << 20) - 2, b"abcd")
        assert region.read((1 << 20) - 4, 8) == b"\1\1abcd\0\0"
        assert len(region.read(0, 3 << 20)) == 3 << 20


def test_a_regions_own_array_is_no_buffer_of_it(region):
    for use in (region.write, region.read_into):
        with pytest.raises(ValueError, match="copy_to"):
            use(0, region.array()[8:])
    with pytest.raises(BufferError):
        region.read_into(0, b"read-only")
    with pytest.raises((BufferError, ValueError)):
        region.write(0, np.zeros((4, 4))[:, 1])
    with pytest.raises(TypeError):
        region.write(0, 5)


def test_a_forked_child_maps_by_itself_and_its_arrays_keep_the_bytes(memory, name):
    region = memory.allocate(4096, name=name)
    arrays = [region.array()]
    ready, go = os.pipe(), os.pipe()

    def child():
        try:
            region.read(0, 1)
        except heliostat.Forked as error:
            text = type(error).__name__
        with heliostat.memory.open().map(name) as own:
            own.write(0, b"child")
        os.write(ready[1], b"1")
        assert os.read(go[0], 1) == b"1"
        return text, bytes(arrays[0][:5])

    answers = []
    worker = threading.Thread(target=lambda: answers.append(in_child(child)))
    worker.start()
    assert os.read(ready[0], 1) == b"1"
    assert bytes(arrays[0][:5]) == b"child"
    arrays.clear()
    assert region.unmap() is False  # the child has an array
    with memory.allocate(4096) as fresh:
        fresh.set(0, 4096, 255)
        os.write(go[1], b"1")
        worker.join()
    assert answers == [repr(("Forked", b"child"))]
    with pytest.raises(heliostat.NotFound):
        memory.map(name)  # the child has ended, and with it its hold
    for end in (*ready, *go):
        os.close(end)
