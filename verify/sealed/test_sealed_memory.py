"""`--memory` holds for what the kernel keeps for a program, whoever made it keep it.

A program holds memory of one kind, and the control group that it is in is looked at before and
after: what is charged to it counts. What its supervisor sends for it must count as what it writes
itself, else a program has as much as it likes.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from heliostat_run import BINARY, copies_descriptors, doctor
from kernel_view import free_port

pytestmark = pytest.mark.heliostat
SOURCE = Path(__file__).parent / "sources/holder.c"
MIB = 1 << 20
WATCHDOG = 30.0
# How much of each kind is held; descriptors, timers and the like have quotas of their own.
KINDS = {
    "streams": 16 * MIB,
    "messages": 16 * MIB,
    "datagrams": 16 * MIB,
    "tcp": 16 * MIB,
    "pipes": 8 * MIB,
    "descriptors": 1 * MIB,
    "in_flight": 1 * MIB,
    "memory_files": 16 * MIB,
    "page_tables": 16 * MIB,
    "events": 4 * MIB,
    "epoll": 4 * MIB,
    "timers": 2 * MIB,
    "attributes": 16 * MIB,
    "segments": 16 * MIB,
    "letters": 4 * MIB,
    "semaphores": 8 * MIB,
    "filters": 8 * MIB,
}
# What no control group counts, and how much of it there is at most.
BOUNDED = {"locks": 13 * MIB, "orphaned_locks": 13 * MIB, "policies": 22 * MIB, "access_lists": 0}
# Of these the holder has a descriptor where there is no name.
SHARED_MEMORY = "/dev/shm:rw"


@pytest.fixture(scope="module")
def groups():
    """Control groups, without which nothing is charged to anybody."""
    if doctor()["control groups"]["verdict"] != "ok":
        pytest.skip("no control group can be made here, as doctor says")


@pytest.fixture(scope="module")
def holder(tmp_path_factory):
    """The program, built statically so that nothing of a library's is measured."""
    program = tmp_path_factory.mktemp("holder") / "holder"
    subprocess.run(["gcc", "-O1", "-static", "-Wall", "-Wextra", "-Werror", "-o", program, SOURCE], check=True)
    return program


def start(holder: Path, folder: Path, kind: str, wanted: int, limit: str) -> subprocess.Popen:
    port = str(free_port())
    network = ["--listen", f"127.0.0.1:{port}", "--connect", f"127.0.0.1:{port}"]
    command = [BINARY, "run", "--sealed", "--memory", limit, "--env", "PORT", "--grant", f"{folder}:rw", "--grant", SHARED_MEMORY, "--grant", holder, *network, "--", holder]
    environment = dict(os.environ, HELIOSTAT_STUB="/nonexistent", HELIOSTAT_SOCKET=str(folder / "control.sock"), PORT=port)
    pipe = subprocess.PIPE
    words = [str(word) for word in (*command, kind, wanted)]
    return subprocess.Popen(words, env=environment, cwd=folder, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def group_of(process: int) -> Path | None:
    """Where the memory of a process is counted, if that is a group of a sealed program."""
    for line in Path(f"/proc/{process}/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        top = {"": "/sys/fs/cgroup", "memory": "/sys/fs/cgroup/memory"}.get(controllers)
        if top and "heliostat-sealed" in path:
            return Path(top + path)
    return None


def charged(group: Path) -> int:
    """Bytes that count; version 1 has the buffers of TCP by themselves."""
    names = ("memory.current", "memory.usage_in_bytes", "memory.kmem.tcp.usage_in_bytes")
    return sum(int((group / name).read_text()) for name in names if (group / name).exists())


def began(program: subprocess.Popen) -> Path:
    """The group of a program that has begun."""
    word, number = program.stdout.readline().split()
    assert word == "begins"
    group = group_of(int(number))
    assert group is not None, "no control group was made, and doctor says that one can be"
    return group


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_kernel_keeps_is_charged_to_the_program(holder, tmp_path, kind):
    with start(holder, tmp_path, kind, KINDS[kind], "256M") as program:
        group = began(program)
        before = charged(group)
        program.stdin.write("\n")
        program.stdin.flush()
        said = program.stdout.readline().split()
        errors = "" if said else program.stderr.read()
        if "Function not implemented" in errors and not copies_descriptors():
            pytest.skip(f"{kind} do not exist for sealed programs in such a container")
        assert said[:1] == ["holds"], errors
        grown = charged(group) - before
        program.stdin.close()
        assert program.wait(60) == 0
    # The kernel counts in batches for each processor.
    assert grown > int(said[1]) * 3 // 4 - MIB // 4, f"{grown} bytes for {said[1]}"
    # Its supervisor ends after it.
    end = time.monotonic() + WATCHDOG
    while group.exists():
        assert time.monotonic() < end, "the group is removed at the end"
        time.sleep(0.01)


@pytest.mark.usefixtures("groups")
@pytest.mark.parametrize("kind", ["streams", "messages", "datagrams", "memory_files", "page_tables", "attributes", "segments"])
def test_more_than_the_limit_is_not_had(holder, tmp_path, kind):
    with start(holder, tmp_path, kind, 96 * MIB, "32M") as program:
        began(program)
        program.stdin.write("\n")
        program.stdin.close()
        assert program.stdout.readline() == "", "it holds three times its limit"
        # A call that fails, or the end of the program; never that of its supervisor.
        assert program.wait(60) in (3, -9), program.stderr.read()


@pytest.mark.parametrize("kind", BOUNDED)
def test_what_no_group_counts_is_had_so_often_and_no_more(holder, tmp_path, kind):
    """A group may be there or not: what the supervisor counts is counted anyway."""
    for wanted, ends in ((BOUNDED[kind] // 2, 0), (BOUNDED[kind] + 64 * MIB, 3)):
        with start(holder, tmp_path, kind, wanted, "128M") as program:
            assert program.stdout.readline().startswith("begins")
            program.stdin.write("\n")
            program.stdin.close()
            errors = program.stderr.read()
            if errors == "mbind: Operation not permitted\n":
                pytest.skip("mbind(2) is refused here, whoever asks")
            assert program.wait(120) == ends, errors
