"""Locks, reader-writer locks, semaphores and barriers, which programs of one or several nodes share.

    locks = heliostat.lock.open()
    journal = locks.lock("journal")
    with journal.acquire() as held:
        if held.has_owner_died:
            repair()
        write(held.token)

    with locks.semaphore("gate", 4).acquire(timeout=1.0):
        ...
    locks.barrier("step", 8).wait()
    locks.on(2).lock("journal")  # on another node, by the same calls

They are made by whoever opens a name first, and gone with the last who has it open. Each line is
served first come, first served. What a process holds ends with it, and the next holder is told so.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from . import _native
from ._naming import served

__all__ = [
    "Barrier",
    "Held",
    "ListedLock",
    "Lock",
    "Locks",
    "Passed",
    "ReaderWriterLock",
    "Semaphore",
    "open",
]

Held = _native.LockHeld


class Passed(NamedTuple):
    """All participants have arrived at a barrier."""

    generation: int
    """Which time that was, from 1 on."""
    index: int
    """How many had arrived before this one."""


class ListedLock(NamedTuple):
    """A lock, semaphore or barrier, as `Locks.list` tells of it."""

    name: str
    user: int
    """Whose it is, by number."""
    kind: str
    count: int
    """Permits or participants, else 0."""
    opened: int
    """Handles on it, of all programs."""
    held: int
    waiting: int
    has_owner_died: bool
    is_broken: bool
    age_s: int


class _Opened(_native.LockHandle):
    """What has a name. Closed by `close`, at the end of its `with` block, or with the last reference
    to it; what is held of it stays held. Threads may share it; a forked child opens its own."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Lock(_Opened):
    """A lock that one holder has at a time: not a thread, but what `acquire` returns."""

    def acquire(self, timeout: float | None = None) -> Held:
        """Waits for its turn, `timeout` seconds at most; with 0 it does not wait, and does not get past
        those who do. Raises TimedOut, Full, and NoControlPlane when the session is over."""
        return self._acquire(False, 0, timeout)


class ReaderWriterLock(_Opened):
    """A lock that one writer or any number of readers have. Who comes after a waiting writer waits."""

    def read(self, timeout: float | None = None) -> Held:
        """As `Lock.acquire`, for reading."""
        return self._acquire(True, 0, timeout)

    def write(self, timeout: float | None = None) -> Held:
        """As `Lock.acquire`, for writing."""
        return self._acquire(False, 0, timeout)


class Semaphore(_Opened):
    """So many permits. Who waits for many is not overtaken by those who want few."""

    def acquire(self, count: int = 1, timeout: float | None = None) -> Held:
        """As `Lock.acquire`, so many permits. ValueError for none, and for more than there are."""
        return self._acquire(False, count, timeout)


class Barrier(_Opened):
    """Participants wait for each other. Whoever has it open is counted on: when one of them dies, or
    stops waiting, it is broken until somebody resets it."""

    def wait(self, timeout: float | None = None) -> Passed:
        """Arrives, and waits until all have, `timeout` seconds at most; TimedOut breaks it for the
        others. Raises BrokenBarrier, Full, NoControlPlane."""
        return Passed(*self._wait(timeout))

    def reset(self) -> None:
        """Makes it whole. Who waits has BrokenBarrier."""
        self._reset()


class Locks(_native.Locks):
    """This process's access to locks, in one session with the control plane. Threads may share it; a
    forked child opens its own.

    All who open a name say what it is; NameTaken where it is something else. `user` is whose name it
    is, by number, which takes a rule that allows it. With `silent` nobody is told that a holder died.
    They raise NameTaken, InvalidName, ValueError (for a count), Denied, Full, NoControlPlane.
    """

    def __new__(cls) -> Self:
        new = super().__new__
        return served(lambda: new(cls))

    def on(self, node: int) -> Locks:
        """The same for names on another node, by its number: what is opened and listed by it is there.
        The node's own number is as if it were not said.

        Where that node is not joined, does not answer, or is lost, NoControlPlane is raised, which names
        it and says whether it may have been done. What was held there is held no more when the node is
        lost, and its names have to be opened anew.
        """
        return _native.Locks.__new__(type(self), self, node)

    def lock(self, name: str, user: int | None = None, silent: bool = False) -> Lock:
        """The lock of this name."""
        return Lock(self, "lock", name, 0, user, silent)

    def reader_writer(
        self, name: str, user: int | None = None, silent: bool = False
    ) -> ReaderWriterLock:
        """The reader-writer lock of this name."""
        return ReaderWriterLock(self, "reader_writer", name, 0, user, silent)

    def semaphore(
        self, name: str, permits: int, user: int | None = None, silent: bool = False
    ) -> Semaphore:
        """The semaphore of this name and of so many permits, 1 to 2**31."""
        return Semaphore(self, "semaphore", name, permits, user, silent)

    def barrier(self, name: str, participants: int, user: int | None = None) -> Barrier:
        """The barrier of this name and of so many participants, 1 to 65,536."""
        return Barrier(self, "barrier", name, participants, user, False)

    def list(self, prefix: str = "", user: int | None = None) -> tuple[ListedLock, ...]:
        """Those that this process may see and whose names begin so."""
        return tuple(ListedLock(*told) for told in self._list(prefix, user))


def open() -> Locks:
    """The same as `Locks()`. A control plane is started if none runs. Raises NoControlPlane."""
    return Locks()
