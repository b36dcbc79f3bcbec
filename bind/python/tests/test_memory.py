"""Memory regions between processes: bytes, words, arrays, rights, ends."""

from __future__ import annotations

import gc
import os
import threading
import time

import heliostat
import numpy as np
import pytest
from test_processes import in_child

KEEP = """
import sys, heliostat
region = heliostat.memory.open().allocate(4096, name=sys.argv[1])
region.write(0, b"begun")
print(region.identity, flush=True)
sys.stdin.readline()
"""

COUNT = """
import sys, heliostat
region = heliostat.memory.open().map(sys.argv[1])
print("mapped", flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[2])):
    region.fetch_add(8, 1)
    while region.compare_swap(16, 0, 1) != 0:
        pass
    word = int.from_bytes(region.read(24, 8), sys.byteorder) + 1
    region.write(24, word.to_bytes(8, sys.byteorder))
    assert region.swap(16, 0) == 1
"""

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


@pytest.fixture(scope="module")
def memory():
    return heliostat.memory.open()


@pytest.fixture
def region(memory, name):
    with memory.allocate(4096, name=name) as region:
        yield region


def go(process):
    process.stdin.write("go\n")
    process.stdin.flush()


def test_two_processes_share_a_named_region(memory, name, other):
    keeper = other(KEEP, name)
    identity = keeper.stdout.readline().strip()
    with memory.map(name) as region:
        assert (region.identity, len(region), region.path) == (identity, 4096, "direct")
        assert region.read(0, 6) == b"begun\0"
        assert (region.name, region.rights) == (name, "read,write,atomic")
        with heliostat.memory.Memory().map(name, "read") as again:
            region.write(4091, np.frombuffer(b"ended", "u1"))
            found = bytearray(7)
            assert again.read_into(4089, found) == 7
            assert found == b"\0\0ended"


def test_a_region_is_gone_once_its_allocator_is_killed(memory, name, other):
    keeper = other(KEEP, name)
    identity = keeper.stdout.readline().strip()
    region = memory.map(name)
    seen = region.array()
    keeper.kill()
    keeper.wait()
    with pytest.raises(heliostat.Gone, match=f"{identity} is gone"):
        while True:  # until the control plane has noticed
            region.read(0, 5)
            time.sleep(0.01)
    with pytest.raises(heliostat.NotFound, match="no such name"):
        memory.map(name)
    assert bytes(seen[:5]) == b"begun"
    with memory.allocate(4096) as fresh:
        fresh.set(0, 4096, 255)
        assert bytes(seen[:6]) == b"begun\0"  # nobody gets the bytes that an array shows


def test_words_of_four_processes_add_up(region, name, other):
    times = 2000
    processes = [other(COUNT, name, times) for _ in range(4)]
    assert [process.stdout.readline() for process in processes] == ["mapped\n"] * 4
    for process in processes:
        go(process)
    assert [process.wait(60) for process in processes] == [0] * 4
    assert region.fetch_add(8, 0) == 4 * times
    assert region.array("u8", 1, 24)[0] == 4 * times  # under the lock, which is a word


def test_words_are_64_bits_with_or_without_a_sign(region):
    assert region.swap(0, 2**64 - 1) == 0
    assert region.fetch_add(0, -3) == 2**64 - 1
    assert region.compare_swap(0, -4, 7) == 2**64 - 4
    assert region.swap(0, 0) == 7
    with pytest.raises(OverflowError, match="64 bits"):
        region.fetch_add(0, 2**64)
    with pytest.raises(TypeError):
        region.fetch_add(0, "1")
    with pytest.raises(heliostat.InvalidRegion, match="multiple of 8"):
        region.swap(4, 0)


def test_an_array_shares_its_bytes_between_processes(region, name, other):
    mine = region.array("f8", (10, 10), 64)
    mine[...] = np.arange(100).reshape(10, 10)
    process = other(DOUBLE, name)
    assert float(process.stdout.readline()) == 2 * 4950
    assert mine[9, 9] == 198
    go(process)
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


def test_bytes_outside_the_region_are_refused_and_nothing_is_touched(region):
    for offset, bytes in ((4090, 7), (4097, 0), (2**63, 8)):
        with pytest.raises(heliostat.InvalidRegion, match="4096"):
            region.set(offset, bytes, 1)
    with pytest.raises(heliostat.InvalidRegion, match="it has 4096"):
        region.read(0, 1 << 50)
    with pytest.raises(OverflowError):
        region.read(-1, 1)
    assert not region.array().any()


def test_copies_go_within_and_between_regions(region, memory):
    region.write(0, b"abcdef")
    region.copy_to(0, region, 2, 6)
    assert region.read(0, 8) == b"ababcdef"
    with memory.allocate(16) as second:
        region.copy_to(2, second, 10, 6)
        assert second.read(8, 8) == b"\0\0abcdef"
        with pytest.raises(heliostat.InvalidRegion, match=second.identity):
            region.copy_to(0, second, 12, 6)


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


