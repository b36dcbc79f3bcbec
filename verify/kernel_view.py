"""What the kernel says about ports, CPU time, mappings and descriptors, read from /proc.

Tests and benchmarks look here and not into the programs, so that plain Linux and Heliostat
are judged by the same eye. Nothing is sent to a program to learn whether it is ready: a
probing connection would count as a connection.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import random
import socket
import subprocess
import time
from pathlib import Path

# Longest wait for something that takes milliseconds; only a hang reaches it.
WATCHDOG_S = 60.0
PORTS = range(20000, 32000)  # below the kernel's ephemeral range, above everybody's default
LISTEN = "0A"


# io_uring_setup(2), userfaultfd(2) (source: asm/unistd_64.h), and UFFD_USER_MODE_ONLY beside a flag that is none.
IO_URING_SETUP, USERFAULTFD = 425, 323
NO_SUCH_FLAGS = 1 | 1 << 30
CAP_SYS_ADMIN = 21


def refuses(number: int, *arguments: int) -> bool:
    """Whether a call is refused here whatever its arguments are: these make it fail in any case."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(number, *arguments)
    return ctypes.get_errno() in (errno.EPERM, errno.ENOSYS)


def refuses_rings() -> bool:
    """Whether io_uring is refused here, as by the default filters of containers."""
    return refuses(IO_URING_SETUP, 0, 0)


def refuses_tracking() -> bool:
    """Whether nobody may be told which pages were written, as behind the default filters of containers."""
    return refuses(USERFAULTFD, NO_SUCH_FLAGS)


@functools.cache
def makes_networks() -> bool:
    """Whether a process may have a network namespace of its own."""
    own = [] if has_capability(CAP_SYS_ADMIN) else ["--user"]
    return subprocess.run(["unshare", *own, "--net", "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


def has_capability(number: int) -> bool:
    """Whether this process has a capability, by its number in linux/capability.h."""
    lines = Path("/proc/self/status").read_text().splitlines()
    held = next(line.split()[1] for line in lines if line.startswith("CapEff:"))
    return bool(int(held, 16) & 1 << number)


def free_port() -> int:
    """A TCP port nobody has bound, outside the range that clients draw from."""
    for port in random.sample(PORTS, 200):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
                return port
            except OSError:
                continue
    raise RuntimeError("200 ports tried, all taken")


def listening_ports() -> set[int]:
    """Every TCP port with a listener, IPv4 and IPv6."""
    ports = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for row in Path(table).read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == LISTEN:
                ports.add(int(fields[1].rsplit(":", 1)[1], 16))
    return ports


def wait_until(condition, seconds: float = WATCHDOG_S, what: str = "condition"):
    """Polls `condition` until it is true and returns its value; a watchdog, not a bound."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.005)


def wait_listening(port: int, process=None, seconds: float = WATCHDOG_S) -> None:
    """Waits until somebody listens on `port`; fails at once when `process` ends before."""

    def ready() -> bool:
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"the server ended with status {process.returncode}")
        return port in listening_ports()

    wait_until(ready, seconds, f"listener on port {port}")


def tasks(pid: int) -> list[Path]:
    """The /proc folders of all threads of a process; empty when it is gone."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def waits_in(task: Path) -> str:
    """The system call in which a thread is, with its arguments, or that it runs."""
    try:
        return (task / "syscall").read_text().strip()
    except OSError:
        return "gone"


def cpu_ns(*pids: int) -> int:
    """Nanoseconds that all threads of the processes have run, those that have ended too."""
    total = 0
    for pid in pids:
        try:
            # The clock of a process is numbered by it (source: linux/posix-timers.h, clock_getcpuclockid(3)).
            total += time.clock_gettime_ns(~pid << 3 | 2)
        except OSError:
            continue
    return total


def sleeps(pid: int) -> int:
    """How often the threads of a process have gone to sleep."""
    lines = (line for task in tasks(pid) for line in (task / "status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("voluntary_ctxt_switches"))


def is_runnable(*pids: int) -> bool:
    """Whether any thread of the processes runs, or would if it had a processor."""
    for task in (task for pid in pids for task in tasks(pid)):
        try:
            if (task / "stat").read_text().rsplit(")", 1)[1].split()[0] in "RD":
                return True
        except OSError:
            continue
    return False


def comes_to_rest(*pids: int, looks: int = 20) -> bool:
    """True once all threads of the processes sleep for a second, and use nearly nothing in it.

    What was still under way when the first look began, on a machine that is busy, is over at a
    later one; who spins is seen at every one.
    """
    quiet_s = 1.0
    for _ in range(looks):
        was_runnable, before = is_runnable(*pids), cpu_ns(*pids)
        time.sleep(quiet_s)
        is_quiet = cpu_ns(*pids) - before < quiet_s * 1e9 / 20
        if is_quiet and not was_runnable and not is_runnable(*pids):
            return True
    return False


def wait_asleep(pid: int) -> None:
    """Waits until all threads of a process are where they sleep, in some looks one after the other."""
    looks = 5

    def is_it() -> bool:
        for _ in range(looks):
            if is_runnable(pid):
                return False
            time.sleep(0.01)
        return True

    wait_until(is_it, what=f"process {pid} asleep")


def cpu_ticks(pid: int) -> tuple[int, int]:
    """(utime, stime) of a process in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return int(fields[11]), int(fields[12])


def children(pid: int) -> list[int]:
    """Direct children of a process."""
    found = []
    for task in tasks(pid):
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


def descendants(pid: int) -> list[int]:
    """Children, their children, and so on."""
    found = children(pid)
    for child in list(found):
        found += descendants(child)
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment a process was started with; empty when it may not be read."""
    try:
        rows = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return {}
    pairs = (row.decode("utf-8", "replace").partition("=") for row in rows if row)
    return {name: value for name, _, value in pairs}


def processes() -> list[int]:
    """Every process id that is visible."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def command_name(pid: int) -> str:
    """The short name of a process; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def has_ended(pid: int) -> bool:
    """Whether a process holds nothing any more: its memory goes first, and its descriptors after it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def shared_memory(pid: int) -> list[str]:
    """Names of the memfds that a process maps or holds open."""
    names = set()
    try:
        for row in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/memfd:" in row:
                names.add(row[row.index("/memfd:") :])
        for link in Path(f"/proc/{pid}/fd").iterdir():
            target = os.readlink(link)
            if target.startswith("/memfd:"):
                names.add(target)
    except OSError:
        pass
    return sorted(names)


def shared_memory_bytes(pid: int) -> int:
    """Bytes of address space that a process has mapped from memfds."""
    total = 0
    try:
        for row in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/memfd:" in row:
                low, high = row.split()[0].split("-")
                total += int(high, 16) - int(low, 16)
    except OSError:
        pass
    return total


def available_bytes() -> int:
    """Memory that programs can have without anything being swapped out."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))


def wait_available(wanted: int) -> None:
    """Waits until so much memory is available: what an ended program had is given back a moment later."""
    wait_until(lambda: available_bytes() >= wanted, what=f"{wanted >> 20} MiB of memory")
