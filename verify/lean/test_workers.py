"""`heliostat coprocessor run`: what workers reach, how they share, end and are started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, ROOT, Harness, Program, Side

HEADERS = ROOT / "bind/lean/include"
HERE = Path(__file__).resolve().parent

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The programs, compiled."""
    folder = tmp_path_factory.mktemp("lean")
    sources = [ROOT / "bind/lean/examples/echo.c", *sorted(HERE.glob("*.c"))]
    for source in sources:
        gcc = ["gcc", "-std=gnu17", "-O2", "-Wall", "-Wextra", "-Wno-unused-function", "-pthread", f"-I{HEADERS}"]
        subprocess.run([*gcc, "-o", folder / source.stem, source], check=True)
    folder.chmod(0o755)
    return folder


@pytest.fixture
def harness():
    with Harness() as one:
        yield one


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(harness: Harness, words: list, *program) -> Program:
    return harness.start(Side.PLAIN, [str(BINARY), "coprocessor", "run", *words, "--", *program], name="workers")


def connected(port: int, seconds: float = 30) -> socket.socket:
    """A connection, once somebody listens."""
    ends = time.monotonic() + seconds
    while True:
        try:
            one = socket.create_connection(("127.0.0.1", port), timeout=seconds)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return one
        except ConnectionRefusedError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.02)


def asked(peer: socket.socket, question: bytes) -> bytes:
    peer.sendall(question)
    return peer.recv(1 << 16)


def echoes(harness: Harness, built: Path, workers: int, *more) -> int:
    port = free_port()
    words = ["--workers", str(workers), "--listen", f"127.0.0.1:{port}", *more]
    program = start(harness, words, built / "echo", str(port))
    listening = lambda: program.errors().count("listens at") == workers  # noqa: E731
    kernel_view.wait_until(listening, 30, f"{workers} workers: {program.errors()}")
    return port


@pytest.mark.parametrize("how", [["--unsealed"], [], ["--watch"]], ids=["unsealed", "sealed", "watched"])
def test_a_worker_opens_reads_and_echoes_through_rings(harness, built, how, tmp_path):
    (tmp_path / "file").write_bytes(b"what is in the file")
    port = echoes(harness, built, 1, "--root", str(tmp_path), *how)
    peer = connected(port)
    assert asked(peer, b"hello") == b"hello"
    assert asked(peer, f"GET {tmp_path}/file\n".encode()) == b"what is in the file"


