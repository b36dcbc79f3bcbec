"""Logs and queues that are durable when they say so, in a file or in an area of a store.

    with heliostat.log.open("orders.log", create=1 << 20) as log:
        log.append_sync(b"first")  # durable when it returns
        second = log.append(b"second")  # on its way
        second.wait()
        for entry in log:
            print(entry.position, bytes(entry))
        log.trim(second.position)  # the first one goes

    with heliostat.log.open_queue("jobs.queue", create=64 << 20) as queue:
        queue.push(b"resize picture 7").wait()
        with queue.pop() as job:  # acknowledged at the end, given back if something is raised
            print(bytes(job))

What was acknowledged is there after any crash, in order, and nothing else is. One process at a time has a
log open to write; `read` reads it meanwhile. Threads may share everything here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Self, TypeVar

from . import _native
from ._log_bell import Bell
from ._log_exit import know
from ._naming import served

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    Place = str | os.PathLike[str]

__all__ = [
    "Appended",
    "Entry",
    "Item",
    "Log",
    "Position",
    "Queue",
    "Reader",
    "open",
    "open_queue",
    "read",
]

T = TypeVar("T")

Position = _native.LogPosition
Entry = _native.LogEntry


def _with_control(place: Place, make: Callable[[], T]) -> T:
    """What `make` makes, for an area with a control plane there."""
    return served(make) if os.fspath(place).startswith("/store/") else make()


class Appended:
    """An entry that was appended, and may be on its way to the device. Forgetting it changes nothing.

    `wait` it, `await` it in an event loop, or look at `is_durable`.
    """

    __slots__ = ("_log", "position")

    def __init__(self, log: _Durable, position: Position) -> None:
        self._log = log
        self.position = position
        """Where the entry begins."""

    @property
    def is_durable(self) -> bool:
        """Whether it is durable: no crash takes it back."""
        return self._log.is_durable(self.position)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is durable, so many seconds at most; whether it is. Raises DeviceFailed."""
        return self._log.wait_durable(self.position, timeout)

    def __await__(self) -> Generator[object, None, Position]:
        return self._log._bell.durable(self.position).__await__()

    def __repr__(self) -> str:
        return f"<heliostat.log.Appended at {self.position.at}, entry {self.position.sequence}>"


class _Durable(_native.LogHandle):
    """What logs and queues have alike."""

    _is_queue = False

    def __new__(
        cls,
        place: Place,
        create: int | None = None,
        new: bool = False,
        window_bytes: int | None = None,
    ) -> Self:
        construct = super().__new__
        made = _with_control(place, lambda: construct(cls, place, create, new, cls._is_queue, window_bytes))
        know(made)
        return made

    def __init__(self, *_: object, **__: object) -> None:
        self._bell = Bell(self)

    def close(self) -> None:
        """Waits for what is on its way, and ends it; others may open it then. Again: nothing. Raises
        DeviceFailed where not everything is durable."""
        if self.is_closed:
            return
        try:
            self.sync()
        finally:
            # Tasks that wait hear of it while there still is a descriptor.
            self._bell.close()
            super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Log(_Durable):
    """An open log. See `open`, which makes one.

    Iterating gives its entries, from the first that is wanted to the last that is durable by then; an
    iterator that has come to its end goes on when there is more. An entry is a buffer of its payload,
    without a copy.
    """

    def append(
        self,
        payload: ReadableBuffer,
        then: Callable[[Position, Exception | None], object] | None = None,
    ) -> Appended:
        """Appends an entry and returns at once; waits only while as much as may be is on its way.

        then: called with the entry's position, and with an exception or None, when it is durable or when
            nobody will know: by a thread of the library, or by one that waits. It may append.

        Raises Full when the area is full: what is there stays, and `trim` makes room. Raises TooLong,
        DeviceFailed, and ValueError once it is closed. Then nothing was appended.
        """
        return Appended(self, self._append(payload, then))

    def append_sync(self, payload: ReadableBuffer) -> Position:
        """Appends an entry and waits until it is durable. Raises as `append`; where the device fails
        meanwhile, the next opening finds out whether the entry is there."""
        return self._append_sync(payload)

    def read(self, start: Position | None = None) -> _native.LogEntries:
        """The durable entries from a position on that an append or an entry has told; from the first
        one, where it is None. Raises Trimmed, NoEntry."""
        return self._read(start)

    def __iter__(self) -> Iterator[Entry]:
        return self._read(None)

    def __repr__(self) -> str:
        return f"<heliostat.log.Log{' closed' if self.is_closed else ''}>"


