"""The exceptions of this package.

Each says in its text which thing, which limit and which side is at fault. Those that have a
natural parent among Python's own exceptions have it as well, so that code which knows nothing of
Heliostat catches what it expects.
"""

from __future__ import annotations

from threading import BrokenBarrierError


class Error(Exception):
    """Whatever this package raises on its own account is one of these."""


class NotFound(Error, LookupError):
    """No region has that name now: its producer has not begun, or has ended."""


class NameTaken(Error):
    """A living producer, or another memory region, has that name; or a lock of another kind or count."""


class Denied(Error, PermissionError):
    """The control plane's rules forbid it, or took it back."""


class Full(Error):
    """Every place is taken: of versions, of pins, of consumers, of regions, or of their bytes. Letting
    go helps."""


class Gone(Error, LookupError):
    """No such version: none was published yet, or nobody kept it. Or the memory region was freed, or
    ended with those who manage it."""


class Busy(Error):
    """The producer retires versions faster than one can be pinned. Trying again may help."""


class Idle(Error):
    """Nothing is on its way that could be waited for."""


class Cancelled(Error):
    """The operation was given up; it may have been done in part."""


class Forked(Error):
    """A forked child used what its parent made. Attach, or make a region, in the child."""


class Corrupt(Error):
    """What the other side wrote contradicts itself. Nothing of it was used."""


class Unsupported(Error):
    """It cannot be done here, and trying again will not help: on this machine, of which
    `heliostat.doctor()` says more, or with a memory region that lies as this one does."""


class MappingFailed(Error, OSError):
    """The system refused memory."""


class InvalidName(Error, ValueError):
    """The text is no name of a region."""


class InvalidRegion(Error, ValueError):
    """No region can be made of this memory, or a range lies outside it. Also of a wrong type of
    memory: not writable, not contiguous, without a fixed size; and of a word of a memory region at no
    multiple of 8."""


class TimedOut(Error, TimeoutError):
    """Its turn, or the last participant, did not come in time."""


class BrokenBarrier(Error, BrokenBarrierError):
    """A participant has died or stopped waiting, or the barrier was reset meanwhile."""


class NoControlPlane(Error, ConnectionError):
    """There is no control plane, or it does not answer."""


class CommandFailed(Error):
    """A program of Heliostat ended with an error; the text is what it said."""
