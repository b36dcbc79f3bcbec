"""The producer of a queue: items that are written where they stay, and read there by others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import Full, InvalidRegion
from ._layout import Layout
from ._naming import served

# A signal that comes between two sleeps is seen after this long.
SLICE_S = 0.5


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
        new = super().__new__
        queue = served(lambda: new(cls, name, layout.encode(), *settings))
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
                return Reservation(super()._reserve(), self.layout)
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
