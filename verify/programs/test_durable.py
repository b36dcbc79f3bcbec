"""Durable files: nothing that a program lets out after fdatasync(2) is seen before the device has answered.

The stub here has a device that takes DELAY longer (feature `flush-faults`), or fails.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import durable_stub
import kernel_view
import pytest
from durable_ways import ONCE, ROUNDS, YIELDED, Ways
from heliostat_run import BINARY, Harness, Program, Side

HERE = Path(__file__).resolve().parent
DELAY = 0.06
PATTERN = "*.durable"
WAYS = sorted(name for name in vars(Ways) if not name.startswith("_") and name != "name")
DIRECT = [way for way in WAYS if way.startswith("direct")]
NATIVE = [way for way in WAYS if way.startswith("native")]
IN_FILE = {"other_file", "other_file_at", "other_file_copied", "other_file_longer"}
IN_FOLDER = {"folder_made", "file_made", "link_made"}
LOCAL = {"local_send", "descriptor_sent"}

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def stub() -> Path:
    return durable_stub.build()


def environment(stub: Path, **more) -> dict[str, str]:
    told = {"HELIOSTAT_STUB": stub, "HELIOSTAT_DURABLE": PATTERN, "HELIOSTAT_TEST_FLUSH_DELAY_MS": int(DELAY * 1000)}
    return {name: str(value) for name, value in {**told, **more}.items()}


def told(path: Path) -> list[tuple[float, float]]:
    """When each flush returned, and how long it took, as the program has noted."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(map(float, line.split())) for line in lines if not line.startswith("x")]


def judge(path: Path, seen: list[float], rounds: int) -> None:
    """Every flush returned before the device answered, and all was seen after it."""
    noted = told(path)
    assert len(noted) == len(seen) == rounds, (noted, seen)
    assert min(took for _, took in noted) < DELAY, "the flush was waited for"
    waited = [at - ended for at, (ended, took) in zip(seen, noted)]
    # The device's time began when the flush was asked for at the earliest.
    assert all(wait >= DELAY - took for wait, (_, took) in zip(waited, noted)), waited


def until(changed, rounds: int, program: Program) -> list[float]:
    """When `changed` said so, so many times."""
    seen, ends = [], time.monotonic() + 60
    while len(seen) < rounds and time.monotonic() < ends:
        seen += [time.monotonic()] * changed()
        time.sleep(0.0005)
    assert program.wait() == 0, program.errors()
    return seen


def grown(count):
    """How much a number has grown since it was asked last."""
    last = [count()]

    def more() -> int:
        before, last[0] = last[0], count()
        return last[0] - before

    return more


def start(harness: Harness, stub: Path, way: str, folder: Path, *words, **more) -> Program:
    argv = [sys.executable, HERE / "durable_ways.py", way, folder / "log.durable", folder, *words]
    return harness.start(Side.HELIOSTAT, argv, env=environment(stub), **more)


def watch_descriptor(source, rounds: int, program: Program) -> list[float]:
    """When each byte came."""
    seen = []
    while len(seen) < rounds and select.select([source], [], [], 60)[0]:
        at = time.monotonic()
        seen += [at] * len(os.read(source.fileno(), 1))
    assert program.wait() == 0, program.errors()
    return seen


@pytest.mark.parametrize("way", [way for way in WAYS if way.startswith(("pipe", "child", "image"))])
def test_a_pipe_says_nothing_before_the_flush_has_ended(harness, stub, tmp_path, way):
    reader, writer = os.pipe()
    rounds = 1 if way in ONCE else ROUNDS
    program = [sys.executable, HERE / "durable_ways.py", way, tmp_path / "log.durable", tmp_path]
    argv = [BINARY, "run", "--durable", "none-such", "--durable", PATTERN, "--", *program]
    env = {**harness.environment(), **environment(stub)}
    del env["HELIOSTAT_DURABLE"]
    with subprocess.Popen(list(map(str, argv)), stdout=writer, env=env) as process, os.fdopen(reader, "rb", 0) as source:
        os.close(writer)
        seen = []
        while at := len(os.read(source.fileno(), 1)):
            seen += [time.monotonic()] * at
        assert process.wait(60) == 0
    judge(tmp_path / "log.durable", seen, rounds)


