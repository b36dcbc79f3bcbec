"""The consumer of a queue: takes items, and reads them where they lie."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Gone
from ._layout import Layout, decode
from ._naming import served, when_found

# A signal that comes between two sleeps, or the producer's death, is seen after this long.
SLICE_S = 0.5


class Item:
    """An item of a queue, held: it does not change.

    It is let go when `release` was called, or the `with` block left, and no array made from it
    lives any more.
    """

    def __init__(self, held: _native.Item, layout: Layout) -> None:
        self._held, self._layout = held, layout

    @property
    def number(self) -> int:
        """Greater than that of the item before, not always by one."""
        return self._held.number

    def release(self) -> bool:
        """No more arrays are given out; true when the item is let go, false when arrays hold it."""
        return self._held.release()

    def array(self) -> npt.NDArray[Any]:
        """The item as a read-only array, where it lies. The array holds the item."""
        plain = np.frombuffer(memoryview(self._held), np.uint8)
        if self._held.nbytes != self._layout.nbytes:
            return plain  # a producer that is not this package may write shorter ones
        return plain.view(self._layout.dtype).reshape(self._layout.shape)

    def copy(self) -> npt.NDArray[Any]:
        """The item as an array of one's own, which holds nothing."""
        return self.array().copy()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class QueueConsumer(_native.QueueConsumer):
    """A consumer of a queue: it sees what is committed after it attached, one item at a time."""

    layout: Layout
    """What an item is."""
    name: str
    """What it was found by."""
    _is_awaited: bool

    def __new__(cls, name: str, owner: int | None = None) -> Self:
        new = super().__new__
        consumer = served(lambda: new(cls, name, owner))
        consumer.name, consumer._is_awaited = name, False
        consumer.layout = decode(consumer.description(), consumer.item_bytes)
        return consumer

    def __init__(self, *_: Any) -> None:
        """See `heliostat.attach_queue`."""

    def take(self, timeout: float | None = None) -> Item:
        """The oldest item that is there for this consumer, held; waits for one.

        Raises TimeoutError after `timeout` seconds (None: never), `Gone` when nothing is left and
        the producer has ended or died, and BufferError while the item before is still held: its
        block was not left, or an array of it lives.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            is_over = self.is_over
            if item := self._next():
                return item
            left = SLICE_S if ends is None else min(SLICE_S, ends - time.monotonic())
            self._check(is_over, left)
            self.sleep(left)

    async def take_async(self, timeout: float | None = None) -> Item:
        """The same for asyncio. One task at a time."""
        if self._is_awaited:
            raise RuntimeError("another task waits for this consumer; attach once per task")
        loop, rung = asyncio.get_running_loop(), asyncio.Event()
        ends = None if timeout is None else loop.time() + timeout
        self._is_awaited = True
        loop.add_reader(self.bell, rung.set)
        try:
            while True:
                is_over = not self.drain() or self.is_closed
                rung.clear()
                has_item = self.arm()
                if item := self._next():
                    return item
                left = SLICE_S if ends is None else min(SLICE_S, ends - loop.time())
                self._check(is_over, left)
                if not has_item:
                    await _quietly(rung.wait, left)
        finally:
            loop.remove_reader(self.bell)
            self._is_awaited = False

    def items(self, timeout: float | None = None) -> Iterator[Item]:
        """Item after item, each let go when the loop goes on; ends with the queue, or when none
        came within `timeout` seconds."""
        while True:
            try:
                item = self.take(timeout)
            except (Gone, TimeoutError):
                return
            with item:
                yield item

    async def items_async(self, timeout: float | None = None) -> AsyncIterator[Item]:
        """`items` for asyncio."""
        while True:
            try:
                item = await self.take_async(timeout)
            except (Gone, TimeoutError):
                return
            with item:
                yield item

    @property
    def is_over(self) -> bool:
        """No item will be committed any more; some may still be there."""
        look = select.poll()
        look.register(self.bell, 0)  # a hang-up is always told
        return self.is_closed or any(events & select.POLLHUP for _, events in look.poll(0))

    def _next(self) -> Item | None:
        held = self.next_item()
        return None if held is None else Item(held, self.layout)

    def _check(self, is_over: bool, left: float) -> None:
        if is_over:
            raise Gone(f"the queue {self.name} has ended, and everything of it was taken")
        if left <= 0:
            raise TimeoutError(f"nothing came in the queue {self.name}")


async def _quietly(wait: Callable[[], Any], seconds: float) -> None:
    try:
        await asyncio.wait_for(wait(), seconds)
    except TimeoutError:
        pass


def attach_queue(name: str, owner: int | None = None, *, timeout: float = 0.0) -> QueueConsumer:
    """Attaches to the queue `name`; `owner` and `timeout` are those of `attach`.

    Raises NotFound, InvalidName, Denied, Full, NoControlPlane, Corrupt.
    """
    return when_found(lambda: QueueConsumer(name, owner), timeout)
