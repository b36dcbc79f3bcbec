"""An array in cluster memory: on this node, on another one, or spread over several."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ._array_bytes import Move, Reading, writing
from ._array_head import HEAD_BYTES
from ._array_index import choose
from ._errors import Error, Unsupported
from ._memory_operations import Completion
from ._memory_region import MemoryRegion
from ._memory_spread import SpreadRegion

if TYPE_CHECKING:
    from ._layout import Layout
    from .cluster import Cluster

_WORD_BYTES = 8


class Array:
    """An array that programs of all nodes read and write, from `Cluster.create` or `Cluster.open`.

    `a[10:20]` is a copy, and `a[10:20] = x` writes, wherever the bytes are: an index is made of integers,
    slices, `...` and None. What others do to the same elements meanwhile is seen in any mixture;
    `fetch_add`, `compare_swap` and `swap` are one step each for everybody.

    Where the array lies on this node, in memory that this process has mapped, `view()`, `numpy.asarray`
    and DLPack show the memory itself. Elsewhere `view` is Unsupported and `numpy.asarray` copies.

    It is closed by `close`, at the end of its `with` block, or with the last reference to it, and ends with
    the last program that may manage it, unless it is lasting. Pickled it is a name: whoever unpickles it
    opens the same array by the same rights. Threads may share it, a forked child opens its own. Errors
    name the array and the node, and have them as `array` and `node`.
    """

    def __init__(
        self, cluster: Cluster, region: MemoryRegion | SpreadRegion, layout: Layout, name: str, rights: str
    ) -> None:
        self._cluster, self._region, self._layout = cluster, region, layout
        self._name, self._rights = name, rights

    @property
    def name(self) -> str:
        """What it is found by."""
        return self._name

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""
        return self._layout.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """How many elements it has in each dimension."""
        return self._layout.shape

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return self.nbytes // self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Of all elements."""
        return self._layout.nbytes

    @property
    def identity(self) -> str:
        """What it is, whatever has its name later."""
        return self._region.identity

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that it lies on; 0 for this one."""
        if isinstance(self._region, SpreadRegion):
            return tuple(part.node for part in self._region.parts)
        return (self._region.node or 0,)

    @property
    def is_closed(self) -> bool:
        """Whether this process has given it back."""
        return self._region.is_unmapped

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __getitem__(self, key: Any) -> Any:
        """A copy of the elements; of one, a scalar."""
        reading = Reading(choose(key, self.dtype, self.shape), self.dtype, HEAD_BYTES)
        with self._named():
            for moves in reading.batches():
                self._read(moves)
        return reading.array()

    def __setitem__(self, key: Any, value: Any) -> None:
        """Stores elements, as NumPy would assign them."""
        chosen = choose(key, self.dtype, self.shape)
        with self._named():
            for moves in writing(chosen, self.dtype, HEAD_BYTES, value):
                self._write(moves)

    async def read(self, key: Any = ...) -> Any:
        """The same as `a[key]`, awaited: other tasks of the event loop go on. The parts of a spread array
        are on their way at once."""
        reading = Reading(choose(key, self.dtype, self.shape), self.dtype, HEAD_BYTES)
        with self._named():
            for moves in reading.batches():
                await asyncio.gather(*[self._read_later(*piece) for piece in self._pieces(moves)])
        return reading.array()

    async def write(self, key: Any, value: Any) -> None:
        """The same as `a[key] = value`, awaited."""
        chosen = choose(key, self.dtype, self.shape)
        with self._named():
            for moves in writing(chosen, self.dtype, HEAD_BYTES, value):
                await asyncio.gather(*[self._write_later(*piece) for piece in self._pieces(moves)])

    def view(self) -> npt.NDArray[Any]:
        """The array's own memory, without a copy; see `MemoryRegion.array` for what that promises. Raises
        Unsupported where it is not mapped in one piece: on another node, of another user, spread."""
        with self._named():
            if isinstance(self._region, SpreadRegion):
                raise Unsupported("it is spread over nodes, and so no one piece of memory")
            return self._region.array(self.dtype, self.shape, HEAD_BYTES)

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        """For NumPy: the memory itself if that can be and no copy is asked for, else a copy."""
        shown: npt.NDArray[Any] | None = None
        if not copy:
            with contextlib.suppress(Unsupported):
                shown = self.view()
        is_other = dtype is not None and np.dtype(dtype) != self.dtype
        if copy is False and (shown is None or is_other):
            raise ValueError(f"array {self._name} can be had as a copy only")
        found = np.asarray(self[...]) if shown is None else shown
        return found.astype(dtype) if is_other else found

    def __dlpack__(self, **asked: Any) -> Any:
        """The array's own memory for PyTorch, JAX and others; BufferError where there is none here."""
        try:
            return self.view().__dlpack__(**asked)
        except Unsupported as error:
            raise BufferError(str(error)) from error

    def __dlpack_device__(self) -> tuple[int, int]:
        """The memory of the CPU."""
        return (1, 0)

    def fetch_add(self, index: Any, more: int) -> int:
        """Adds to one element of a 64-bit integer array, and returns what it was; it wraps around."""
        with self._named():
            return self._word(self._region.fetch_add(self._place(index), int(more)))

    def compare_swap(self, index: Any, expected: int, new: int) -> int:
        """Stores `new` in one element if it is `expected`; returns what it was, which says whether it did."""
        with self._named():
            old = self._region.compare_swap(self._place(index), int(expected), int(new))
            return self._word(old)

    def swap(self, index: Any, new: int) -> int:
        """Stores `new` in one element, and returns what it was."""
        with self._named():
            return self._word(self._region.swap(self._place(index), int(new)))

    def set_lasting(self, is_lasting: bool) -> None:
        """Says whether it outlives those who manage it. Not of a spread one, whose maker has said so."""
        with self._named():
            if isinstance(self._region, SpreadRegion):
                raise Unsupported("how long a spread array lives is said where it is made")
            self._region.set_lasting(is_lasting)

    def close(self) -> None:
        """Gives it back. Again: nothing."""
        self._region.unmap()

    def free(self) -> None:
        """Ends it for everybody. BufferError while views of it live here."""
        with self._named():
            self._region.free()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        from .cluster import _opened_again

        if isinstance(self._region, SpreadRegion):
            where: tuple[int | None, bool] = (None, True)
        else:
            where = (self._cluster.here(self._region.node), False)
        return _opened_again, (self._name, where, self._rights, self.identity)

    def __repr__(self) -> str:
        where = ", ".join("here" if node == 0 else str(node) for node in self._where())
        return f"<heliostat.cluster.Array {self._name}: {self.shape} {self.dtype}, on {where}>"

    def _where(self) -> tuple[int | str, ...]:
        return ("closed",) if self.is_closed else self.nodes

    def _read(self, moves: list[Move]) -> None:
        if len(moves) == 1:
            self._region.read_into(moves[0].offset, moves[0].block)
            return
        found = self._region.read_pieces([(move.offset, move.block.size) for move in moves])
        for move, data in zip(moves, found, strict=True):
            move.block[:] = np.frombuffer(data, np.uint8)

    def _write(self, moves: list[Move]) -> None:
        if len(moves) == 1:
            self._region.write(moves[0].offset, moves[0].block)
            return
        self._region.write_pieces([(move.offset, move.block) for move in moves])

    def _pieces(self, moves: list[Move]) -> Iterator[tuple[MemoryRegion, Move]]:
        """The moves by the regions that they are in."""
        region = self._region
        if not isinstance(region, SpreadRegion):
            yield from ((region, move) for move in moves)
            return
        for offset, block in moves:
            done = 0
            for number, at, nbytes in region._places(offset, block.size):
                yield region._part(number), Move(at, block[done : done + nbytes])
                done += nbytes

    async def _read_later(self, region: MemoryRegion, move: Move) -> None:
        nbytes = move.block.size
        ended = await self._cluster.later().one(lambda it: it.read(region, move.offset, nbytes))
        _raise(ended)
        move.block[:] = np.frombuffer(ended.data, np.uint8)

    async def _write_later(self, region: MemoryRegion, move: Move) -> None:
        _raise(await self._cluster.later().one(lambda it: it.write(region, *move)))

    def _place(self, index: Any) -> int:
        """Where the word of one element is."""
        if self.dtype.kind not in "iu" or self.dtype.itemsize != _WORD_BYTES or not self.dtype.isnative:
            raise TypeError(f"elements that change in one step are int64 or uint64, not {self.dtype}")
        chosen = choose(index, self.dtype, self.shape)
        if chosen.shape:
            raise IndexError("one element changes in one step, and this index means several")
        return HEAD_BYTES + chosen.offset

    def _word(self, found: int) -> int:
        is_negative = self.dtype.kind == "i" and found >= 1 << 63
        return found - (1 << 64) if is_negative else found

    @contextlib.contextmanager
    def _named(self) -> Iterator[None]:
        """Errors that are raised name the array and its node."""
        try:
            yield
        except Error as error:
            raise named(error, self._name, self._where()) from error


def named(error: Error, name: str, where: tuple[int | str, ...]) -> Error:
    """The same error, of an array on these nodes."""
    nodes = ", ".join("this node" if node == 0 else f"node {node}" for node in where)
    told = type(error)(f"array {name} ({nodes}): {error}")
    told.array, told.node = name, where[0] if len(where) == 1 and where[0] else None
    return told


def _raise(ended: Completion) -> None:
    if ended.error is not None:
        raise ended.error