@pytest.mark.parametrize("way", sorted(IN_FILE | IN_FOLDER))
def test_no_other_file_changes_before_the_flush_has_ended(harness, stub, tmp_path, way):
    (tmp_path / "other").touch()
    size = lambda: (tmp_path / "other").stat().st_size  # noqa: E731
    names = lambda: len([*tmp_path.glob("name-*")])  # noqa: E731
    changed = grown(size if way in IN_FILE else names)
    program = start(harness, stub, way, tmp_path)
    judge(tmp_path / "log.durable", until(changed, ROUNDS, program), ROUNDS)


def test_memory_that_is_mapped_after_the_flush_is_not_written_before_it_has_ended(harness, stub, tmp_path):
    program = start(harness, stub, "mapping_made", tmp_path)
    other = tmp_path / "other"
    changed = grown(lambda: int(other.exists() and other.read_bytes()[:1] == b"!"))
    seen = until(changed, 1, program)
    noted = told(tmp_path / "log.durable")
    assert seen[0] - noted[0][0] >= DELAY - noted[0][1]
    # From then on its stores are not seen by the stub: the flush is waited for.
    assert min(took for _, took in noted[1:]) >= DELAY or min(took for _, took in noted[1:]) > 0
    assert noted[0][1] < DELAY


@pytest.mark.parametrize("way", sorted(LOCAL))
def test_a_local_socket_says_nothing_before_the_flush_has_ended(harness, stub, tmp_path, way):
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "local"))
        listener.listen()
        program = start(harness, stub, way, tmp_path)
        with listener.accept()[0] as source:
            seen = watch_descriptor(source, ROUNDS, program)
    judge(tmp_path / "log.durable", seen, ROUNDS)


@pytest.mark.parametrize("way", NATIVE)
def test_a_native_connection_says_nothing_before_the_flush_has_ended(harness, stub, tmp_path, way):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        program = start(harness, stub, way, tmp_path, listener.getsockname()[1])
        with listener.accept()[0] as source:
            seen = watch_descriptor(source, ROUNDS, program)
    judge(tmp_path / "log.durable", seen, ROUNDS)


def test_no_signal_is_sent_before_the_flush_has_ended(harness, stub, tmp_path):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(time.monotonic()))
    try:
        program = start(harness, stub, "signal_sent", tmp_path)
        assert program.wait() == 0, program.errors()
    finally:
        signal.signal(signal.SIGUSR1, before)
    judge(tmp_path / "log.durable", seen, ROUNDS)


def test_no_lock_is_released_before_the_flush_has_ended(harness, stub, tmp_path):
    program = start(harness, stub, "lock_released", tmp_path)
    log = tmp_path / "log.durable"
    kernel_view.wait_until(lambda: log.exists() and log.stat().st_size, 60, "the lock, and a write")
    subprocess.run(["flock", str(tmp_path / "other"), "true"], check=True, timeout=60)
    at = time.monotonic()
    assert program.wait() == 0, program.errors()
    judge(tmp_path / "log.durable", [at], 1)


def test_no_program_ends_before_the_flush_has_ended(harness, stub, tmp_path):
    program = start(harness, stub, "end", tmp_path)
    program.process.wait(60)
    judge(tmp_path / "log.durable", [time.monotonic()], 1)


# Under Heliostat: answers each byte, and says when it came.
PEER = """
import socket, sys, time
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
while True:
    try:
        byte = connection.recv(1)
    except ConnectionResetError:
        print(time.monotonic(), "reset", flush=True)
        break
    at = time.monotonic()
    if byte != b"?":
        print(at, "byte" if byte else "end", flush=True)
    if not byte:
        break
    connection.sendall(byte)
"""


