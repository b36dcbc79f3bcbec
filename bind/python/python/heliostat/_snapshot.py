"""One version of a region, read-only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from . import _fork, _native
from ._layout import Layout

if TYPE_CHECKING:
    from ._attachment import Attachment


class Cost(NamedTuple):
    """What a version cost its producer, as the producer says."""

    dirty_bytes: int
    """Bytes of pages written since the version before."""
    copied_bytes: int
    """Bytes copied for it."""


class Snapshot(_native.Version):
    """One version of a region, pinned: it does not change, and its memory is not used again.

    The pin ends when two things have come together: `release` was called, or the `with` block left
    (or this object has gone), and no array, memoryview or tensor made from it lives any more. So
    an array may leave the `with` block; it then keeps the version, and no error is raised.

    A version that somebody pins takes a place. A producer without a free one raises `Full`.

    `memoryview(snapshot)` is its bytes; `numpy.from_dlpack(snapshot)`, `torch.from_dlpack(snapshot)`
    and others take it as it is, without a copy.
    """

    _layout: Layout

    def __new__(cls, attachment: Attachment, number: int | None = None) -> Self:
        _fork.settle()
        snapshot = super().__new__(cls, attachment, number)
        snapshot._layout = attachment.layout
        _fork.know(snapshot)
        return snapshot

    def __init__(self, *_: Any) -> None:
        """Snapshots come from an `Attachment`."""

    def array(self) -> npt.NDArray[Any]:
        """The version as a read-only array with the producer's data type and shape; no copy.

        A region whose producer did not say what its bytes mean is an array of bytes. The array
        keeps the version. Raises ValueError after `release`, `Forked` in a forked child.
        """
        plain = np.frombuffer(memoryview(self), np.uint8)
        return plain.view(self._layout.dtype).reshape(self._layout.shape)

    def copy(self) -> npt.NDArray[Any]:
        """The version as an array of one's own, writable, which keeps nothing."""
        return self.array().copy()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Data type of `array()`."""
        return self._layout.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of `array()`."""
        return self._layout.shape

    @property
    def cost(self) -> Cost:
        """What it cost its producer."""
        return Cost(*self.costs())

    def __dlpack__(self, **wishes: Any) -> Any:
        """A DLPack capsule of `array()`, marked read-only; it keeps the version."""
        return self.array().__dlpack__(**wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        """The CPU."""
        return (1, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        state = "released" if self.is_released else "pinned"
        return f"<heliostat.Snapshot {self.number}: {self.shape} {self.dtype}, {state}>"
