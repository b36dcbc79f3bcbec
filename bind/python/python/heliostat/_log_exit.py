"""Logs that are open when the interpreter ends: what was appended becomes durable then."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from typing import TYPE_CHECKING

from ._errors import Error

if TYPE_CHECKING:
    from . import _native

_open: weakref.WeakSet[_native.LogHandle] = weakref.WeakSet()


def know(log: _native.LogHandle) -> None:
    """Has a log closed at the interpreter's end, unless it is gone by then."""
    _open.add(log)


@atexit.register
def _close_all() -> None:
    for log in list(_open):
        # One that is a fork's parent's is refused; of a device that fails nobody is left to hear.
        with contextlib.suppress(Error):
            log.close()
