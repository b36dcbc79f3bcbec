"""What the bytes of a region mean, as text that travels with the region.

One line of JSON in the region's description (2,044 bytes at most):

    {"heliostat": 1, "typestr": "<f8", "shape": [1000, 1000]}

`typestr` and `shape` are those of NumPy's array interface; structured types have a `descr` beside
it. Whoever attaches has this from another program, so it is checked like any foreign input, and
what does not fit the region's length means that the region is bytes.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

VERSION = 1
# As many as NumPy has.
DIMENSIONS_MAX = 64


@dataclass(frozen=True)
class Layout:
    """A data type and a shape."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Of an array of this layout."""
        return math.prod(self.shape) * self.dtype.itemsize

    def encode(self) -> bytes:
        """The description's text."""
        said: dict[str, Any] = {"heliostat": VERSION, "typestr": self.dtype.str, "shape": self.shape}
        if self.dtype.names is not None:
            said["descr"] = dtype_to_descr(self.dtype)
        return json.dumps(said, separators=(",", ":")).encode()


def decode(text: bytes, nbytes: int) -> Layout:
    """The layout that a description tells, or plain bytes if it tells none of this length."""
    try:
        layout = parse(json.loads(text))
    except Exception:  # foreign text: NumPy and json raise many kinds, and all mean the same
        layout = None
    if layout is None or layout.nbytes != nbytes:
        return Layout(np.dtype(np.uint8), (nbytes,))
    return layout


def parse(said: Any) -> Layout | None:
    """The layout that a decoded description tells; None where it tells none. Raises what NumPy does."""
    if not isinstance(said, dict) or said.get("heliostat") != VERSION:
        return None
    shape, typestr = said.get("shape"), said.get("typestr")
    if not isinstance(shape, list) or not isinstance(typestr, str) or len(shape) > DIMENSIONS_MAX:
        return None
    if not all(type(extent) is int and extent > 0 for extent in shape):
        return None
    dtype = descr_to_dtype(_tuples(said["descr"])) if "descr" in said else np.dtype(typestr)
    # A pointer of another process must never be followed.
    if dtype.hasobject or dtype.itemsize == 0:
        return None
    return Layout(dtype, tuple(shape))


def _tuples(descr: Any) -> Any:
    """JSON has no tuples: fields, shapes of fields and titles were some."""
    if isinstance(descr, list):
        return [_field(entry) for entry in descr]
    return descr


def _field(entry: Any) -> Any:
    if not isinstance(entry, list):
        return entry
    name, kind, *shape = entry
    name = tuple(name) if isinstance(name, list) else name
    return (name, _tuples(kind), *(tuple(part) if isinstance(part, list) else part for part in shape))
