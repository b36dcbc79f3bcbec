"""Tasks of event loops that wait for versions of one region.

The bell of an attachment is a descriptor. It rings once per `arm`, whoever armed it, and for ever
once the producer is gone; so whichever loop hears it settles the wishes of all.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import _native


@dataclass(eq=False)
class _Wish:
    """A task that waits for a version newer than `number`."""

    number: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[bool]


class Waiter:
    """The tasks that wait, in any number of event loops."""

    def __init__(self) -> None:
        self._wishes: list[_Wish] = []
        self._watched: Counter[asyncio.AbstractEventLoop] = Counter()
        self._lock = threading.Lock()

    async def wait(self, source: _native.Attachment, number: int, timeout: float | None) -> bool:
        """True when there is a version newer than `number`; false when the time, or the region, is
        over."""
        loop, bell = asyncio.get_running_loop(), source.bell
        assert bell is not None  # every attachment of this package is made with one
        wish = _Wish(number, loop, loop.create_future())
        self._enter(wish, bell, source)
        try:
            self._look(source)
            return await asyncio.wait_for(wish.future, timeout)
        except TimeoutError:
            return source.latest_number > number
        finally:
            self._leave(wish, bell)

    def _enter(self, wish: _Wish, bell: int, source: _native.Attachment) -> None:
        with self._lock:
            self._wishes.append(wish)
            self._watched[wish.loop] += 1
            if self._watched[wish.loop] == 1:
                wish.loop.add_reader(bell, self._look, source)

    def _leave(self, wish: _Wish, bell: int) -> None:
        with self._lock:
            self._wishes.remove(wish)
            self._watched[wish.loop] -= 1
            if self._watched[wish.loop] == 0:
                del self._watched[wish.loop]
                wish.loop.remove_reader(bell)

    def _look(self, source: _native.Attachment) -> None:
        """Settles what can be settled, and arms the bell for the rest."""
        is_over = not source.drain()
        with self._lock:
            open_wishes = [wish for wish in self._wishes if not wish.future.done()]
        # Armed before the look: what is published after the look rings.
        if open_wishes:
            source.arm(0)
        latest, is_over = source.latest_number, is_over or source.is_closed
        for wish in open_wishes:
            if is_over or latest > wish.number:
                try:
                    wish.loop.call_soon_threadsafe(_settle, wish.future, latest > wish.number)
                except RuntimeError:
                    pass  # that loop was closed: nobody waits there any more


def _settle(future: asyncio.Future[bool], answer: bool) -> None:
    if not future.done():
        future.set_result(answer)
