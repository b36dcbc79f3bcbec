"""The exceptions of this package.

Each says in its text which thing, which limit and which side is at fault. Those that have a
natural parent among Python's own exceptions have it as well, so that code which knows nothing of
Heliostat catches what it expects.
"""

from __future__ import annotations

from threading import BrokenBarrierError


class Error(Exception):
    """Whatever this package raises on its own account is one of these."""

    may_have_run = False
    """Of a remote procedure call: whether the function may have run although there is no reply."""
    array: str | None = None
    """Of an array of a cluster: its name."""
    node: int | None = None
    """The other node that it is on, where it is on one."""


class NotFound(Error, LookupError):
    """No region has that name now, or no function: its producer, or server, has not begun, or has ended."""


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
    """Its turn, the last participant, or a reply, did not come in time."""


class BrokenBarrier(Error, BrokenBarrierError):
    """A participant has died or stopped waiting, or the barrier was reset meanwhile."""


class NoControlPlane(Error, ConnectionError):
    """There is no control plane, or it does not answer."""


class CommandFailed(Error):
    """A program of Heliostat ended with an error; the text is what it said."""


class NotDelivered(Error):
    """No server has seen a call, or a message: the function did not run. Besides, Gone where nobody serves
    it or its node is not joined, TimedOut, Full where there is no room in line, Cancelled."""


class Unanswered(Error):
    """A server may have seen a call that has no reply: the function may have run, or run on. Besides,
    TimedOut, Cancelled, NoControlPlane, or ConnectionError where the server ended or its node was lost."""

    may_have_run = True


class Failed(Error):
    """The function ran and says no; the text is its own. A function that a service runs raises it for that."""

    may_have_run = True


class TooLong(Error, ValueError):
    """A payload, or a reply, is longer than the function carries."""


class Trimmed(Gone):
    """The entry of a log was trimmed."""


class NoEntry(Error, LookupError):
    """No entry of the log begins there, or none that is acknowledged; or it is not handed out."""


class Damaged(Corrupt):
    """An acknowledged entry of a log is not there any more. Nothing behind it was passed over."""

    position: object = None
    """Which entry: a `heliostat.log.Position`."""


class DeviceFailed(Error, OSError):
    """The device of a log fails. What was not acknowledged may be there or not: opening the log again
    finds out."""


class InUse(Error):
    """Another process has the log open to write. It can be read meanwhile."""


class NotALog(Error, ValueError):
    """What lies there is no log."""


class WrongDevice(Error, ValueError):
    """No device for a log, or not the one that this log was made on: it is too small, or its size or
    sector differs."""


class NotDeliveredGone(NotDelivered, Gone):
    """Nobody serves the function."""


class NotDeliveredTimedOut(NotDelivered, TimedOut):
    """Its time was over before a server was free, or before there was room in line."""


class NotDeliveredFull(NotDelivered, Full):
    """There is no room in line now."""


class NotDeliveredCancelled(NotDelivered, Cancelled):
    """It was given up before a server was free."""


class NotDeliveredNodeDown(NotDelivered, Gone):
    """The function's node is not joined."""


class UnansweredTimedOut(Unanswered, TimedOut):
    """Its time was over before the server answered."""


class UnansweredCancelled(Unanswered, Cancelled):
    """It was given up before the server answered."""


class UnansweredServerEnded(Unanswered, ConnectionError):
    """The server ended before it answered."""


class UnansweredNodeLost(Unanswered, ConnectionError):
    """The function's node was lost before the server answered."""


class UnansweredNodeBroken(Unanswered, ConnectionError):
    """The function's node broke the protocol."""


class UnansweredControlGone(Unanswered, NoControlPlane):
    """The control plane has ended, or the session with it."""
