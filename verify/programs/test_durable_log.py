"""redis-server whose flushes go to a log: `heliostat run --durable '*.aof' --log PATH`.

A crash of the machine is played: the server is killed, its file is put into a state that a page cache
may have left, which has nothing of what the kernel had not been told to write; then `heliostat recover`
puts back what the log has. HELIOSTAT_TEST_KILLS sets how many kills there are.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Program, Side
from test_durable_redis import CLIENT, CONNECTIONS, acknowledged, server

KILLS = int(os.environ.get("HELIOSTAT_TEST_KILLS", "3"))
PAGE = 4096

pytestmark = pytest.mark.heliostat


def start(harness: Harness, folder: Path, log: Path, side: Side = Side.HELIOSTAT) -> tuple[int, Program]:
    told = {"HELIOSTAT_DURABLE": "*.aof", "HELIOSTAT_DURABLE_LOG": log} if side is Side.HELIOSTAT else {}
    return server(harness, side, folder, **told)


def load(harness: Harness, port: int) -> Program:
    return harness.start(Side.HELIOSTAT, [sys.executable, "-c", CLIENT, port, CONNECTIONS, 10**9])


def replies(client: Program, count: int) -> None:
    kernel_view.wait_until(lambda: client.output().count("\n") >= count, 120, f"{count} replies")


def explained(harness: Harness, program: Program) -> dict:
    return json.loads(harness.call("explain", str(program.pid), "--json"))


def growing(folder: Path) -> Path:
    """The file that is appended to now."""
    return max(folder.glob("appendonlydir/*.incr.aof"), key=lambda path: int(path.name.split(".")[2]))


def check(harness: Harness, folder: Path, keys: dict[int, float]) -> None:
    """redis-check-aof has nothing to say, and a Redis without Heliostat has all keys."""
    manifest = next(folder.glob("appendonlydir/*.manifest"))
    checked = subprocess.run(["redis-check-aof", manifest], capture_output=True, text=True, timeout=120)
    truncated = "AOF analyzed" in checked.stdout and "is not valid" in checked.stdout
    assert checked.returncode == 0 or truncated, checked.stdout
    port, program = start(harness, folder, folder, Side.PLAIN)
    asked = "".join(f"GET key:{number}\n" for number in keys)
    answer = subprocess.run(["redis-cli", "-p", str(port)], input=asked, capture_output=True, text=True, timeout=120)
    # One that found its port taken has ended, and another's Redis has answered.
    assert (answer.returncode, program.process.poll()) == (0, None), answer.stderr + program.output()
    program.kill()
    program.process.wait()
    assert answer.stdout.split() == [f"key:{number}" for number in keys]


def recover(log: Path, *words: str) -> str:
    done = subprocess.run([BINARY, "recover", *words, log], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_flushes_go_to_the_log_and_the_file_has_everything_after_a_kill(harness, tmp_path):
    log = tmp_path / "log"
    port, program = start(harness, tmp_path, log)
    client = load(harness, port)
    replies(client, 2000)
    counters = explained(harness, program)["counters"]
    assert counters["logged_flushes"] > 50, counters
    assert counters["durable_flushes"] - counters["logged_flushes"] <= 3, counters
    program.kill()
    assert client.wait(60) == 0, client.errors()
    check(harness, tmp_path, acknowledged(client.output()))


def crash(path: Path, seed: int) -> None:
    """What a page cache may leave of a file of which the first page alone was flushed."""
    chosen, content = random.Random(seed), bytearray(path.read_bytes())
    with path.open("r+b") as file:
        if seed % 3 == 0:
            file.truncate(min(PAGE, len(content)))
        for at in range(PAGE, len(content), PAGE):
            if seed % 3 == 1 and chosen.random() < 0.5:
                file.seek(at)
                file.write(bytes(min(PAGE, len(content) - at)))
        if seed % 3 == 2:
            file.truncate(chosen.randrange(PAGE, len(content)))


@pytest.mark.parametrize("seed", range(KILLS))
def test_what_a_crash_takes_from_the_file_the_log_puts_back(harness, tmp_path, seed):
    log = tmp_path / "log"
    port, program = start(harness, tmp_path, log)
    client = load(harness, port)
    replies(client, random.Random(seed).randrange(300, 3000))
    program.kill()
    assert client.wait(60) == 0, client.errors()
    program.process.wait()
    crash(growing(tmp_path), seed)
    assert "bytes were put back" in recover(log, "--force")
    check(harness, tmp_path, acknowledged(client.output()))
    assert recover(log) == "", "nothing is left to recover"


def test_the_file_may_be_written_anew_under_load(harness, tmp_path):
    log = tmp_path / "log"
    port, program = start(harness, tmp_path, log)
    client = load(harness, port)
    for round in range(3):
        replies(client, 1000 * (round + 1))
        before = growing(tmp_path)
        subprocess.run(["redis-cli", "-p", str(port), "bgrewriteaof"], check=True, capture_output=True, timeout=60)
        kernel_view.wait_until(lambda: growing(tmp_path) != before and not before.exists(), 60, "a new file")
    first = explained(harness, program)["counters"]["logged_flushes"]
    replies(client, client.output().count("\n") + 1000)
    assert explained(harness, program)["counters"]["logged_flushes"] > first + 50, "the new file has the log too"
    program.kill()
    assert client.wait(60) == 0, client.errors()
    program.process.wait()
    # Its last page alone: of a file that was begun under load the first flush is of some length.
    with growing(tmp_path).open("r+b") as file:
        file.truncate(os.fstat(file.fileno()).st_size - PAGE)
    assert "bytes were put back" in recover(log, "--force")
    check(harness, tmp_path, acknowledged(client.output()))


def test_a_run_recovers_before_its_program_reads_and_says_what_it_could_not(harness, tmp_path):
    log = tmp_path / "log"
    port, program = start(harness, tmp_path, log)
    client = load(harness, port)
    replies(client, 500)
    program.kill()
    assert client.wait(60) == 0, client.errors()
    program.process.wait()
    # The machine has not crashed: nothing is missing, and nothing is told.
    port, program = start(harness, tmp_path, log)
    assert "put back" not in program.errors()
    count = subprocess.run(["redis-cli", "-p", str(port), "dbsize"], capture_output=True, text=True, timeout=60)
    assert int(count.stdout) >= len(acknowledged(client.output()))


# Two children, one after the other; the first leaves the log with entries.
TREE = """
import subprocess, sys
CHILD = '''
import os, sys
fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for number in range(50):
    os.write(fd, b"entry")
    os.fdatasync(fd)
print("done", flush=True)
os.kill(os.getpid(), 9)
'''
for turn in range(2):
    subprocess.run([sys.executable, "-c", CHILD, sys.argv[1]])
