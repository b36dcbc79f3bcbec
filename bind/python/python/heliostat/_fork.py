"""Arrays that a forked child has from its parent.

The child's copy of an array shows the same memory, but the pin is the parent's. So the parent keeps
the pin of every version that has arrays at a fork until the child, and whoever it forked, has
ended or become another program: they hold one end of a pipe, and the parent looks at the other now
and then. The handle of a memory region that has arrays is kept likewise.
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import _native

    _Held = _native.Version | _native.MemoryBytes

_known: weakref.WeakSet[_Held] = weakref.WeakSet()
# A set that grows cannot be walked.
_lock = threading.Lock()
# What is held for children, by the end of the pipe that hangs up after the last of them.
_lent: dict[int, list[_Held]] = {}
# Of a fork under way in this thread: both ends of a pipe, and what is held.
_forking = threading.local()


def know(version: _Held) -> None:
    """From now on forks heed this version, or these bytes of a memory region."""
    with _lock:
        _known.add(version)


def settle() -> None:
    """Lets go of what was held for children that have ended."""
    if not _lent:
        return
    look = select.poll()
    for pipe in list(_lent):  # another thread may let go meanwhile
        look.register(pipe, 0)  # a hang-up is always told
    for pipe, _ in look.poll(0):
        versions = _lent.pop(pipe, [])
        if versions:
            os.close(pipe)
        for version in versions:
            version._unhold()


def _before() -> None:
    _forking.held, _forking.pipe = [], None
    with _lock:
        versions = list(_known)
    for version in versions:
        if version._hold():
            _forking.held.append(version)
    if _forking.held:
        # Without one (out of descriptors) nobody says when the child has ended: they are held on.
        with contextlib.suppress(OSError):
            _forking.pipe = os.pipe()


def _in_parent() -> None:
    if _forking.pipe is not None:
        ours, theirs = _forking.pipe
        os.close(theirs)
        _lent[ours] = _forking.held
    settle()


def _in_child() -> None:
    global _lock
    # Another thread of the parent may hold it for ever.
    _lock = threading.Lock()
    # The child keeps its end of the pipe, and closes its parent's.
    if _forking.pipe is not None:
        os.close(_forking.pipe[0])
    for pipe in _lent:
        os.close(pipe)
    _lent.clear()
    _known.clear()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
