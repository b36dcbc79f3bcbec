"""Names as files below a mount: ordinary programs list, read, map, copy and write them beside a live producer."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
import socket
import stat
import subprocess
import threading
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Side
from mounts import Holder, holder_program, mounted, why_not  # noqa: F401

pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
MIB = 1 << 20


@pytest.fixture(scope="module")
def names(holder_program):  # noqa: F811
    """A control plane, a program that has names, and a mount of them."""
    with Harness() as harness:
        holder = Holder.start(harness, holder_program)
        with mounted(harness) as folder:
            yield harness, holder, folder


def run(*words, **more) -> str:
    """An ordinary program's output."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(data: bytes) -> set[int]:
    """The different numbers that a version's bytes are."""
    return set(memoryview(data).cast("Q"))


def test_the_root_lists_the_services_and_status_is_json(names):
    harness, _, folder = names
    assert sorted(os.listdir(folder)) == ["lock", "memory", "net", "rpc", "sessions", "snapshot", "status", "store"]
    told = json.loads(run("cat", folder / "status"))
    assert told["pid"] == harness.control_plane()
    assert stat.S_ISDIR(os.stat(folder / "net").st_mode)
    assert run("wc", "-c", folder / "status").split()[0] != "0"


def test_versions_are_files_and_current_is_the_newest(names):
    _, holder, folder = names
    assert holder.tell(f"snapshot heat {MIB}") == "snapshot"
    first = holder.tell("publish 7").split()[1]
    here = folder / "snapshot/heat"
    assert {first, "current", "@about"} <= set(os.listdir(here))
    assert numbers((here / "current").read_bytes()) == {7}
    with open(here / "current", "rb") as opened:
        second = holder.tell("publish 8").split()[1]
        assert numbers((here / "current").read_bytes()) == {8}
        assert numbers(opened.read()) == {7}, "an open file stays the version that it was"
        opened.seek(MIB - 8)
        assert opened.read(100) == (7).to_bytes(8, "little")
        assert os.pread(opened.fileno(), 16, MIB) == b""
        with mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert len(mapped) == MIB and numbers(mapped[:]) == {7}
    assert numbers((here / second).read_bytes()) == {8}
    assert "numbers" in run("cat", here / "@about")