"""


def test_the_next_program_of_a_tree_takes_the_log_over(harness, tmp_path):
    told = {"HELIOSTAT_DURABLE": "*.aof", "HELIOSTAT_DURABLE_LOG": str(tmp_path / "log")}
    path = tmp_path / "x.aof"
    program = harness.run(Side.HELIOSTAT, [sys.executable, "-c", TREE, path], env=told)
    assert program.output().split() == ["done", "done"], program.errors()
    whole = path.read_bytes()
    assert whole == b"entry" * 100
    os.truncate(path, 300)
    assert "bytes were put back" in recover(tmp_path / "log", "--force")
    assert path.read_bytes() == whole


def test_who_may_not_have_the_log_flushes_the_file_and_says_why(harness, tmp_path):
    log = tmp_path / "log"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, one = start(harness, tmp_path / "a", log)
    second, other = start(harness, tmp_path / "b", log)
    for port in (first, second):
        subprocess.run(["redis-cli", "-p", str(port), "set", "k", "v"], check=True, capture_output=True, timeout=60)
        subprocess.run(["redis-cli", "-p", str(port), "set", "k", "w"], check=True, capture_output=True, timeout=60)
    assert explained(harness, one)["counters"]["logged_flushes"] > 0
    told = explained(harness, other)
    assert told["counters"]["logged_flushes"] == 0 and told["unlogged_reasons"]["LogInUse"] > 0, told


# Writes a file and flushes it by the log, then changes it otherwise, flushes that, and kills itself.
CHANGES = """
import os, sys
way, path = sys.argv[1:]
fd = os.open(path, os.O_RDWR | os.O_CREAT | (os.O_APPEND if way == "appended" else 0))
def put(text):
    os.write(fd, text)
    os.fdatasync(fd)
for number in range(50):
    put(b"old %03d\\n" % number)
if way == "middle":
    os.lseek(fd, 16, 0)
    put(b"NEW")
if way == "middle_at":
    os.pwrite(fd, b"NEW", 16)
    os.fdatasync(fd)
if way == "cut":
    os.ftruncate(fd, 24)
    os.lseek(fd, 0, 2)
    put(b"NEW")
if way == "emptied":
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
    os.lseek(fd, 0, 0)
    put(b"NEW")
if way == "doubled":
    other = os.dup(fd)
    os.lseek(other, 16, 0)
    os.write(other, b"NEW")
    os.fdatasync(fd)
if way == "opened":
    other = os.open(path, os.O_WRONLY)
    os.pwrite(other, b"NEW", 16)
    os.fdatasync(fd)
if way == "flushed_by_another":
    other = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(other, b"more")
    os.fdatasync(other)
    os.pwrite(fd, b"NEW", 16)
    os.fdatasync(fd)
if way == "child":
    if os.fork() == 0:
        os.pwrite(fd, b"NEW", 16)
        os._exit(0)
    os.wait()
    os.fdatasync(fd)
if way == "replaced":
    os.rename(path, path + ".old")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT)
    put(b"NEW")
os.kill(os.getpid(), 9)
"""
WAYS = ["middle", "middle_at", "cut", "emptied", "doubled", "opened", "flushed_by_another", "child", "replaced"]


def change(harness: Harness, way: str, path: Path, log: Path) -> bytes:
    told = {"HELIOSTAT_DURABLE": "*.aof", "HELIOSTAT_DURABLE_LOG": str(log)}
    program = harness.start(Side.HELIOSTAT, [sys.executable, "-c", CHANGES, way, path], env=told)
    program.wait(60)
    assert not program.errors()
    return path.read_bytes()


@pytest.mark.parametrize("way", WAYS)
def test_what_was_changed_otherwise_is_not_undone(harness, tmp_path, way):
    path, log = tmp_path / "x.aof", tmp_path / "log"
    content = change(harness, way, path, log)
    assert b"NEW" in content
    recover(log, "--force")
    assert path.read_bytes() == content


def test_what_was_appended_is_put_back(harness, tmp_path):
    path, log = tmp_path / "x.aof", tmp_path / "log"
    content = change(harness, "appended", path, log)
    os.truncate(path, 8)
    assert "bytes were put back" in recover(log, "--force")
    assert path.read_bytes() == content
