"""Tasks of event loops that wait for a log: until an entry is durable, or until there is more to take.

The log's descriptor rings when entries were acknowledged, whoever drains it; so whichever loop hears it
settles the wishes of all.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from . import _native

T = TypeVar("T")

# A place, a number, a loop, a future: settled when what lies at the place is durable.
_Wish = tuple[int, int, asyncio.AbstractEventLoop, "asyncio.Future[None]"]
# The place of a wish that any ring settles.
_ANY = -1


class Bell:
    """The tasks that wait for one log, in any number of event loops."""

    def __init__(self, log: _native.LogHandle) -> None:
        self._log = log
        self._wishes: list[_Wish] = []
        self._numbers = count()
        self._watched: Counter[asyncio.AbstractEventLoop] = Counter()
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    async def durable(self, position: _native.LogPosition) -> _native.LogPosition:
        """Waits until the entry there is durable."""
        if not self._log.is_durable(position):
            await self._settled(position.at, lambda: self._log.is_durable(position) or None)
        return position

    async def taken(self, take: Callable[[], T | None]) -> T:
        """Waits until `take` has something, which is asked at each ring."""
        while True:
            found = take()
            if found is None:
                found = await self._settled(_ANY, take)
            if found is not None:
                return found

    def close(self) -> None:
        """Settles everybody, and leaves the loops, before the descriptor is closed."""
        self._ring()
        self._settle(lambda _: True, ValueError("the log is closed"))
        with self._lock:
            loops, descriptor = list(self._watched), self._descriptor
            self._watched.clear()
            self._descriptor = None
        for loop in loops:
            if descriptor is not None and _is_here(loop):
                loop.remove_reader(descriptor)
            elif descriptor is not None:
                _tell(loop, loop.remove_reader, descriptor)

    async def _settled(self, at: int, look: Callable[[], T | None]) -> T | None:
        """What `look` has when the wish was entered; nothing after it was settled."""
        loop = asyncio.get_running_loop()
        wish = (at, next(self._numbers), loop, loop.create_future())
        self._enter(wish)
        try:
            # What comes after this look rings.
            found = look()
            if found is None:
                self._log._check()
                await wish[3]
            return found
        finally:
            self._leave(wish)

    def _enter(self, wish: _Wish) -> None:
        loop, descriptor = wish[2], self._log.fileno()
        with self._lock:
            heapq.heappush(self._wishes, wish)
            self._descriptor = descriptor
            self._watched[loop] += 1
            if self._watched[loop] == 1:
                loop.add_reader(descriptor, self._ring)

    def _leave(self, wish: _Wish) -> None:
        with self._lock:
            if not wish[3].done() or wish[3].cancelled():
                with suppress(ValueError):
                    self._wishes.remove(wish)
                    heapq.heapify(self._wishes)
            loop = wish[2]
            if self._descriptor is None:
                return
            self._watched[loop] -= 1
            if self._watched[loop] == 0:
                del self._watched[loop]
                loop.remove_reader(self._descriptor)

    def _ring(self) -> None:
        """Settles those whose time has come."""
        try:
            self._log.drain()
            end = self._log.end.at
            self._settle(lambda at: at < end)
            self._log._check()
        except Exception as error:
            self._settle(lambda _: True, error)

    def _settle(self, is_due: Callable[[int], bool], error: Exception | None = None) -> None:
        due: list[_Wish] = []
        with self._lock:
            while self._wishes and is_due(self._wishes[0][0]):
                due.append(heapq.heappop(self._wishes))
        for _, _, loop, future in due:
            _tell(loop, _end, future, error)


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread runs that loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _tell(loop: asyncio.AbstractEventLoop, call: Callable[..., object], *words: object) -> None:
    # That loop was closed: nobody waits there any more.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call, *words)


def _end(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
