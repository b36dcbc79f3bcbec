"""Memory regions between processes: bytes, words, rights, ends."""

from __future__ import annotations

import os
import sys
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

OUTLIVE = """
import os, signal, sys, time
os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
os.environ["HELIOSTAT_SOCKET"] = sys.argv[1] + "/control.sock"
import heliostat, heliostat._binaries
memory = heliostat.memory.open()
region = memory.allocate(64)
region.write(0, b"kept.")
os.kill(heliostat.status()["pid"], signal.SIGKILL)
time.sleep(0.2)
region.array()[4] = ord("!")
region.swap(8, 7)
print(region.read(0, 5), region.fetch_add(8, 0), flush=True)
for ask in (lambda: region.grow(128), lambda: memory.allocate(64)):
    try:
        ask()
    except heliostat.Error as error:
        print(type(error).__name__, flush=True)
again = heliostat.memory.open().allocate(64)
again.write(0, b"fresh")
print(again.read(0, 5))
heliostat._binaries.ask(["stop"])
"""


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


def test_other_threads_run_while_bytes_are_copied(memory):
    begun, ended = threading.Event(), []

    def follow():
        begun.wait()
        ended.append(True)

    thread = threading.Thread(target=follow)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # only who lets go of the interpreter lets others run
    try:
        with memory.allocate(1 << 20) as region:
            buffer = bytearray(1 << 20)
            thread.start()
            begun.set()
            while not ended:
                region.read_into(0, buffer)
    finally:
        sys.setswitchinterval(interval)
    thread.join()


def test_mapped_regions_stay_when_the_control_plane_ends_and_new_ones_take_a_new_session(tmp_path, other):
    ended = other(OUTLIVE, tmp_path)
    out, err = ended.communicate(timeout=100)
    assert (err, ended.returncode) == ("", 0)
    assert out.splitlines() == ["b'kept!' 7", "NoControlPlane", "NoControlPlane", "b'fresh'"]


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
