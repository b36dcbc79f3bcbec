"""Heliostat: consistent versions of live memory for other processes.

A producer publishes versions of its own memory and goes on writing it; a consumer pins a version
and reads it, as a read-only array without a copy:

    region = heliostat.Region.from_array(a, name="heat")
    region.publish()

    with heliostat.attach("heat").latest() as snapshot:
        snapshot.array()

`heliostat.memory` has memory that several programs read and write, `heliostat.lock` locks that they share,
`heliostat.log` logs and queues that are durable when they say so, `heliostat.store` bytes with a name that
outlive every program, `heliostat.rpc` functions that one serves and another calls, `heliostat.cluster` arrays
that programs of several nodes share. A control plane is started if none runs.
`run`, `status`, `explain`, `metrics` and `doctor` are the command line's.
"""

from typing import TYPE_CHECKING

from . import cluster, lock, log, memory, rpc, store
from ._attachment import Attachment, attach, attach_by
from ._command import doctor, explain, metrics, run, status
from ._errors import (
    BrokenBarrier,
    Busy,
    Cancelled,
    CommandFailed,
    Corrupt,
    Damaged,
    Denied,
    DeviceFailed,
    Error,
    Failed,
    Forked,
    Full,
    Gone,
    Idle,
    InUse,
    InvalidName,
    InvalidRegion,
    MappingFailed,
    NameTaken,
    NoControlPlane,
    NoEntry,
    NotALog,
    NotDelivered,
    NotFound,
    TimedOut,
    TooLong,
    Trimmed,
    Unanswered,
    Unsupported,
    WrongDevice,
)
from ._layout import Layout
from ._queue import Queue, QueueMetrics, Reservation
from ._queue_consumer import Item, QueueConsumer, attach_queue
from ._region import Ahead, Metrics, Published, Region
from ._snapshot import Cost, Snapshot

__all__ = [
    "__version__",
    "Ahead",
    "Attachment",
    "BrokenBarrier",
    "Busy",
    "Cancelled",
    "CommandFailed",
    "Corrupt",
    "Cost",
    "Damaged",
    "Denied",
    "DeviceFailed",
    "Error",
    "Failed",
    "Forked",
    "Full",
    "Gone",
    "Idle",
    "InUse",
    "InvalidName",
    "InvalidRegion",
    "Item",
    "Layout",
    "MappingFailed",
    "Metrics",
    "NameTaken",
    "NoControlPlane",
    "NoEntry",
    "NotALog",
    "NotDelivered",
    "NotFound",
    "Published",
    "Queue",
    "QueueConsumer",
    "QueueMetrics",
    "Region",
    "Reservation",
    "Snapshot",
    "TimedOut",
    "TooLong",
    "Trimmed",
    "Unanswered",
    "Unsupported",
    "WrongDevice",
    "attach",
    "attach_by",
    "attach_queue",
    "cluster",
    "doctor",
    "explain",
    "lock",
    "log",
    "memory",
    "metrics",
    "rpc",
    "run",
    "status",
    "store",
]

if TYPE_CHECKING:
    __version__: str
else:

    def __getattr__(name: str) -> str:
        """`__version__`, looked up when it is asked for: the look takes longer than importing the package."""
        if name != "__version__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib.metadata import version

        return version("heliostat")
