"""How many bytes were read from the device for programs, as the kernel counts them.

Two counts. That of the device (/proc/diskstats) sees everybody's reads, whoever makes them, and
there is none where a folder's file system has no device of its own number (overlay, btrfs). That
of processes (/proc/PID/io) sees nobody else's, and nothing that another reads on their behalf.
"""

from __future__ import annotations

import os
from pathlib import Path

SECTOR = 512
# Each block of a set has its number, so that no part is a hole or like another.
BLOCK = 4096


def make_set(folder: Path, files: int, mib: int) -> list[Path]:
    """`files` files of `mib` MiB each, on the disk; the kernel can forget their pages from now on."""
    paths = [folder / f"part-{number}" for number in range(files)]
    for number, path in enumerate(paths):
        with open(path, "wb") as file:
            for block in range(mib * (1 << 20) // BLOCK):
                file.write((number << 32 | block).to_bytes(8, "little") * (BLOCK // 8))
            file.flush()
            os.fsync(file.fileno())
    return paths


def forget(paths: list[Path]) -> None:
    """Lets the kernel forget the pages of files; they have to be on the disk."""
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def device_bytes(folder: Path) -> int | None:
    """Bytes read so far from the device that holds a folder; None where it has none of its own."""
    number = os.stat(folder).st_dev
    wanted = [str(os.major(number)), str(os.minor(number))]
    rows = (line.split() for line in Path("/proc/diskstats").read_text().splitlines())
    return next((int(row[5]) * SECTOR for row in rows if row[:2] == wanted), None)


def process_bytes(pid: int | str) -> int:
    """Bytes that devices were read for a process and the children that it waited for."""
    return _read_bytes(Path(f"/proc/{pid}/io").read_text())


def telling(words: list) -> list:
    """A command that runs `words` and prints at its end what devices were read for it."""
    return ["/bin/sh", "-c", '"$@" && cat /proc/$$/io', "sh", *words]


def told(output: str) -> int:
    """The bytes that a command of `telling` printed."""
    return _read_bytes(output)


def _read_bytes(text: str) -> int:
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("read_bytes"))
