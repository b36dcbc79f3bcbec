"""Areas of a store as files: a disk of bytes, and a log as what programs wrote."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from heliostat_run import Harness
from kernel_view import wait_until
from mounts import Holder, holder_program, mounted, why_not  # noqa: F401
from regions import start_control

pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
]
KIB = 1 << 10
AREA_BYTES = 1024 * KIB


@pytest.fixture(scope="module")
def stored():
    """A control plane with a store, and a mount."""
    with Harness(plain=True) as harness:
        start_control(harness)
        path = harness.folder / "store"
        harness.call("store", "init", str(path), "--size", "64M", "--grain", "64K")
        harness.call("store", "attach", str(path))
        harness.call("area", "create", "disk/a", "--size", "1M")
        with mounted(harness) as folder:
            yield harness, folder


def run(*words) -> None:
    """An ordinary program."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_an_area_is_read_and_written_at_any_offset(stored, tmp_path):
    _, folder = stored
    area = folder / "store/disk/a"
    assert os.listdir(folder / "store") == ["disk"] and area.stat().st_size == AREA_BYTES
    assert area.read_bytes() == bytes(AREA_BYTES)
    wanted = bytearray(AREA_BYTES)
    with open(area, "r+b", buffering=0) as opened:
        for offset, text in ((0, b"first"), (511, b"over two"), (70000, b"x" * 9000), (AREA_BYTES - 3, b"end")):
            assert os.pwrite(opened.fileno(), text, offset) == len(text)
            wanted[offset : offset + len(text)] = text
        os.fsync(opened.fileno())
        with pytest.raises(OSError) as error:
            os.pwrite(opened.fileno(), b"x", AREA_BYTES)
        assert error.value.errno == 28
    assert area.read_bytes() == wanted
    run("cp", area, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == wanted
    (tmp_path / "new").write_bytes(os.urandom(AREA_BYTES))
    run("cp", tmp_path / "new", area)
    run("cmp", tmp_path / "new", area)


def test_truncating_an_area_is_giving_it_another_size(stored):
    harness, folder = stored
    harness.call("area", "create", "disk/b", "--size", "128K")
    area = folder / "store/disk/b"
    os.truncate(area, 256 * KIB)
    assert area.stat().st_size == 256 * KIB
    os.truncate(area, 64 * KIB)
    assert len(area.read_bytes()) == 64 * KIB
    with pytest.raises(OSError) as error:
        os.truncate(area, 1000)
    assert error.value.errno == 22
    with pytest.raises(OSError) as error:
        os.truncate(area, 1 << 30)
    assert error.value.errno == 28
    harness.call("area", "delete", "disk/b")
    assert not area.exists()


def test_the_commands_do_the_same(stored, tmp_path):
    harness, _ = stored
    (tmp_path / "new").write_bytes(b"by cp")
    harness.call("cp", str(tmp_path / "new"), "/store/disk/a")
    harness.call("cp", "/store/disk/a", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes()[:5] == b"by cp"
    listed = json.loads(harness.call("ls", "--json", "/store/disk"))
    assert listed[0]["name"] == "a" and listed[0]["bytes"] == AREA_BYTES


def test_a_log_is_the_lines_that_a_program_wrote_and_its_records(stored, holder_program):  # noqa: F811
    harness, folder = stored
    writer = Holder.start(harness, holder_program)
    assert writer.tell("log /store/orders/today 1048576") == "log"
    here = folder / "store/orders/today"
    assert sorted(os.listdir(here)) == ["data", "records"] and (here / "data").stat().st_size == 0
    for number in range(200):
        writer.tell(f"append order-{number}")
    wanted = "".join(f"order-{number}\n" for number in range(200))
    # What has just been appended is seen a moment later.
    wait_until(lambda: (here / "data").read_text() == wanted, what="all of the log")
    with open(here / "data") as opened:
        assert opened.read(100) == wanted[:100]
        writer.tell("append order-200")
        wait_until(lambda: (here / "data").read_text() == wanted + "order-200\n", what="what is opened now has more")
        assert opened.read() == wanted[100:], "what is open is what the log was"
    records = [json.loads(line) for line in (here / "records").read_text().splitlines()]
    assert [record["text"] for record in records] == (wanted + "order-200\n").splitlines(keepends=True)
    assert [record["sequence"] for record in records] == sorted(record["sequence"] for record in records)
    run("grep", "-q", "order-150", here / "data")
    # Its owner is down, and so nobody has it open.
    writer.kill()
    assert (here / "data").read_text() == wanted + "order-200\n"
    assert harness.call("cat", "/store/orders/today/data") == wanted + "order-200\n"
    again = Holder.start(harness, holder_program)
    again.tell("log /store/orders/today 1048576")
    again.tell("append order-201")
    wait_until(lambda: (here / "data").read_text().endswith("order-200\norder-201\n"), what="the next writer's entry")
    again.kill()


def test_a_log_that_is_none_yet_says_so(stored):
    harness, folder = stored
    harness.call("area", "create", "empty", "--size", "128K", "--kind", "log")
    assert sorted(os.listdir(folder / "store/empty")) == ["data", "records"]
    with pytest.raises(OSError) as error:
        (folder / "store/empty/data").read_bytes()
    assert error.value.errno == 95
    with pytest.raises(RuntimeError, match="no header block of a log"):
        harness.call("cat", "/store/empty/records")
