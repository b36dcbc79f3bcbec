"""One memory region: its bytes by whichever path, its words, its life, and arrays of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from . import _fork, _native
from ._errors import InvalidRegion


class _Bytes(_native.MemoryBytes):
    """What one array shows; forks heed it."""


class MemoryRegion(_native.MemoryRegion):
    """A handle on a memory region, from `Memory.allocate` or `Memory.map`.

    It is given back by `unmap`, at the end of its `with` block, or with the last reference to it; the
    region ends with the last handle that may manage it, unless it is lasting. Threads may share it. A
    forked child maps the region by itself.

    Every operation raises InvalidRegion when not all of it lies in the region, Denied when the handle
    does not allow it, Gone when the region was freed or its managers have ended, NoControlPlane when
    the session is over: the same on both paths. After `unmap` it is ValueError.

    What others do to the same bytes meanwhile is seen in any mixture. Words are different: `fetch_add`,
    `compare_swap` and `swap` of everybody are one step each, and all agree on their order. They hold
    64 bits, native byte order, at multiples of 8; a negative number is stored in two's complement, and
    what they return is 0 to 2**64 - 1.
    """

    name: str | None
    """What it was allocated, mapped or last renamed as, by this handle."""

    def __new__(cls, memory: _native.Memory, name: str | None, *settings: Any) -> Self:
        # Handles that ended children held count against this user's limits.
        _fork.settle()
        region = super().__new__(cls, memory, name, *settings)
        region.name = name
        return region

    def __init__(self, *_: Any) -> None:
        """See `Memory.allocate` and `Memory.map`."""

    def array(
        self,
        dtype: npt.DTypeLike = np.uint8,
        shape: int | Sequence[int] | None = None,
        offset: int = 0,
    ) -> npt.NDArray[Any]:
        """The region's own bytes from `offset` on, as an array; no copy. As many as there are now, if
        no `shape` is given; read-only, if the handle does not allow to write.

        The array is the memory that all others read and write: what they write appears in it between
        any two looks, and what is written into it they see, in any order and in parts. Two that use
        the same bytes agree on who may when, by words of the region (`compare_swap`) or otherwise.
        It keeps the handle: after `unmap` too the bytes are this region's, until the last array has
        gone. An array does not grow with the region, and does not tell that it was freed: only those
        who have arrays already see each other's bytes then. If the control plane ends the session of
        this process, the bytes may belong to another region of this user later.

        Raises Unsupported where the bytes have no such place: the path is "delegated", or they lie in
        several pieces, as those of a region that has grown may.
        """
        kind = np.dtype(dtype)
        if kind.hasobject or kind.itemsize == 0:
            raise InvalidRegion(f"{kind} is no memory to share")
        if shape is None:
            # Of an offset beyond its end the region itself says so.
            shape = max(0, len(self) - offset) // kind.itemsize
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        wanted = math.prod(shape) * kind.itemsize
        if min(shape, default=1) <= 0:
            raise InvalidRegion(f"shape {shape} of {kind} has no bytes")
        source = _Bytes(self, offset, wanted)
        plain = np.frombuffer(memoryview(source), np.uint8)
        _fork.know(source)
        return plain.view(kind).reshape(shape)

    def rename(self, name: str | None, others: str = "") -> None:
        """Gives it this name, or takes it away, and says what other users may who know that. Takes
        the right to share. Raises InvalidName, NameTaken, Denied."""
        self._rename(name, others)
        self.name = name

    def share(self, others: str) -> None:
        """Other users who know its name may do this with it from now on, as far as the rules allow
        it: `rename` to the name that it has."""
        self._rename(self.name, others)

    def unmap(self) -> bool:
        """Gives the handle back. False when arrays still hold it, here or in a forked child; the last of
        them gives it back. Again: nothing. Raises Forked in a child."""
        _fork.settle()
        return super().unmap()

    def free(self) -> None:
        """Ends the region for everybody: other handles on it raise Gone. Raises BufferError while
        arrays of it live, here or in a forked child; Denied without the right to manage, and the
        handle is given back all the same."""
        _fork.settle()
        super().free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unmap()

    def __repr__(self) -> str:
        name = self.name or "without a name"
        return f"<heliostat.MemoryRegion {name}: {self.identity}, {self.path}, {self.rights}>"
