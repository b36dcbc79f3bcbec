"""Where one pair of producer and consumer meets: a name, a folder, a doorbell, a lock.

For the arms that bring no doorbell or lock of their own. The bell is a FIFO, the lock flock(2):
both belong to the kernel, so that neither side is left waiting for a killed one.
"""

from __future__ import annotations

import fcntl
import os
import select
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Place:
    """One meeting: its name (a file name), its folder, and the bytes of the array."""

    name: str
    folder: Path
    size_bytes: int

    @property
    def elements(self) -> int:
        return self.size_bytes // 8


class Bell:
    """Rings once per version; several rings that nobody heard are one."""

    def __init__(self, place: Place):
        path = place.folder / f"{place.name}.bell"
        if not path.exists():
            os.mkfifo(path)
        self.fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def ring(self) -> None:
        try:
            os.write(self.fd, b"!")
        except BlockingIOError:
            pass  # It is full of rings that nobody has heard yet.

    def wait(self, seconds: float) -> bool:
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        os.read(self.fd, 65536)
        return True


class Lock:
    """A lock between processes."""

    def __init__(self, place: Place):
        self.fd = os.open(place.folder / f"{place.name}.lock", os.O_RDWR | os.O_CREAT)

    def __enter__(self) -> None:
        self.take()

    def __exit__(self, *error) -> None:
        self.give()

    def take(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_EX)

    def give(self) -> None:
        fcntl.flock(self.fd, fcntl.LOCK_UN)