class Item:
    """An entry that was handed out, and a buffer of its payload. As the target of a `with` block it is
    acknowledged at the end, and given back where the block raises."""

    __slots__ = ("_entry", "_is_over", "_queue")

    def __init__(self, queue: Queue, entry: Entry) -> None:
        self._queue, self._entry, self._is_over = queue, entry, False

    @property
    def position(self) -> Position:
        """Where the entry begins."""
        return self._entry.position

    @property
    def payload(self) -> bytes:
        """A copy of what was pushed; `memoryview(item.entry)` is none."""
        return self._entry.payload

    @property
    def entry(self) -> Entry:
        """The entry, as a buffer without a copy."""
        return self._entry

    def acknowledge(self, wait: bool = False) -> None:
        """Says that it was dealt with. With `wait` that is durable when this returns, and it is never
        handed out again; else a crash within the next moments has it handed out once more."""
        self._queue._acknowledge(self.position, wait)
        self._is_over = True

    def give_back(self) -> None:
        """Gives it back, for the next who takes one."""
        self._queue._give_back(self.position)
        self._is_over = True

    def __bytes__(self) -> bytes:
        return self._entry.payload

    def __len__(self) -> int:
        return len(self._entry)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._is_over:
            return
        if kind is None:
            self.acknowledge()
        else:
            self.give_back()

    def __repr__(self) -> str:
        return f"<heliostat.log.Item {self._entry!r}>"


class Queue(_Durable):
    """An open queue. See `open_queue`, which makes one. For any number of producers and consumers in one
    process. At most 2,048 entries lie between the first that is not acknowledged and the last that is
    handed out: then `pop` raises Full."""

    _is_queue = True

    def push(
        self,
        payload: ReadableBuffer,
        then: Callable[[Position, Exception | None], object] | None = None,
    ) -> Appended:
        """Appends an entry, as `Log.append`. It can be taken when it is durable."""
        return Appended(self, self._append(payload, then))

    def push_sync(self, payload: ReadableBuffer) -> Position:
        """Appends an entry and waits until it is durable."""
        return self._append_sync(payload)

    def pop(self, timeout: float | None = None) -> Item | None:
        """Takes the next entry that nobody has, and waits for one, so many seconds at most; None when
        there was none in time. Raises Full, Damaged, DeviceFailed."""
        entry = self._pop(timeout)
        return None if entry is None else Item(self, entry)

    async def get(self) -> Item:
        """The same in an event loop, waited for as long as it takes."""
        return await self._bell.taken(lambda: self.pop(0.0))

    def __iter__(self) -> Iterator[Item]:
        """One entry after the other, until none is there."""
        while True:
            item = self.pop(0.0)
            if item is None:
                return
            yield item

    def __repr__(self) -> str:
        return f"<heliostat.log.Queue{' closed' if self.is_closed else ''}>"


class Reader(_native.LogReader):
    """Reads a log beside the process that has it open to write, if there is one, and changes nothing.

    Iterating ends at the end, and goes on from there when it is begun again. Nothing that it gives is
    taken back by a crash.
    """

    def __new__(cls, place: Place) -> Self:
        construct = super().__new__
        return _with_control(place, lambda: construct(cls, place))

    def follow(self) -> Iterator[Entry]:
        """The entries, for ever: waits for more at the end."""
        while True:
            yield from self
            self.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open(
    place: Place,
    create: int | None = None,
    new: bool = False,
    window_bytes: int | None = None,
) -> Log:
    """Opens a log after whatever happened.

    place: a file, or /store/NAME for an area.
    create: bytes of the log that is made where there is none; 40,960 at least. Every byte of a file is
        written once.
    new: whether there has to be none.
    window_bytes: bytes of memory for what is not yet durable, of a log that is made. The longest payload
        is a quarter of it.

    Raises InUse while another process has it, NotFound, NameTaken, Denied, NotALog, Unsupported of a later
    format, WrongDevice, Damaged with the position, DeviceFailed.
    """
    return Log(place, create, new, window_bytes)


def open_queue(
    place: Place,
    create: int | None = None,
    new: bool = False,
    window_bytes: int | None = None,
) -> Queue:
    """Opens a log as a queue, as `open` does. What was handed out and is not acknowledged comes again."""
    return Queue(place, create, new, window_bytes)


def read(place: Place) -> Reader:
    """Opens a log to be read only, whether somebody writes it or not. Raises as `open`, but never InUse."""
    return Reader(place)
