"""One thread that sleeps for all tasks of an event loop that wait for versions of a region.

The bell of a region is a word in shared memory, which no event loop can watch. The thread is there
only while somebody waits, and looks up now and then so that neither a cancelled task nor the end
of the program has to wait for a version that may never come.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

# How late the thread notices that nobody waits any more.
SLICE_S = 0.1


@dataclass(eq=False)
class _Wish:
    number: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[bool]


class Waiter:
    """Tasks that wait; `sleep(number, seconds)` is how the thread waits for them."""

    def __init__(self, sleep: Callable[[int, float], bool]) -> None:
        self._sleep = sleep
        self._wishes: list[_Wish] = []
        self._lock = threading.Lock()
        self._runs = False

    async def wait(self, number: int, timeout: float | None, is_over: Callable[[], bool]) -> bool:
        """True when there is a version newer than `number`; false when the time or it is over."""
        loop = asyncio.get_running_loop()
        wish = _Wish(number, loop, loop.create_future())
        with self._lock:
            self._wishes.append(wish)
            if not self._runs:
                self._runs = True
                name = "heliostat-wait"
                threading.Thread(target=self._work, args=(is_over,), name=name).start()
        try:
            return await asyncio.wait_for(wish.future, timeout)
        except TimeoutError:
            return False
        finally:
            with self._lock:
                if wish in self._wishes:
                    self._wishes.remove(wish)

    def _work(self, is_over: Callable[[], bool]) -> None:
        while (number := self._next()) is not None:
            is_newer = self._sleep(number, SLICE_S)
            if is_newer or is_over():
                self._answer(number, is_newer)

    def _next(self) -> int | None:
        """The smallest number that somebody waits to be passed; None to end the thread."""
        with self._lock:
            self._runs = bool(self._wishes) and threading.main_thread().is_alive()
            return min(wish.number for wish in self._wishes) if self._runs else None

    def _answer(self, number: int, is_newer: bool) -> None:
        """Answers who waits for `number`; when it is over, everybody."""
        with self._lock:
            done = [wish for wish in self._wishes if not is_newer or wish.number <= number]
            self._wishes = [wish for wish in self._wishes if wish not in done]
        for wish in done:
            try:
                wish.loop.call_soon_threadsafe(_settle, wish.future, is_newer)
            except RuntimeError:
                pass  # the loop was closed: nobody waits there any more


def _settle(future: asyncio.Future[bool], answer: bool) -> None:
    if not future.done():
        future.set_result(answer)