def test_ordinary_programs_read_a_version(names, tmp_path):
    _, holder, folder = names
    holder.tell("publish 21")
    current = folder / "snapshot/heat/current"
    wanted = hashlib.md5((21).to_bytes(8, "little") * (MIB // 8)).hexdigest()
    assert run("md5sum", current).split()[0] == wanted
    run("cp", current, tmp_path / "copy")
    assert run("md5sum", tmp_path / "copy").split()[0] == wanted
    run("dd", f"if={current}", f"of={tmp_path}/part", "bs=4096", "skip=3", "count=2", "status=none")
    assert (tmp_path / "part").stat().st_size == 8192
    line = run("ls", "-l", current).split()
    assert line[0].startswith("-r--------") and line[4] == str(MIB)
    assert run("tail", "-c", "8", current).encode("latin1")[:1] == b"\x15"
    with pytest.raises(OSError):
        open(current, "r+b")


def test_every_reader_of_a_racing_producer_sees_one_version(names):
    _, holder, folder = names
    holder.begin("race")
    current, torn = folder / "snapshot/heat/current", []

    def read() -> None:
        for _ in range(40):
            found = numbers(current.read_bytes())
            if len(found) != 1:
                torn.append(found)

    readers = [threading.Thread(target=read) for _ in range(8)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert holder.tell("publish 5").startswith("raced")
    holder.said += 1
    assert not torn


def test_a_memory_region_is_read_and_written_like_a_disk(names, tmp_path):
    _, holder, folder = names
    holder.tell("region kv/a 65536 0 0")
    region = folder / "memory/kv/a"
    assert region.stat().st_size == 65536 and stat.S_IMODE(region.stat().st_mode) == 0o600
    holder.tell("poke 4096 hello")
    assert region.read_bytes()[4096:4101] == b"hello"
    (tmp_path / "new").write_bytes(b"world")
    run("dd", f"if={tmp_path}/new", f"of={region}", "bs=1", "seek=100", "conv=notrunc", "status=none")
    assert holder.tell("peek 100 5") == "peeked world"
    run("cp", tmp_path / "new", region)
    assert holder.tell("peek 0 5") == "peeked world"
    assert region.stat().st_size == 65536, "an opening that empties a file leaves a disk as it is"
    with open(region, "r+b", buffering=0) as opened:
        assert os.pwrite(opened.fileno(), b"0123456789", 65530) == 6
        with pytest.raises(OSError) as error:
            os.pwrite(opened.fileno(), b"x", 65536)
        assert error.value.errno == 28
        with pytest.raises(OSError):
            opened.truncate(100)
        opened.truncate(131072)
    assert region.stat().st_size == 131072 and region.read_bytes()[65530:65536] == b"012345"
    with pytest.raises(OSError):
        region.unlink()


def test_a_name_that_begins_others_is_a_folder_with_itself_in_it(names):
    _, holder, folder = names
    holder.tell("region deep 4096 0 0")
    assert (folder / "memory/deep").is_file()
    holder.tell("region deep/" + "x" * 59 + " 8192 0 0")
    here = folder / "memory/deep"
    assert sorted(os.listdir(here)) == ["@", "x" * 59]
    assert (here / "@").stat().st_size == 4096 and (here / ("x" * 59)).stat().st_size == 8192
    holder.tell(f"snapshot heat/1 {4096}")
    holder.tell("publish 3")
    version = next(name for name in os.listdir(folder / "snapshot/heat/1") if name.isdigit())
    assert (folder / "snapshot/heat/1" / version).stat().st_size == 4096
    for wrong in ("x" * 255, "no such", "~7", "@9.9", "a b", "\udcff"):
        assert not (folder / "memory" / wrong).exists()
    with pytest.raises(OSError):
        os.listdir(folder / "snapshot/heat/1" / version)


def test_locks_functions_addresses_and_sessions_are_texts(names):
    harness, holder, folder = names
    holder.tell("lock jobs/0")
    told = dict(line.split(None, 1) for line in (folder / "lock/jobs/0").read_text().splitlines())
    assert told["kind"] == "lock" and told["held"] == "1" and told["state"] == "whole"
    holder.tell("serve kv/get")
    assert "servers        1" in (folder / "rpc/kv/get").read_text()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = harness.start(Side.HELIOSTAT, ["python3", "-m", "http.server", str(port), "--bind", "127.0.0.1"], name="server")
    address = folder / f"net/127.0.0.1:{port}"
    kernel_view.wait_until(address.exists, 60, "an address")
    assert f"listener          {server.pid} " in address.read_text()
    assert json.loads((folder / f"sessions/{server.pid}").read_text())["pid"] == server.pid
    assert str(server.pid) in os.listdir(folder / "sessions")
    server.kill()
    server.process.wait()
    kernel_view.wait_until(lambda: not address.exists(), 60, "the address to go")


def test_a_region_whose_producer_was_killed_is_read_on(names, holder_program):  # noqa: F811
    harness, _, folder = names
    producer = Holder.start(harness, holder_program)
    producer.tell("snapshot orphan 8192")
    producer.tell("publish 4")
    current = folder / "snapshot/orphan/current"
    assert numbers(current.read_bytes()) == {4}
    producer.kill()
    kernel_view.wait_until(
        lambda: "/snapshot/orphan" not in {one["name"] for one in harness.status()["regions"]}, 60, "the end"
    )
    assert numbers(current.read_bytes()) == {4}
    assert "producer     gone" in (folder / "snapshot/orphan/@about").read_text()
    follower = Holder.start(harness, holder_program)
    follower.tell("snapshot orphan 4096")
    follower.tell("publish 6")
    assert numbers(current.read_bytes()) == {6}, "who has the name now is who is read"
    lasting = Holder.start(harness, holder_program)
    lasting.tell("region lasting 4096 1 0")
    lasting.tell("poke 0 still")
    lasting.kill()
    follower.kill()
    assert (folder / "memory/lasting").read_bytes()[:5] == b"still"


def test_a_tree_of_names_is_walked_and_copied(names, tmp_path):
    _, holder, folder = names
    holder.tell("publish 9")
    run("find", folder / "memory", folder / "lock", folder / "rpc", "-type", "f")
    shutil.copytree(folder / "memory", tmp_path / "copy")
    assert Path(tmp_path / "copy/kv/a").stat().st_size == 131072
