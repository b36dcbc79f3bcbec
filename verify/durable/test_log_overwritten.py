"""A program that overwrites what the log has of a file: the log is emptied first, so that no recovery undoes it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side

pytestmark = pytest.mark.heliostat

# Appends until the log has bytes of the file, then writes over the last of them.
PROGRAM = """
import fcntl, mmap, os, sys, time
way, path = sys.argv[1:]
file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
for _ in range(20):
    os.write(file, b"x" * 100)
    os.fdatasync(file)
at = os.fstat(file).st_size - 50
if way == "opened":
    os.pwrite(os.open(path, os.O_WRONLY), b"Z", at)
elif way == "no_longer_appended":
    fcntl.fcntl(file, fcntl.F_SETFL, 0)
    os.pwrite(file, b"Z", at)
elif way == "second_no_longer_appended":
    second = os.open(path, os.O_WRONLY | os.O_APPEND)
    fcntl.fcntl(second, fcntl.F_SETFL, 0)
    os.pwrite(second, b"Z", at)
elif way == "at_its_offset":
    os.pwritev(file, [b"Z"], at, 0x20)
elif way == "mapped":
    with mmap.mmap(file, 0) as memory:
        memory[at] = ord("Z")
elif way == "by_a_child":
    if os.fork() == 0:
        os.pwrite(os.open(path, os.O_WRONLY), b"Z", at)
        os._exit(0)
    os.wait()
print("done", flush=True)
time.sleep(60)
"""
WAYS = ["opened", "no_longer_appended", "second_no_longer_appended", "at_its_offset", "mapped", "by_a_child"]


@pytest.fixture(scope="module")
def harness():
    """A harness for the programs of this module."""
    with Harness() as one:
        yield one


def recover(log: Path) -> str:
    words = [BINARY, "recover", "--force", log]
    return subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stderr


def left_by(harness: Harness, folder: Path, way: str) -> tuple[bytes, bytes, str]:
    """What a killed program has left of the file, what recovery has made of it, and said."""
    path, log = folder / "kept.aof", folder / "log"
    words = [BINARY, "run", "--durable", "*.aof", "--log", log, "--", sys.executable, "-c", PROGRAM, way, path]
    program = harness.start(Side.PLAIN, words, name=way)
    kernel_view.wait_until(lambda: "done" in program.output() or program.process.poll(), 60, "the write")
    assert program.process.poll() is None, program.errors()
    program.kill()
    program.process.wait(60)
    before = path.read_bytes()
    said = recover(log)
    return before, path.read_bytes(), said


@pytest.mark.parametrize("way", WAYS)
def test_what_was_overwritten_stays_so(harness, tmp_path, way):
    before, after, said = left_by(harness, tmp_path, way)
    assert before[-50:-49] == b"Z"
    assert after == before, said


def test_what_somebody_else_has_damaged_is_put_back(harness, tmp_path):
    before, after, _ = left_by(harness, tmp_path, "nothing")
    assert after == before
    path, log = tmp_path / "kept.aof", tmp_path / "log"
    words = [BINARY, "run", "--durable", "*.aof", "--log", log, "--", sys.executable, "-c", PROGRAM, "nothing", path]
    program = harness.start(Side.PLAIN, words, name="nothing")
    kernel_view.wait_until(lambda: "done" in program.output() or program.process.poll(), 60, "the appends")
    program.kill()
    program.process.wait(60)
    whole = path.read_bytes()
    with path.open("r+b") as file:
        file.seek(-50, 2)
        file.write(b"Z")
    assert "put back" in recover(log)
    assert path.read_bytes() == whole


@pytest.fixture(scope="module")
def silent_writer(tmp_path_factory) -> Path:
    source = Path(__file__).with_name("silent_writer.c")
    built = tmp_path_factory.mktemp("built") / "silent_writer"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-pthread", "-o", built, source], check=True, timeout=120)
    return built


@pytest.mark.parametrize("way, logged", [("first", 1), ("kept", 2)])
def test_a_write_that_a_flush_may_have_overtaken_is_logged_by_the_next(harness, tmp_path, silent_writer, way, logged):
    path, log = tmp_path / "kept.aof", tmp_path / "log"
    program = harness.start(Side.PLAIN, [BINARY, "run", "--durable", "*.aof", "--log", log, "--", silent_writer, way, path])
    kernel_view.wait_until(lambda: "done" in program.output() or program.process.poll() is not None, 60, "the flushes")
    explained = json.loads(harness.call("explain", str(program.pid), "--json"))
    program.kill()
    program.process.wait(60)
    assert explained["counters"]["logged_flushes"] == logged, explained
    whole = path.read_bytes()
    # The first of the flushes came too early, and the machine has crashed.
    path.write_bytes(whole.replace(b"Z", b"x"))
    assert "put back" in recover(log)
    assert path.read_bytes() == whole and whole.count(b"Z") == 1