def peer(harness: Harness) -> tuple[int, Program]:
    port = kernel_view.free_port()
    program = harness.start(Side.HELIOSTAT, [sys.executable, "-c", PEER, port], name="peer")
    kernel_view.wait_listening(port, program.process)
    return port, program


def said(peer: Program) -> list[tuple[float, str]]:
    """What the peer saw, and when: a byte, the end, a reset."""
    whole = peer.output().rpartition("\n")[0]
    return [(float(at), what) for at, what in (line.split() for line in whole.splitlines())]


@pytest.mark.parametrize("way", DIRECT)
def test_a_direct_connection_says_nothing_before_the_flush_has_ended(harness, stub, tmp_path, way):
    port, other = peer(harness)
    program = start(harness, stub, way, tmp_path, port)
    assert program.wait() == 0, program.errors()
    rounds = 1 if way in ONCE else ROUNDS
    kernel_view.wait_until(lambda: len(said(other)) >= rounds, 30, "what the peer saw")
    seen = [at for at, _ in said(other)[:rounds]]
    judge(tmp_path / "log.durable", seen, rounds)


def test_who_spins_by_yielding_lets_out_what_is_due(harness, stub, tmp_path):
    port, other = peer(harness)
    program = start(harness, stub, "direct_send_then_yield", tmp_path, port)
    assert program.wait() == 0, program.errors()
    [(ended, _)] = told(tmp_path / "log.durable")
    assert said(other)[0][0] - ended < YIELDED / 2


def test_what_is_held_back_goes_with_a_program_that_is_killed(harness, stub, tmp_path):
    port, other = peer(harness)
    argv = [sys.executable, HERE / "durable_ways.py", "direct_send_then_receive", tmp_path / "log.durable", tmp_path, port]
    slow = environment(stub, HELIOSTAT_TEST_FLUSH_DELAY_MS=30_000)
    program = harness.start(Side.HELIOSTAT, argv, env=slow)
    kernel_view.wait_until(lambda: told(tmp_path / "log.durable"), 60, "the flush")
    time.sleep(0.2)
    killed = time.monotonic()
    program.kill()
    assert other.wait() == 0
    [(at, what)] = said(other)
    assert at >= killed and what in ("end", "reset")


# Three writes, of which the second is lost: no byte that was sent after it is seen.
FAILING = """
import errno, os, socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
for _ in range(3):
    connection.sendall(b"?"); connection.recv(1)
file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
told = []
for number in range(3):
    try:
        os.write(file, b"x")
        os.fdatasync(file)
    except OSError as error:
        told.append(f"flush {number} {errno.errorcode[error.errno]}")
        break
    try:
        connection.send(b"!")
        connection.recv(1)
    except OSError as error:
        told.append(f"send {number} {errno.errorcode[error.errno]}")
print(told)
"""


def test_a_failed_flush_is_told_and_what_rested_on_it_is_never_seen(harness, stub, tmp_path):
    port, other = peer(harness)
    failing = environment(stub, HELIOSTAT_TEST_FLUSH_FAILS=2)
    argv = [sys.executable, "-c", FAILING, port, tmp_path / "log.durable"]
    program = harness.start(Side.HELIOSTAT, argv, env=failing, name="failing")
    assert program.wait() == 0, program.errors()
    assert "flush 2 EIO" in program.output() and "flush 1" not in program.output()
    assert other.wait() == 0
    assert [what for _, what in said(other)] == ["byte", "reset"]


