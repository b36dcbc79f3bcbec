"""The extension module; its classes are the bases of the package's."""

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, Self

from _typeshed import ReadableBuffer, WriteableBuffer

def configure(socket_path: str, program: str) -> None: ...
def forget_after_fork() -> None: ...

class Region:
    def __new__(cls, *arguments: Any) -> Self: ...
    def publish(self) -> tuple[int, int, int, bool | None]: ...
    def copy_ahead(self, budget: int | None = None) -> tuple[int, bool]: ...
    def declare(self, start: int, stop: int) -> None: ...
    def metrics(self) -> tuple[int, int, int, int]: ...
    def descriptors(self) -> tuple[int, int]:
        """Table and pool, for a consumer that this process lets in by itself (`admit`), sealed so
        that holders can only read. They belong to the region: good until it is closed."""
    def admit(self, pins: int, bell: int) -> None:
        """Lets a consumer in by the descriptors that its `heliostat.attach_by` has announced. They
        stay the caller's. Raises Full, Corrupt, MappingFailed."""
    def close(self) -> None:
        """Ends the region and lets the memory go. Again: nothing. Raises Forked in a child."""
    @property
    def is_closed(self) -> bool: ...
    @property
    def name(self) -> str | None: ...
    @property
    def engine(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

class Attachment:
    def __new__(
        cls,
        name: str | None = None,
        owner: int | None = None,
        region: Region | None = None,
        descriptors: tuple[int, int] | None = None,
        announce: Callable[[int, int], object] | None = None,
    ) -> Self: ...
    def description(self) -> bytes: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def latest_number(self) -> int: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def bell(self) -> int | None: ...
    def arm(self, number: int) -> bool: ...
    def drain(self) -> bool: ...
    def sleep(self, number: int, seconds: float) -> bool: ...

class Version:
    def __new__(cls, attachment: Attachment, number: int | None = None) -> Self: ...
    def release(self) -> bool:
        """No more arrays are given out. True when the version is let go, false when arrays (or
        memoryviews, tensors) still hold it; the last of them lets it go."""
    def _hold(self) -> bool: ...
    def _unhold(self) -> None: ...
    @property
    def is_pinned(self) -> bool: ...
    @property
    def is_released(self) -> bool: ...
    @property
    def number(self) -> int: ...
    @property
    def published_ns(self) -> int: ...
    def costs(self) -> tuple[int, int]: ...
    @property
    def nbytes(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Queue:
    def __new__(cls, *arguments: Any) -> Self: ...
    def _reserve(self) -> Slot: ...
    def wait_room(self, seconds: float) -> None: ...
    def expel_laggards(self) -> int:
        """Consumers that hold the producer up count no more: they read on, and lose items."""
    def metrics(self) -> tuple[int, int, int, int]: ...
    def close(self) -> None:
        """Ends the queue. Again: nothing. Raises Forked in a child."""

class Slot:
    def commit(self, bytes: int) -> int: ...
    def cancel(self) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class QueueConsumer:
    def __new__(cls, name: str, owner: int | None = None) -> Self: ...
    def next_item(self) -> Item | None: ...
    def sleep(self, seconds: float) -> bool: ...
    def description(self) -> bytes: ...
    @property
    def item_bytes(self) -> int: ...
    @property
    def lost(self) -> int:
        """Items that were overwritten before this consumer came to them."""
    @property
    def is_closed(self) -> bool: ...
    @property
    def bell(self) -> int: ...
    def arm(self) -> bool: ...
    def drain(self) -> bool: ...

class Item:
    def release(self) -> bool: ...
    @property
    def number(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class Memory:
    def __new__(cls, base: Memory | None = None, node: int | None = None) -> Self: ...
    def _list(
        self, beginning: str, user: int | None
    ) -> list[tuple[str, int, int, int, bool, int, str | None]]: ...
    def _nodes(self) -> list[int]: ...

class SpreadRegion:
    def __new__(cls, *arguments: Any) -> Self: ...
    def read(self, offset: int, bytes: int) -> bytes:
        """So many bytes from an offset on."""
    def read_into(self, offset: int, buffer: WriteableBuffer) -> int:
        """Fills a writable, contiguous buffer from an offset on; bytes read."""
    def write(self, offset: int, buffer: ReadableBuffer) -> int:
        """Writes all of a contiguous buffer from an offset on; bytes written. After an error some of
        them may have been written, on other nodes too."""
    def set(self, offset: int, bytes: int, value: int = 0) -> None:
        """Sets so many bytes from an offset on to a value."""
    def read_pieces(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        """Many pieces in one call, each (offset, bytes)."""
    def write_pieces(self, pieces: Sequence[tuple[int, ReadableBuffer]]) -> int:
        """Many pieces in one call, each (offset, buffer); bytes written."""
    def copy_to(self, offset: int, into: SpreadRegion, at: int, bytes: int) -> None:
        """Copies bytes to a place in this or another spread region; they may overlap."""
    def fetch_add(self, offset: int, more: int) -> int:
        """Adds to the word at an offset, and wraps around; what it was."""
    def compare_swap(self, offset: int, expected: int, new: int) -> int:
        """Stores `new` in a word that is `expected`; what it was."""
    def swap(self, offset: int, new: int) -> int:
        """Stores `new` in a word; what it was."""
    def __len__(self) -> int: ...
    def _parts(self) -> list[tuple[int, int, int, str | None]]: ...
    def _places(self, offset: int, bytes: int) -> list[tuple[int, int, int]]: ...
    def _part(self, number: int) -> Any: ...
    def free(self) -> None:
        """Ends the region for everybody, but for parts on nodes that are lost, about the first of which
        it raises. BufferError while operations on it are not over."""
    def unmap(self) -> None:
        """Gives the handles back. Again: nothing."""
    @property
    def is_unmapped(self) -> bool:
        """Whether the handles were given back."""
    @property
    def identity(self) -> str:
        """What tells this region from all others, also from an earlier one of its name."""

class MemoryRegion:
    def __new__(cls, *arguments: Any) -> Self: ...
    def read(self, offset: int, bytes: int) -> bytes:
        """So many bytes from an offset on."""
    def read_into(self, offset: int, buffer: WriteableBuffer) -> int:
        """Fills a writable, contiguous buffer from an offset on; bytes read. No thread uses the
        buffer meanwhile."""
    def write(self, offset: int, buffer: ReadableBuffer) -> int:
        """Writes all of a contiguous buffer from an offset on; bytes written. After Gone and
        NoControlPlane some of them may have been written."""
    def set(self, offset: int, bytes: int, value: int = 0) -> None:
        """Sets so many bytes from an offset on to a value."""
    def read_pieces(self, pieces: Sequence[tuple[int, int]]) -> list[bytes]:
        """Many pieces in one call, each (offset, bytes). After an error others may have been read."""
    def write_pieces(self, pieces: Sequence[tuple[int, ReadableBuffer]]) -> int:
        """Many contiguous buffers in one call, each (offset, buffer); bytes written. After an error
        others may have been written."""
    def copy_to(self, offset: int, into: MemoryRegion, at: int, bytes: int) -> None:
        """Copies bytes from an offset on to a place in this or another region, as memmove(3) does."""
    def fetch_add(self, offset: int, more: int) -> int:
        """Adds to the word at an offset, a multiple of 8; what it was. It wraps around."""
    def compare_swap(self, offset: int, expected: int, new: int) -> int:
        """Stores `new` in the word at an offset if it is `expected`; what it was, which says whether
        it did."""
    def swap(self, offset: int, new: int) -> int:
        """Stores `new` in the word at an offset; what it was."""
    def __len__(self) -> int:
        """How many bytes it has now. On the delegated path a question to the control plane."""
    def grow(self, bytes: int) -> None:
        """Makes it longer, to so many bytes; those that come are zero. Takes the right to manage.
        Raises InvalidRegion for fewer than it has, Full, Denied."""
    def relocate(self) -> None:
        """Has its bytes lie elsewhere, in one piece; handles stay as they are, and who uses it meanwhile
        waits. Takes the right to manage. Raises Busy where a program stays in it, as by an array."""
    def move_to(self, node: int) -> None:
        """Moves it to another node of the cluster; handles stay, and find it there. As relocate."""
    def _rename(self, name: str | None, others: str) -> None: ...
    def appoint(self, user: int, rights: str = "read,write,atomic") -> None:
        """A user may map it with these rights from now on, whatever others may. With manage that
        user's programs keep it alive, and may free it. Takes the right to manage."""
    def set_lasting(self, is_lasting: bool) -> None:
        """Says whether it outlives those who manage it. Takes the right to manage."""
    def set_class(self, class_: Literal["high", "normal", "low"]) -> None:
        """Says how urgent is what this process does with it from now on, where it is on another node: no
        more than the rules let it. Raises InvalidRegion for a region of this node."""
    def free(self) -> None: ...
    def unmap(self) -> bool: ...
    @property
    def is_unmapped(self) -> bool: ...
    @property
    def identity(self) -> str:
        """What tells this region from all others of its node. Another one once the region has moved to
        another node and this process has found it there."""
    @property
    def rights(self) -> str: ...
    @property
    def node(self) -> int | None:
        """The node that it is on, as far as this process has found it; None where that is this one."""
    @property
    def path(self) -> Literal["direct", "delegated"]:
        """By which path its bytes are reached now."""

class MemoryOperations:
    def __new__(cls, memory: Memory, limit: int) -> Self: ...
    def read(self, region: MemoryRegion, offset: int, bytes: int, urgent: bool = False) -> int:
        """Submits a read of so many bytes; its number."""
    def write(
        self, region: MemoryRegion, offset: int, buffer: ReadableBuffer, urgent: bool = False
    ) -> int:
        """Submits a write of a contiguous buffer, which is copied; its number."""
    def set(
        self, region: MemoryRegion, offset: int, bytes: int, value: int = 0, urgent: bool = False
    ) -> int: ...
    def copy(
        self,
        region: MemoryRegion,
        offset: int,
        into: MemoryRegion,
        at: int,
        bytes: int,
        urgent: bool = False,
    ) -> int: ...
    def fetch_add(
        self, region: MemoryRegion, offset: int, more: int, urgent: bool = False
    ) -> int: ...
    def compare_swap(
        self, region: MemoryRegion, offset: int, expected: int, new: int, urgent: bool = False
    ) -> int: ...
    def swap(self, region: MemoryRegion, offset: int, new: int, urgent: bool = False) -> int: ...
    def _take(self) -> tuple[int, int, bytes, Exception | None] | None: ...
    def _wait(self, seconds: float) -> tuple[int, int, bytes, Exception | None] | None: ...
    def cancel(self, number: int) -> bool:
        """Gives an operation up; whether it was on its way. It completes in any case: with Cancelled,
        perhaps done in part, or as if nobody had asked."""
    def fileno(self) -> int:
        """A descriptor that is readable while there is a completion to take."""
    def __len__(self) -> int:
        """How many are on their way or were not taken."""
class Locks:
    def __new__(cls, base: Locks | None = None, node: int | None = None) -> Self: ...
    def _list(
        self, beginning: str, user: int | None
    ) -> list[tuple[str, int, str, int, int, int, int, bool, bool, int]]: ...

class LockHandle:
    def __new__(cls, *arguments: Any) -> Self: ...
    def _acquire(self, shared: bool, permits: int, timeout: float | None) -> LockHeld: ...
    def _wait(self, timeout: float | None) -> tuple[int, int]: ...
    def _reset(self) -> None: ...
    def close(self) -> None:
        """Closes it. What is held of it stays held. Again: nothing."""

class LockHeld:
    @property
    def token(self) -> int:
        """Larger than that of every acquisition before, of any name. What is written under the lock may
        carry it, and whatever keeps that may refuse what carries a smaller one."""
    @property
    def has_owner_died(self) -> bool:
        """Whether a holder has died whose work nobody has put right since; releasing says that it is."""
    @property
    def is_held(self) -> bool:
        """Whether it is held still, as far as can be told now."""
    def release(self) -> None:
        """Releases it; again: nothing. NoControlPlane: it was lost before."""
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...

class Rpc:
    def __new__(cls) -> Self: ...
    def _list(
        self, beginning: str, user: int | None, node: int
    ) -> list[tuple[str, int, int, int, int, int, bool, int]]: ...

class RpcFunction:
    def __new__(cls, *arguments: Any) -> Self: ...
    def call(self, payload: ReadableBuffer, timeout: float | None = None) -> bytes:
        """Calls it and waits for its reply, so many seconds at most. Raises TooLong, NotDelivered,
        Unanswered, Failed, Full when as many calls as may be are under way in this process."""
    def send(self, payload: ReadableBuffer, timeout: float | None = None) -> None:
        """Sends a message of 64 KiB at most, which no reply comes to. Waits for room in line, so many
        seconds at most; with 0 it is now or never. Afterwards it waits there for a server, whatever
        becomes of this process. Raises TooLong and NotDelivered: it is not in line."""
    def _begin(self, payload: ReadableBuffer, timeout: float | None) -> RpcPending: ...
    @property
    def node(self) -> int:
        """The node that serves it, by number; 0 where that is this one."""
    def _limits(self) -> tuple[int, int]: ...
    def close(self) -> None:
        """Gives it back. Again: nothing."""

class RpcPending:
    """A call that was begun. With the last reference to it it is cancelled."""

    def wait(self) -> bytes:
        """Waits for the reply, once, until the time is over that was said when the call was begun. Raises
        as a call. After a signal whose handler raises it can be waited for again."""
    def cancel(self) -> bytes:
        """Ends the call: its reply, where that was there. Raises NotDelivered or Unanswered, Cancelled
        besides: a server goes on, and hears that nobody waits."""

class RpcService:
    def __new__(cls, *arguments: Any) -> Self: ...
    def _receive(self, timeout: float | None) -> RpcCall | None: ...
    def _reply_and_receive(self, call: RpcCall, reply: ReadableBuffer) -> RpcCall | None: ...
    def _limits(self) -> tuple[int, int]: ...
    @property
    def is_closed(self) -> bool: ...
    def close(self) -> None:
        """Serves the function no more; a thread that waits for a call hears so within half a second.
        Again: nothing."""

class RpcCall:
    """A call that was received, or a message. One that is not answered fails at its caller with the last
    reference to it."""

    @property
    def payload(self) -> bytes: ...
    @property
    def user(self) -> int:
        """Who calls, by number, as the kernel has proved it to the control plane; as `process`."""
    @property
    def process(self) -> int: ...
    @property
    def node(self) -> int:
        """The node that it calls from, by number; 0 where that is this one. Of another node `user` and
        `process` are what its control plane says."""
    @property
    def session(self) -> str:
        """The caller's session with the control plane; none before or after has the same."""
    @property
    def left(self) -> float | None:
        """For how many seconds the caller still waits; None for ever."""
    @property
    def is_one_way(self) -> bool:
        """Whether it is a message, whose answer is dropped."""
    @property
    def is_answered(self) -> bool: ...
    def reply(self, reply: ReadableBuffer | None = None) -> bool:
        """Answers it; False where nobody waits any more: the caller has ended, or its time was over.
        Raises TooLong, after which it is still to be answered."""
    def fail(self, text: str) -> bool:
        """Says no, and why, which its caller hears as Failed; False as for `reply`."""

class MemoryBytes:
    def __new__(cls, region: MemoryRegion, offset: int, bytes: int) -> Self: ...
    def _hold(self) -> bool: ...
    def _unhold(self) -> None: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class LogPosition:
    """Where an entry of a log begins: bytes, and entries, before it, since the log was made. Positions
    compare in the order of their entries."""

    def __init__(self, at: int, sequence: int) -> None: ...
    @property
    def at(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    def __lt__(self, other: LogPosition) -> bool: ...
    def __le__(self, other: LogPosition) -> bool: ...
    def __gt__(self, other: LogPosition) -> bool: ...
    def __ge__(self, other: LogPosition) -> bool: ...
    def __hash__(self) -> int: ...

class LogEntry:
    """An entry of a log: a buffer of its payload, without a copy."""

    @property
    def position(self) -> LogPosition:
        """Where it begins."""
    @property
    def next(self) -> LogPosition | None:
        """Where the next one begins: what to trim up to so that this one goes. None of a queue's."""
    @property
    def payload(self) -> bytes:
        """A copy of the payload."""
    def __bytes__(self) -> bytes: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class LogEntries:
    """The durable entries of an open log, one after the other."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> LogEntry:
        """Raises Damaged, and stays where it is: nothing is passed over. Raises Trimmed where it was
        trimmed meanwhile, DeviceFailed, and ValueError once the log is closed."""
    @property
    def position(self) -> LogPosition:
        """Where the next entry begins."""

class AreaHandle:
    def __new__(cls, *arguments: Any) -> Self: ...
    def read(self, offset: int, bytes: int) -> builtins.bytes:
        """Bytes from any offset on."""
    def read_into(self, offset: int, buffer: WriteableBuffer) -> None:
        """The same into a contiguous buffer, as many as it has."""
    def write(self, offset: int, buffer: ReadableBuffer, durable: bool = False) -> None:
        """Writes a buffer's bytes to any offset; they last after a `flush`, or with `durable` when this
        returns. What else lies in the first and the last sector is read before and written again."""
    def flush(self) -> None:
        """Makes last what was written before. After DeviceFailed nothing is known of what was written since
        the last flush."""
    def zero(self, offset: int, bytes: int) -> None:
        """Makes whole sectors read as zero."""
    def discard(self, offset: int, bytes: int) -> None:
        """The same, and gives them back to the device until they are written."""
    def resize(self, bytes: int) -> None:
        """Gives it another size, a multiple of the grain. Bytes that it gains are zero. Raises Full, Denied,
        InUse where another process drives what it would lose."""
    def delete(self) -> None:
        """Ends the area, with all handles on it; this one is closed, whatever comes of it."""
    def __len__(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def generation(self) -> int:
        """What names it for ever: an area of the same name that is made later has another."""
    @property
    def sector_bytes(self) -> int: ...
    @property
    def grain_bytes(self) -> int:
        """What its size is a multiple of."""
    @property
    def emulated_because(self) -> str | None:
        """Why the control plane drives the device for this process; None where it does so itself."""
    @property
    def is_closed(self) -> bool: ...
    def close(self) -> None: ...

class LogHandle:
    def __new__(cls, *arguments: Any) -> Self: ...
    def _append(self, payload: ReadableBuffer, then: Callable[..., object] | None) -> LogPosition: ...
    def _append_sync(self, payload: ReadableBuffer) -> LogPosition: ...
    def is_durable(self, position: LogPosition) -> bool:
        """Whether the entry there, which an append has told, is durable."""
    def wait_durable(self, position: LogPosition, timeout: float | None = None) -> bool:
        """Waits until the entry there is durable, so many seconds at most; whether it is. Raises NoEntry
        for a position that no append has told, DeviceFailed."""
    def sync(self) -> None:
        """Waits until everything that was appended before is durable."""
    def checkpoint(self) -> None:
        """Makes durable what was trimmed, or acknowledged, and has the next opening begin here."""
    def trim(self, position: LogPosition) -> None:
        """Gives up the entries before a position, whose own entry is the first that stays. Returns at
        once: after a crash some may be there again, unless `checkpoint` came between. Raises Trimmed,
        NoEntry."""
    @property
    def begin(self) -> LogPosition:
        """Where the first entry begins that is wanted."""
    @property
    def end(self) -> LogPosition:
        """Where the next entry will begin that is acknowledged."""
    @property
    def capacity(self) -> int:
        """Bytes for all entries, each of which takes 32 more than its payload, rounded up to 8."""
    @property
    def payload_bytes_max(self) -> int: ...
    def fileno(self) -> int:
        """A descriptor that becomes readable when entries were acknowledged, or it has failed. Whoever
        is told calls `drain`, and looks at `end`; tasks that await do both by themselves."""
    def drain(self) -> None: ...
    @property
    def is_closed(self) -> bool: ...
    def close(self) -> None: ...
    def _check(self) -> None: ...
    def _read(self, start: LogPosition | None) -> LogEntries: ...
    def _pop(self, timeout: float | None) -> LogEntry | None: ...
    def _acknowledge(self, position: LogPosition, wait: bool) -> None: ...
    def _give_back(self, position: LogPosition) -> None: ...

class LogReader:
    def __new__(cls, place: str | PathLike[str]) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> LogEntry:
        """Raises as that of `LogEntries`."""
    def wait(self, timeout: float | None = None) -> bool:
        """Waits until the log was written since the last wait, so many seconds at most; whether it
        was."""
    def check_end(self) -> None:
        """At the end: searches behind it for a proof that there was another entry. Raises Damaged."""
    def go_to(self, position: LogPosition) -> None:
        """Goes on at a position that an append or an entry has told."""
    def go_to_begin(self) -> None:
        """Goes on at the first entry that is wanted now."""
    @property
    def position(self) -> LogPosition:
        """Where the next entry begins."""
    @property
    def is_closed(self) -> bool: ...
    def close(self) -> None: ...