def test_what_was_not_granted_is_refused(harness, built, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("secret")
    (tmp_path / "in/link").symlink_to(tmp_path / "out")
    port = echoes(harness, built, 1, "--root", f"{tmp_path}/in")
    peer = connected(port)
    for name in ["/etc/passwd", f"{tmp_path}/out", f"{tmp_path}/in/link", f"{tmp_path}/in/../out"]:
        assert asked(peer, f"GET {name}\n".encode()) == b"errno 13\n", name


def test_a_granted_folder_is_itself_wherever_it_is_moved(harness, built, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_text("granted")
    port = echoes(harness, built, 1, "--root", f"{tmp_path}/in")
    peer = connected(port)
    assert asked(peer, f"GET {tmp_path}/in/file\n".encode()) == b"granted"
    (tmp_path / "in").rename(tmp_path / "moved")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_text("another's")
    assert asked(peer, f"GET {tmp_path}/in/file\n".encode()) == b"errno 13\n"
    assert asked(peer, f"GET {tmp_path}/moved/file\n".encode()) == b"granted"


def test_a_port_that_was_not_granted_is_not_listened_at(harness, built):
    port = free_port()
    program = start(harness, ["--listen", f"127.0.0.1:{port}"], built / "echo", str(port + 1))
    assert program.wait(30) == 1
    assert "errno 13" in program.errors()


def test_workers_share_a_port_and_the_least_loaded_is_next(harness, built):
    """Each has one connection at a time, so four at once are on four workers."""
    port = echoes(harness, built, 4)
    peers = [connected(port) for _ in range(4)]
    assert [asked(peer, b"x%d" % number) for number, peer in enumerate(peers)] == [b"x0", b"x1", b"x2", b"x3"]


def test_a_killed_worker_costs_its_own_connections_only(harness, built):
    port = echoes(harness, built, 3)
    peers = [connected(port) for _ in range(3)]
    for peer in peers:
        assert asked(peer, b"x") == b"x"
    sealed = [pid for pid in harness.processes() if kernel_view.command_name(pid) == "echo"]
    assert len(sealed) == 3
    os.kill(sealed[0], signal.SIGKILL)
    left = 0
    for peer in peers:
        peer.settimeout(30)
        try:
            left += asked(peer, b"y") == b"y"
        except ConnectionError:
            pass
    assert left == 2
    late = connected(port)
    peers[1].close()
    peers[2].close()
    assert asked(late, b"z") == b"z", "who comes later is served by those that are left"


def test_a_worker_that_fails_is_started_again_as_often_as_asked(harness, built):
    program = start(harness, ["--restart", "2"], built / "fails")
    assert program.wait(60) == 3
    assert program.errors().count("ended with status 3") == 3, program.errors()


def test_a_worker_that_cannot_be_started_again_leaves_the_others(harness, built):
    program = start(harness, ["--workers", "2", "--unsealed", "--restart", "1"], "/bin/sleep", "600")
    kernel_view.wait_until(lambda: len(sleepers(harness)) == 2, 30, program.errors())
    os.kill(harness.control_plane(), signal.SIGKILL)
    told = lambda: program.errors().count("the control plane has ended its session") == 2  # noqa: E731
    kernel_view.wait_until(told, 30, program.errors())
    first, second = sleepers(harness)
    os.kill(first, signal.SIGKILL)
    kernel_view.wait_until(lambda: "is not started again" in program.errors(), 30, program.errors())
    assert program.process.poll() is None and sleepers(harness) == [second]
    os.kill(second, signal.SIGTERM)
    assert program.wait(30) == 128 + signal.SIGKILL, "that of the first"


def sleepers(harness: Harness) -> list[int]:
    return sorted(pid for pid in harness.processes() if kernel_view.command_name(pid) == "sleep")


@pytest.mark.parametrize("how", [[], ["--cores", "{last}"], ["--cores", "none"]], ids=["default", "list", "none"])
def test_workers_run_on_their_cores(harness, built, how):
    own = sorted(os.sched_getaffinity(0))
    words = [word.format(last=own[-1]) for word in how]
    count = min(len(own) + 1, 64)
    start(harness, ["--workers", str(count), "--unsealed", *words], "/bin/sleep", "600")
    kernel_view.wait_until(lambda: len(sleepers(harness)) == count, 30, "workers")
    found = sorted(sorted(os.sched_getaffinity(pid)) for pid in sleepers(harness))
    if how:
        assert found == ([own] * count if how[1] == "none" else [own[-1:]] * count)
        return
    # A core each, beginning at any: those of another command begin elsewhere.
    counts = [found.count([core]) for core in own]
    assert sum(counts) == count and max(counts) - min(counts) <= 1, found


def test_a_core_that_a_worker_cannot_have_is_said(harness, built):
    program = start(harness, ["--unsealed", "--cores", "8191"], "/bin/true")
    assert program.wait(30) == 0
    assert "the worker shares cores: it cannot have core 8191" in program.errors()


def test_the_exit_status_is_that_of_the_first_that_failed(harness, built):
    program = start(harness, ["--workers", "3"], built / "fails", "1")
    assert program.wait(60) == 3
    assert program.errors().count("ended with status 3") == 1, program.errors()


def test_workers_end_with_the_command_and_hear_when_the_control_plane_ends(harness, built):
    port = echoes(harness, built, 2)
    connected(port)
    os.kill(harness.control_plane(), signal.SIGKILL)
    program = harness.programs[-1]
    # An accept that waits ends with ESHUTDOWN, with which the worker ends well.
    assert program.wait(60) == 0, program.errors()
    assert program.errors().count("the control plane has ended its session") == 2
    assert not [pid for pid in harness.processes() if kernel_view.command_name(pid) == "echo"]


def test_a_killed_command_takes_its_workers_along(harness, built):
    echoes(harness, built, 2)
    program = harness.programs[-1]
    os.kill(program.pid, signal.SIGKILL)
    gone = lambda: not [pid for pid in harness.processes() if kernel_view.command_name(pid) == "echo"]  # noqa: E731
    kernel_view.wait_until(gone, 30, "the workers' end")


def test_sealed_workers_make_no_system_call_for_files_or_sockets(harness, built, tmp_path):
    """Watched from outside: between two questions a worker's thread makes futex and yield calls, if any."""
    (tmp_path / "file").write_bytes(b"0123456789")
    port = echoes(harness, built, 1, "--root", str(tmp_path))
    peer = connected(port)
    pid = next(pid for pid in harness.processes() if kernel_view.command_name(pid) == "echo")
    descriptors = sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    assert asked(peer, f"GET {tmp_path}/file\n".encode()) == b"0123456789"
    after = sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    assert descriptors == after
    assert not [name for name in after if name.startswith("socket:")], after


def test_ten_thousand_connections_are_shared_by_four_workers(harness, built):
    limit = 10_000
    port = free_port()
    words = ["--workers", "4", "--listen", f"127.0.0.1:{port}"]
    program = start(harness, words, built / "many", str(port))
    kernel_view.wait_until(lambda: program.errors().count("listens") == 4, 30, program.errors())
    client = harness.run(Side.PLAIN, [built / "clients", str(port), str(limit)], seconds=240)
    assert client.process.returncode == 0, client.output() + client.errors()
    assert f"{limit} answered" in client.output()
    program.kill(signal.SIGTERM)


def test_garbage_on_one_workers_rings_does_not_touch_the_others(harness, built):
    port = echoes(harness, built, 2)
    honest = connected(port)
    assert asked(honest, b"before") == b"before"
    bad = start(harness, ["--listen", "127.0.0.1:*", "--connect", "127.0.0.1:*"], built / "garbage", "20000")
    for number in range(200):
        assert asked(honest, b"during %d" % number) == b"during %d" % number
    bad.wait(60)
    assert asked(honest, b"after") == b"after"


@pytest.mark.parametrize("how", [[], ["--unsealed"], ["--watch"]], ids=["sealed", "unsealed", "watched"])
def test_threads_of_one_worker_share_its_memory(harness, built, tmp_path, how):
    program = start(harness, ["--root", f"{tmp_path}:rw", *how], built / "threads", tmp_path, "16", "40")
    assert program.wait(120) == 0, program.output() + program.errors()
    assert "16 threads" in program.output()


def test_more_lanes_than_slots_get_their_turns(harness, built, tmp_path):
    """Twelve warps of 32 lanes: slots for eight of them."""
    program = start(harness, ["--root", f"{tmp_path}:rw"], built / "warps", tmp_path)
    assert program.wait(120) == 0, program.output() + program.errors()
    assert "12 warps, 0 wrong" in program.output()


def test_small_files_are_fetched_by_many_threads_of_many_workers(harness, built, tmp_path):
    """More at once than an opener's thread takes together; what fails is said by errno."""
    words = ["--workers", "3", "--root", f"{tmp_path}:rw"]
    program = start(harness, words, built / "fetches", tmp_path, "12", "150")
    assert program.wait(120) == 0, program.output() + program.errors()
    assert program.output().count("7200 fetched, 0 wrong") == 3


def test_threads_that_want_more_fetches_than_there_are_slots_do_not_wait_for_each_other(harness, built, tmp_path):
    """32 threads, 16 files each at once: twice as many as there are slots."""
    program = start(harness, ["--root", f"{tmp_path}:rw"], built / "fetches", tmp_path, "32", "60", "16")
    assert program.wait(120) == 0, program.output() + program.errors()
    assert "30720 fetched, 0 wrong" in program.output()


def test_threads_race_nowhere(harness, built, tmp_path):
    """The same under ThreadSanitizer, which a seal has no room for."""
    source, binary = HERE / "threads.c", tmp_path / "threads"
    gcc = ["gcc", "-std=gnu17", "-O1", "-g", "-fsanitize=thread", "-w", "-pthread", f"-I{HEADERS}", "-o", binary, source]
    subprocess.run(gcc, check=True)
    program = start(harness, ["--unsealed", "--root", f"{tmp_path}:rw"], binary, tmp_path, "8", "5")
    status = program.wait(120)
    if "unexpected memory mapping" in program.errors():
        pytest.skip("ThreadSanitizer does not start with this kernel's address space")
    assert status == 0 and "WARNING: ThreadSanitizer" not in program.errors(), program.errors()
