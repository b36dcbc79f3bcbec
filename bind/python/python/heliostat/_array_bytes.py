"""Elements of an array, to and from the bytes of the region that it lies in.

What an index means is a list of *moves*: where in the region, and which bytes of a block in this process.
How they are made is said by who asks: at once, or by operations that complete later.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ._array_index import RUNS_MAX, Chosen

Block = npt.NDArray[np.uint8]
# Bytes on their way by one call, about: what many runs need twice.
_BATCH_BYTES = 64 << 20


class Move(NamedTuple):
    """Bytes that lie one after the other on both sides."""

    offset: int
    """In the region."""
    block: Block
    """Those of this process."""


class Reading:
    """What is read for an index: blocks that are filled, and the array that they are then."""

    def __init__(self, chosen: Chosen, dtype: np.dtype[Any], base: int) -> None:
        self._chosen, self._dtype = chosen, dtype
        size = dtype.itemsize
        self._is_span = chosen.is_dense(size) and chosen.blocks(size)[1] > 0
        nbytes = chosen.span(size) if self._is_span else size * math.prod(chosen.shape)
        self._block: Block = np.empty(nbytes if math.prod(chosen.shape) else 0, np.uint8)
        self._base = base

    def batches(self) -> Iterator[list[Move]]:
        """What is to be read, some of it at a time."""
        if self._block.size == 0:
            return iter(())
        if self._is_span:
            return iter([[Move(self._base + self._chosen.offset, self._block)]])
        return _batches(self._chosen, self._dtype, self._base, self._block)

    def array(self) -> Any:
        """The elements, once all is read; one element is a scalar."""
        chosen, dtype = self._chosen, self._dtype
        if self._is_span and self._block.size:
            shown = np.ndarray(chosen.shape, dtype, self._block, 0, chosen.strides)
            shown = np.ascontiguousarray(shown) if chosen.shape else shown
        else:
            shown = self._block.view(dtype).reshape(chosen.shape)
        return shown[chosen.flips] if chosen.shape else shown[()]


def writing(
    chosen: Chosen, dtype: np.dtype[Any], base: int, value: Any
) -> Iterator[list[Move]]:
    """What is to be written so that the elements are `value`, as NumPy would assign it."""
    elements = np.empty(chosen.shape, dtype)
    elements[chosen.flips] = value
    if elements.size == 0:
        return iter(())
    return _batches(chosen, dtype, base, elements.reshape(-1).view(np.uint8))


def _batches(
    chosen: Chosen, dtype: np.dtype[Any], base: int, block: Block
) -> Iterator[list[Move]]:
    length, dims = chosen.blocks(dtype.itemsize)
    most = min(RUNS_MAX, max(1, _BATCH_BYTES // length))
    numbered = enumerate(chosen.starts(dims))
    while batch := list(itertools.islice(numbered, most)):
        yield [Move(base + at, block[n * length : (n + 1) * length]) for n, at in batch]
