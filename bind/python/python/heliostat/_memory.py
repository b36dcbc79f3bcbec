"""Which memory can be a region: whatever NumPy can show as one writable, contiguous array."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ._errors import InvalidRegion


def writable(a: Any) -> npt.NDArray[Any]:
    """`a` as an array over the same memory; refused if that memory cannot be a region."""
    array = _as_array(a)
    if array.dtype.hasobject:
        raise InvalidRegion(f"{array.dtype} holds Python objects, which mean nothing elsewhere")
    if array.ndim == 0:
        raise InvalidRegion("an array without dimensions is no region; use a.reshape(1)")
    if array.nbytes == 0:
        raise InvalidRegion(f"shape {array.shape} of {array.dtype} has no bytes")
    if not array.flags.c_contiguous:
        of_columns = array.flags.f_contiguous
        advice = "pass a.T, which is the same memory in C order" if of_columns else "copy it first"
        raise InvalidRegion(f"the array is not contiguous in C order; {advice}")
    if not array.flags.writeable:
        raise InvalidRegion("the memory is read-only: nobody could change it between two versions")
    return array


def _as_array(a: Any) -> npt.NDArray[Any]:
    if isinstance(a, np.ndarray):
        return np.asarray(a)
    try:
        view = memoryview(a)
    except TypeError:
        view = None
    if view is not None:
        return np.asarray(view)
    if not hasattr(a, "__dlpack__"):
        raise InvalidRegion(f"a {type(a).__name__} has neither a buffer nor DLPack")
    try:
        return np.from_dlpack(a)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidRegion(f"this {type(a).__name__} is no memory of the CPU: {error}") from error
