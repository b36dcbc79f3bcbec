"""Which bytes of an array an index means, as NumPy would say it: no byte is looked at.

An index of integers, slices, `...` and `None` is a view, and a view is a first byte and strides. Its bytes
are then some *runs* that lie one after the other each, in the order of the view's elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

# Where so much of what lies between the first and the last byte is wanted, all of it is read.
_DENSE = 4
# Of an index whose runs are more than these, and not dense, several calls are made.
RUNS_MAX = 4096


class Chosen(NamedTuple):
    """The elements that an index means."""

    offset: int
    """Of the first byte, from the array's first."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In bytes; none is negative."""
    flips: tuple[slice, ...]
    """What turns the elements round that are asked for backwards."""

    def blocks(self, itemsize: int) -> tuple[int, int]:
        """Bytes of each run, and how many dimensions tell where runs begin."""
        length, dims = itemsize, len(self.shape)
        while dims and (self.strides[dims - 1] == length or self.shape[dims - 1] == 1):
            dims -= 1
            length *= self.shape[dims]
        return length, dims

    def starts(self, dims: int) -> Iterator[int]:
        """Where each run begins, by so many dimensions."""
        pairs = zip(self.shape[:dims], self.strides, strict=False)
        steps = [range(0, extent * stride, stride) for extent, stride in pairs]
        return (self.offset + sum(at) for at in itertools.product(*steps))

    def span(self, itemsize: int) -> int:
        """Bytes from the first to the last."""
        return itemsize + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))

    def is_dense(self, itemsize: int) -> bool:
        """Whether reading what lies between costs less than leaving it out."""
        return self.span(itemsize) <= _DENSE * itemsize * math.prod(self.shape)


def choose(key: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Chosen:
    """What `key` means. Raises IndexError as NumPy does, and TypeError for what is no view."""
    keys = key if isinstance(key, tuple) else (key,)
    if not all(_is_basic(each) for each in keys):
        raise TypeError("an array of a cluster takes integers, slices, ... and None; read, then index")
    if not any(each is Ellipsis for each in keys):
        # Else integers for all dimensions would have an element read, and there is none.
        keys = (*keys, Ellipsis)
    view = _shape_only(dtype, shape)[keys]
    first = view.__array_interface__["data"][0] - _BASE
    offset, strides, flips = first, [], []
    for extent, stride in zip(view.shape, view.strides, strict=True):
        if stride < 0 and extent:
            offset += (extent - 1) * stride
        strides.append(abs(stride))
        flips.append(slice(None, None, -1 if stride < 0 else 1))
    return Chosen(offset, view.shape, tuple(strides), tuple(flips))


def _is_basic(key: Any) -> bool:
    if key is None or key is Ellipsis or isinstance(key, slice):
        return True
    return hasattr(key, "__index__") and not isinstance(key, (bool, np.bool_, np.ndarray))


_PLACE = np.zeros(1, np.uint8)
_BASE = _PLACE.__array_interface__["data"][0]


class _Interface:
    """One byte that says it is an array. Views of it are made and measured, and never read."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        place = (_BASE, True)
        self.__array_interface__ = {
            "version": 3, "shape": shape, "typestr": f"|V{dtype.itemsize}", "data": place,
        }


def _shape_only(dtype: np.dtype[Any], shape: tuple[int, ...]) -> npt.NDArray[Any]:
    return np.asarray(_Interface(dtype, shape))
