"""Operations on memory regions that are submitted now and complete later."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple, Self

from . import _native
from ._errors import Full

# A wait in which signals are looked for.
_SLICE_S = 0.1


class Completion(NamedTuple):
    """How one operation has ended."""

    number: int
    """Its number, from the call that submitted it."""
    result: int
    """Bytes that were moved, or what the word was; 0 where it failed."""
    data: bytes
    """What a read has read, and what a write has written."""
    error: Exception | None
    """What the call of the same name would have raised; Cancelled where it was given up."""

    def value(self) -> int:
        """The result, or raises the error."""
        if self.error is not None:
            raise self.error
        return self.result


class MemoryOperations(_native.MemoryOperations):
    """Operations on their way, of any regions of one `Memory`: from `Memory.operations`.

    `read`, `write`, `set`, `copy`, `fetch_add`, `compare_swap` and `swap` submit one and return its
    number; what it may have wrong its completion says. With `urgent=True` it is begun before those
    that are not and have not begun. When as many as may be are on their way, or were not taken,
    they raise Full. Each completion is told of once, by `take`, `wait` or `completed`.

    On the direct path an operation is done when it was submitted. Threads may share this. What is on
    its way is given up with the last reference to it.
    """

    def __new__(cls, memory: _native.Memory, limit: int) -> Self:
        if limit < 1:
            raise Full("a limit of no operations")
        return super().__new__(cls, memory, limit)

    def __init__(self, *_: Any) -> None:
        """See `Memory.operations`."""

    def take(self) -> Completion | None:
        """A completion that is there, or None. Does not wait."""
        told = self._take()
        return None if told is None else Completion(*told)

    def wait(self, timeout: float | None = None) -> Completion | None:
        """Waits for a completion, so many seconds at most; None when there was none in that time.
        Raises Idle when nothing is on its way."""
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _SLICE_S if until is None else min(_SLICE_S, until - time.monotonic())
            told = self._wait(left)
            if told is not None:
                return Completion(*told)
            if until is not None and time.monotonic() >= until:
                return None

    async def completed(self) -> Completion:
        """The next completion, awaited in an event loop of asyncio; by one task at a time. Raises Idle
        when nothing is on its way."""
        loop, descriptor = asyncio.get_running_loop(), self.fileno()
        while True:
            found = self.take()
            if found is not None:
                return found
            if len(self) == 0:
                self._wait(0)
            rung = loop.create_future()
            loop.add_reader(descriptor, lambda: rung.done() or rung.set_result(None))
            try:
                await rung
            finally:
                loop.remove_reader(descriptor)

    def __repr__(self) -> str:
        return f"<heliostat.MemoryOperations: {len(self)} on their way>"