# A flush that fails; what the program does next, before it has heard of that.
FAILED = """
import errno, os, sys
way, folder = sys.argv[1:]
os.chdir(folder)
acts = {
    "rename": lambda: os.rename("log.durable", "other"),
    "unlink": lambda: os.unlink("other"),
    "link": lambda: os.link("log.durable", "new"),
    "folder": lambda: os.mkdir("new"),
    "cut": lambda: os.truncate("other", 0),
    "emptied": lambda: os.open("other", os.O_WRONLY | os.O_TRUNC),
    "made": lambda: os.open("new", os.O_WRONLY | os.O_CREAT),
    "image": lambda: os.execv("/bin/touch", ["touch", "new"]),
    "spawned": lambda: os.waitpid(os.posix_spawn("/bin/touch", ["touch", "new"], {}), 0),
    "signal": lambda: os.kill(os.getppid(), 0),
    "asked": lambda: os.stat("other"),
    "end": lambda: os._exit(0),
}
file = os.open("log.durable", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(file, b"x")
os.fdatasync(file)
try:
    acts[way]()
    answer = "done"
except OSError as error:
    answer = errno.errorcode[error.errno]
try:
    os.fdatasync(file)
except OSError as error:
    print(answer, errno.errorcode[error.errno])
"""
CHANGES = ["rename", "unlink", "link", "folder", "cut", "emptied", "made", "image", "spawned", "signal"]


def left_by_failed(harness: Harness, stub: Path, way: str, folder: Path) -> Program:
    """What a program came to that did this after a flush that has failed; the folder is as it was."""
    (folder / "other").write_text("good")
    program = harness.start(Side.HELIOSTAT, [sys.executable, "-c", FAILED, way, folder], env=environment(stub, HELIOSTAT_TEST_FLUSH_FAILS=1))
    program.process.wait(60)
    assert (folder / "other").read_text() == "good"
    assert {path.name for path in folder.iterdir()} == {"other", "log.durable"}
    return program


@pytest.mark.parametrize("way", CHANGES)
def test_after_a_failed_flush_nothing_changes_before_it_has_been_told(harness, stub, tmp_path, way):
    program = left_by_failed(harness, stub, way, tmp_path)
    assert program.output().split() == ["EIO", "EIO"], program.errors()


def test_after_a_failed_flush_the_program_may_ask_and_does_not_end_well(harness, stub, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    assert left_by_failed(harness, stub, "asked", tmp_path / "a").output().split() == ["done", "EIO"]
    assert left_by_failed(harness, stub, "end", tmp_path / "b").process.returncode == os.EX_IOERR


# A flush that fails, and then the file has another name, or flushes are held back for no more.
TOLD_LATE = """
import errno, mmap, os, sys
way, folder = sys.argv[1:]
os.chdir(folder)
file = os.open("log.durable", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
os.write(file, b"x")
os.fdatasync(file)
if way == "shared":
    try:
        mmap.mmap(-1, 4096)
    except OSError:
        pass
os.stat(".")  # waits for the flush
told = []
for turn in range(2):
    try:
        os.fdatasync(file)
        told.append("done")
    except OSError as error:
        told.append(errno.errorcode[error.errno])
    if turn == 0 and way == "named":
        os.rename("log.durable", "other")
print(*told)
"""


@pytest.mark.parametrize("way", ["named", "shared"])
def test_a_failed_flush_is_told_whatever_the_file_is_by_now(harness, stub, tmp_path, way):
    failing = environment(stub, HELIOSTAT_TEST_FLUSH_FAILS=1)
    program = harness.run(Side.HELIOSTAT, [sys.executable, "-c", TOLD_LATE, way, tmp_path], env=failing)
    assert program.output().split() == ["EIO", "EIO"], program.errors()


def explained(harness: Harness, pid: int) -> dict:
    return json.loads(harness.call("explain", str(pid), "--json"))["unheld_reasons"]


SHARED = """
import mmap, os, sys, time
memory = mmap.mmap(-1, 4096)
import socket
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
file = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT)
began = time.monotonic()
os.fdatasync(file)
print(time.monotonic() - began, flush=True)
time.sleep(60)
"""


def test_a_program_with_shared_memory_waits_and_explain_says_why(harness, stub, tmp_path):
    port, _ = peer(harness)
    argv = [sys.executable, "-c", SHARED, port, tmp_path / "log.durable"]
    program = harness.start(Side.HELIOSTAT, argv, env=environment(stub), name="shared")
    kernel_view.wait_until(lambda: program.output() and explained(harness, program.pid), 60, "a reason")
    assert explained(harness, program.pid) == {"Shared": 1}