def test_rights_are_granted_as_a_whole_and_bind(region, memory, name):
    with memory.map(name, "read, atomic") as handle:
        assert handle.rights == "read,atomic"
        for denied, right in (
            (lambda: handle.write(0, b"x"), "write"),
            (lambda: handle.set(0, 1), "write"),
            (lambda: region.copy_to(0, handle, 8, 8), "write"),
        ):
            with pytest.raises(heliostat.Denied, match=f"takes {right}, the handle allows read.atomic"):
                denied()
        for managed in (lambda: handle.grow(8192), lambda: handle.rename(None), lambda: handle.appoint(1)):
            with pytest.raises(heliostat.Denied):
                managed()
        assert handle.fetch_add(0, 1) == 0
    with pytest.raises(ValueError, match='no right "reed"; there are read'):
        memory.map(name, "reed")
    assert region.rights == "read,write,atomic,share,manage"


def test_a_name_is_taken_once_and_given_away(region, memory, name):
    with pytest.raises(heliostat.NameTaken):
        memory.allocate(8, name=name)
    with pytest.raises(heliostat.InvalidName):
        memory.allocate(8, name="a b")
    with pytest.raises(heliostat.InvalidRegion, match="0 bytes"):
        memory.allocate(0)
    region.rename(f"{name}/other")
    with memory.allocate(8, name=name) as second:
        assert memory.map(name).identity == second.identity
        with pytest.raises(heliostat.NameTaken):
            second.rename(region.name)
        assert second.name == name
    region.rename(None)
    assert region.name is None and memory.list(f"{name}/") == ()


def test_a_lasting_region_outlives_its_process_and_is_listed_until_it_is_freed(memory, name, other):
    make = "import sys, heliostat; heliostat.memory.open().allocate(100, sys.argv[1], lasting=True).write(0, b'here')"
    assert other(make, name).wait(60) == 0
    (listed,) = memory.list(name)
    assert (listed.name, listed.nbytes, listed.is_lasting, listed.user) == (name, 100, True, os.getuid())
    with memory.map(name, "read") as reader:
        assert (reader.read(0, 4), reader.identity) == (b"here", listed.identity)
        memory.map(name, "all").free()
        with pytest.raises(heliostat.Gone):
            reader.read(0, 4)
    assert memory.list(name) == ()


def test_a_region_made_lasting_no_more_ends_with_its_handle(memory, name):
    region = memory.allocate(8, name, lasting=True)
    region.set_lasting(False)
    region.unmap()
    with pytest.raises(heliostat.NotFound):
        memory.map(name)


@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_another_user_has_the_same_calls_by_the_delegated_path(region, name, harness):
    def as_nobody(work):
        def become():
            os.setuid(65534)
            return work(heliostat.memory.open())

        return in_child(become)

    def use(memory):
        with memory.map(name, "read,write,atomic", user=0) as theirs:
            long = bytes(range(256)) * 10
            theirs.write(8, long)
            assert theirs.read(8, len(long)) == long and len(theirs) == 4096
            assert [theirs.fetch_add(0, 2), theirs.compare_swap(0, 2, 3), theirs.swap(0, 9)] == [0, 2, 3]
            theirs.copy_to(8, theirs, 4000, 5)
            with pytest.raises(heliostat.InvalidRegion, match="it has 4096"):
                theirs.read(4000, 97)
            with pytest.raises(heliostat.Denied):
                theirs.free()
            return theirs.path

    def show(memory):
        return memory.map(name, "read", user=0).array()

    harness.chmod(0o755)
    (harness / "control.sock").chmod(0o777)
    assert as_nobody(use) == "Denied"
    region.share("read")
    assert as_nobody(use) == "Denied"
    assert as_nobody(show) == "Unsupported"
    region.appoint(65534)
    assert as_nobody(use) == "'delegated'"
    assert region.read(4000, 5) == bytes(range(5)) and region.swap(0, 0) == 9


def test_a_forked_child_maps_by_itself_and_its_arrays_keep_the_bytes(memory, name):
    region = memory.allocate(4096, name=name)
    array = region.array()
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
        return text, bytes(array[:5])

    answers = []
    worker = threading.Thread(target=lambda: answers.append(in_child(child)))
    worker.start()
    assert os.read(ready[0], 1) == b"1"
    assert bytes(array[:5]) == b"child"
    del array
    assert region.unmap() is False  # the child has an array
    with memory.allocate(4096) as fresh:
        fresh.set(0, 4096, 255)
        os.write(go[1], b"1")
        worker.join()
    assert answers == [repr(("Forked", b"child"))]
    for end in (*ready, *go):
        os.close(end)


def test_threads_use_one_region_and_it_is_unmapped_under_them(memory):
    region = memory.allocate(64)
    ended = []

    def add():
        with pytest.raises(ValueError, match="closed"):
            while True:
                region.fetch_add(0, 1)
        ended.append(True)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.2)
    assert region.fetch_add(0, 0) > 0
    region.unmap()
    for thread in threads:
        thread.join(60)
    assert ended == [True] * 4
