"""Queues: items that are written where they stay, and read there by other processes."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from . import _native
from ._binaries import control_plane
from ._errors import Full, Gone, InvalidRegion, NoControlPlane, NotFound
from ._layout import Layout, decode

# A signal that comes between two sleeps, or the other side's death, is seen after this long.
SLICE_S = 0.5
# Between two questions for a name that is not there yet.
RETRY_S = 0.02


class QueueMetrics(NamedTuple):
    """What a queue has done since it began."""

    committed: int
    """Items."""
    full: int
    """Times that no slot was free."""
    passed_over: int
    """Slots passed over, because somebody read them."""
    expelled: int
    """Consumers that hold the producer up no more, by `expel_laggards`."""


class Queue(_native.Queue):
    """The producing end of a queue: for programs that write everything in each step.

    One slot is written at a time. A forked child makes its own. Ends with `close`, its `with`
    block, or its last reference; whoever has items keeps them.
    """

    layout: Layout
    """What an item is: a data type and a shape."""
    name: str
    """What consumers find it by."""

    def __new__(cls, name: str, layout: Layout, *settings: Any) -> Self:
        control_plane()
        try:
            queue = super().__new__(cls, name, layout.encode(), *settings)
        except NoControlPlane:
            control_plane(again=True)
            queue = super().__new__(cls, name, layout.encode(), *settings)
        queue.name, queue.layout = name, layout
        return queue

    def __init__(self, *_: Any) -> None:
        """Queues are made by `create`."""

    @classmethod
    def create(
        cls,
        name: str,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike = np.uint8,
        *,
        slots: int = 8,
        delivery: Literal["all", "one"] = "all",
        full: Literal["raise", "overwrite"] = "raise",
    ) -> Self:
        """A queue of arrays of this shape and data type.

        shape: of each item; a number of bytes, if no `dtype` is given.
        slots: items that the window holds, 2 to 65,536; its memory is so many items.
        delivery: each item goes to "all" consumers, or to "one", the one with fewest to do.
        full: "raise" keeps what was not read and raises `Full`; "overwrite" lets the oldest item
            go that nobody reads at the moment.

        Raises InvalidName, InvalidRegion, NameTaken, Full, Denied, NoControlPlane.
        """
        kind = np.dtype(dtype)
        layout = Layout(kind, (shape,) if isinstance(shape, int) else tuple(shape))
        if kind.hasobject or layout.nbytes <= 0 or min(layout.shape) <= 0:
            raise InvalidRegion(f"shape {layout.shape} of {kind} is no memory to share")
        if delivery not in ("all", "one") or full not in ("raise", "overwrite"):
            raise ValueError("delivery is 'all' or 'one', full is 'raise' or 'overwrite'")
        return cls(name, layout, layout.nbytes, slots, delivery == "one", full == "overwrite")

    def reserve(self, timeout: float | None = 0.0) -> Reservation:
        """A slot for the next item: `with queue.reserve() as slot: slot[...] = ...`.

        The slot is an array in the shared memory, holding whatever an earlier item left. Leaving
        the block commits it; an exception in it gives the slot back, and nobody sees what was
        written. Raises `Full` when no slot is free within `timeout` seconds (None: for ever), and
        BufferError when a slot is reserved already.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                return Reservation(super().reserve(), self.layout)
            except Full:
                left = SLICE_S if ends is None else min(SLICE_S, ends - time.monotonic())
                if left <= 0:
                    raise
                self.wait_room(left)

    def push(self, a: npt.ArrayLike, timeout: float | None = 0.0) -> int:
        """Copies `a` in as an item, broadcast to the items' shape; its number."""
        reservation = self.reserve(timeout)
        with reservation as slot:
            slot[...] = a
        assert reservation.number is not None
        return reservation.number

    def metrics(self) -> QueueMetrics:
        """What it has done since it began."""
        return QueueMetrics(*super().metrics())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Reservation:
    """A slot that is being written. `number` is that of its item, once it is committed."""

    def __init__(self, slot: _native.Slot, layout: Layout) -> None:
        self._slot, self._layout = slot, layout
        self._array: npt.NDArray[Any] | None = None
        self.number: int | None = None

    def __enter__(self) -> npt.NDArray[Any]:
        plain = np.frombuffer(memoryview(self._slot), np.uint8)
        self._array = plain.view(self._layout.dtype).reshape(self._layout.shape)
        return self._array

    def __exit__(self, kind: object, *_: object) -> None:
        if self._array is not None:
            # Consumers read it from now on. Views that were made of it are not reached by this.
            self._array.flags.writeable = False
        if kind is None:
            self.number = self._slot.commit(self._layout.nbytes)
        else:
            self._slot.cancel()


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
        control_plane()
        try:
            consumer = super().__new__(cls, name, owner)
        except NoControlPlane:
            control_plane(again=True)
            consumer = super().__new__(cls, name, owner)
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
    ends = time.monotonic() + timeout
    while True:
        try:
            return QueueConsumer(name, owner)
        except NotFound:
            if time.monotonic() >= ends:
                raise
            time.sleep(RETRY_S)
