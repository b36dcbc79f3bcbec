"""The writing side of a stream of steps: variables into regions, versions into the index."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ._adios2_steps import INDEX_BYTES, KINDS, Attribute, Part, Step, region_name
from ._errors import Full
from ._region import Region

Box = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
# Places beyond the queue: the version in the making, and two that readers hold longer.
SPARE_COLOURS = 3


def at_address(address: int, kind: str, count: tuple[int, ...]) -> npt.NDArray[Any]:
    """Somebody's memory as an array; a single value has no dimensions and one element."""
    dtype, extents = np.dtype(KINDS[kind]), count or (1,)
    size = dtype.itemsize * int(np.prod(extents))
    view = memoryview((ctypes.c_char * size).from_address(address))
    return np.frombuffer(view, np.uint8).view(dtype).reshape(extents)


class Kept:
    """One variable's region."""

    def __init__(self, region: Region, name: str, kind: str, shape: tuple[int, ...]):
        self.region, self.name, self.kind, self.shape = region, name, kind, shape
        self.version = 0

    def fits(self, kind: str, shape: tuple[int, ...]) -> bool:
        return (self.kind, self.shape) == (kind, shape)


class Writer:
    """A stream that this process writes. Never waits for readers."""

    def __init__(
        self, stream: str, queue: int, in_place: bool, merge: Callable[[int, int, int], None]
    ):
        self.stream, self.in_place, self.merge = stream, in_place, merge
        self.settings: dict[str, Any] = {"keep": queue, "colours": queue + SPARE_COLOURS}
        self.index = Region.allocate(INDEX_BYTES, np.uint8, f"{stream}/steps", **self.settings)
        self.kept: dict[str, Kept] = {}
        # Regions of shapes that variables had, with the step that first did without them.
        self.retired: list[tuple[int, Kept]] = []
        self.queue = queue
        self.made = 0
        self.step = -1
        self.now = Step(-1)
        self.deferred: set[str] = set()
        self.is_discarded = False
        self.discarded = 0

    def begin(self, _seconds: float) -> int:
        self.step += 1
        self.now = Step(self.step, attributes=self.now.attributes)
        self.is_discarded = False
        self.deferred.clear()
        while self.retired and self.retired[0][0] <= self.step - self.queue:
            self.retired.pop(0)[1].region.close()
        return 0

    def put(self, name: str, kind: str, deferred: bool, box: Box, address: int) -> None:
        """Takes one block of a variable: into its region, or as its region."""
        if kind not in KINDS:
            raise ValueError(f"{name} is of type {kind}, which NumPy has not")
        shape, _start, count = box
        if self.in_place and shape and count == shape:
            kept = self._adopt(name, kind, shape, address)
        else:
            kept = self._own(name, kind, shape)
            self._copy(kept.region.array, at_address(address, kind, count), box)
        part = Part(kind, shape, kept.name, 0)
        self.now.parts[name] = part
        # A put that is not deferred leaves the array to the program; a block may have others.
        if self.in_place and not deferred:
            self._publish(name)
        else:
            self.deferred.add(name)

    def _own(self, name: str, kind: str, shape: tuple[int, ...]) -> Kept:
        """The variable's region with memory of its own."""
        kept = self.kept.get(name)
        if kept is None or not kept.fits(kind, shape):
            title = self._next_name(name)
            region = Region.allocate(shape or 1, KINDS[kind], title, **self.settings)
            kept = self._keep(name, Kept(region, title, kind, shape))
        return kept

    def _adopt(self, name: str, kind: str, shape: tuple[int, ...], address: int) -> Kept:
        """The variable's region over the program's own array."""
        kept = self.kept.get(name)
        if kept is None or not kept.fits(kind, shape) or kept.region.address != address:
            title = self._next_name(name)
            array = at_address(address, kind, shape)
            kept = self._keep(
                name, Kept(Region.from_array(array, title, **self.settings), title, kind, shape)
            )
        return kept

    def _next_name(self, name: str) -> str:
        self.made += 1
        return region_name(self.stream, name, self.made)

    def _keep(self, name: str, kept: Kept) -> Kept:
        """Puts a region in the place of the variable's old one, which stays while a step of the
        queue has it. Memory of the program cannot: two regions over it would not both be tracked.
        """
        old = self.kept.pop(name, None)
        if old is not None and self.in_place:
            old.region.close()
        elif old is not None:
            self.retired.append((self.step, old))
        self.kept[name] = kept
        return kept

    def _copy(self, target: npt.NDArray[Any], block: npt.NDArray[Any], box: Box) -> None:
        shape, start, count = box
        if count == shape:
            self.merge(target.ctypes.data, block.ctypes.data, target.nbytes)
        elif all(s + c <= e for s, c, e in zip(start, count, shape, strict=True)):
            target[tuple(slice(s, s + c) for s, c in zip(start, count, strict=True))] = block
        else:
            raise ValueError(f"a block of {count} at {start} is not inside {shape}")

    def put_text(self, name: str, text: str) -> None:
        self.now.texts[name] = text

    def attribute(self, name: str, it: Attribute) -> None:
        self.now.attributes[name] = it

    def _publish(self, name: str) -> None:
        """A version of one variable. Without a free place the whole step is discarded."""
        kept = self.kept[name]
        try:
            version = kept.region.publish().number
        except Full:
            self.is_discarded = True
            return
        old = self.now.parts[name]
        self.now.parts[name] = Part(old.kind, old.shape, old.region, version)

    def end(self) -> None:
        for name in self.deferred:
            self._publish(name)
        if not self.is_discarded:
            self._tell()
        self.discarded += self.is_discarded

    def _tell(self) -> None:
        """The index, last: from now on readers may see the step."""
        text = self.now.encode()
        self.index.array[: len(text)] = np.frombuffer(text, np.uint8)
        try:
            self.index.publish()
        except Full:
            self.is_discarded = True

    def close(self) -> None:
        """Says that no step follows; readers keep what they have."""
        self.now.is_last = True
        self._tell()
        retired = (kept for _, kept in self.retired)
        for kept in [*self.kept.values(), *retired]:
            kept.region.close()
        self.index.close()
