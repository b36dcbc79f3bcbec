"""Remote procedure calls: functions that programs serve by name, and others call.

    rpc = heliostat.rpc.open()
    service = rpc.serve("text/upper")
    for call in service:
        call.reply(call.payload.upper())

    upper = heliostat.rpc.open().find("text/upper")  # in another process
    try:
        assert upper.call(b"hello", timeout=1.0) == b"HELLO"
    except heliostat.Error as error:
        print("perhaps done" if error.may_have_run else "not done", error)

Several threads and several programs of a user may serve one function: a call goes to whoever is free.
Payloads and replies are bytes, up to 1 MiB. Who gets no reply is told whether the function may have run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Self

from . import _native
from ._errors import Error, Failed
from ._naming import served, when_found

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = [
    "Call",
    "Function",
    "ListedFunction",
    "PendingCall",
    "Rpc",
    "Service",
    "multicast",
    "open",
]

PAYLOAD_BYTES_MAX = 1 << 20

Call = _native.RpcCall
PendingCall = _native.RpcPending


class ListedFunction(NamedTuple):
    """A function, as `Rpc.list` tells of it."""

    name: str
    user: int
    """Whose it is, by number."""
    servers: int
    callers: int
    request_bytes: int
    """Bytes that a payload may have."""
    reply_bytes: int
    """Bytes that a reply may have."""
    others: bool
    """Whether programs of other users may call it."""
    age_s: int


class Function(_native.RpcFunction):
    """A function that was found. Where its last server has ended and another one has begun, the next call
    finds that one. Given back by `close`, at the end of its `with` block, or with the last reference to
    it. Threads may share it; a forked child finds its own.

    What a call raises is NotDelivered where no server has seen it, Unanswered where one may have, Failed
    where the function says no; `may_have_run` of each says whether the function may have run. They are
    besides TimedOut, Gone, Full, Cancelled or NoControlPlane, by their reason. A signal whose handler
    raises cancels the call, and a note of the exception says what became of it.
    """

    @property
    def request_bytes(self) -> int:
        """Bytes that a payload may have."""
        return self._limits()[0]

    @property
    def reply_bytes(self) -> int:
        """Bytes that a reply may have."""
        return self._limits()[1]

    def begin(self, payload: ReadableBuffer, timeout: float | None = None) -> PendingCall:
        """Begins a call, whose reply is waited for later. Its time counts from now."""
        return self._begin(payload, timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Service(_native.RpcService):
    """A function that this process serves, until `close`, the end of its `with` block, or the last
    reference to it. What was received may still be answered then. Threads may share it, and each receive
    calls; a forked child serves by itself.

    Iterating gives one call after the other until it is closed. A call that is not answered fails at its
    caller with the last reference to it, so a loop that leaves one out says `call.fail(...)`.
    """

    @property
    def request_bytes(self) -> int:
        """Bytes that a payload may have."""
        return self._limits()[0]

    @property
    def reply_bytes(self) -> int:
        """Bytes that a reply may have."""
        return self._limits()[1]

    def receive(self, timeout: float | None = None) -> Call | None:
        """Waits for the next call or message, so many seconds at most; None where none came in time, and
        once another thread has closed this. Raises NoControlPlane, Unanswered when that has ended."""
        if self.is_closed:
            raise ValueError("the service is closed")
        return self._receive(timeout)

    def run(self, answer: Callable[[Call], ReadableBuffer | None]) -> None:
        """Answers calls, one after the other, until another thread closes this: each by what `answer`
        makes of it. Faster than a loop, since a reply and the next call are one step.

        Where `answer` raises Failed the caller is told its text. Where it raises something else the
        caller is told the exception's type, the logger "heliostat.rpc" the rest, and the next call comes.
        What it answers to a message is dropped, as is a reply that nobody waits for any more.
        """
        call = None if self.is_closed else self._receive(None)
        while call is not None:
            reply = self._answer(call, answer)
            call = self._reply_and_receive(call, reply)

    def _answer(self, call: Call, answer: Callable[[Call], ReadableBuffer | None]) -> bytes:
        """What is replied; a call that fails is answered here."""
        try:
            made = answer(call)
            reply = b"" if made is None else bytes(memoryview(made))
            if len(reply) <= self.reply_bytes:
                return reply
            _fail(call, f"a reply of {len(reply)} bytes is too long")
        except Failed as error:
            _fail(call, str(error))
        except Exception as error:
            _log(error)
            _fail(call, f"the server raised {type(error).__name__}")
        except BaseException:
            _fail(call, "the server was interrupted")
            raise
        return b""

    def __iter__(self) -> Iterator[Call]:
        while not self.is_closed:
            call = self._receive(None)
            if call is not None:
                yield call
                # Another reference would keep a call open that its loop has forgotten.
                del call

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Rpc(_native.Rpc):
    """This process's access to functions, in one session with the control plane. Threads may share it; a
    forked child opens its own. When the control plane has ended, another one is opened."""

    def __new__(cls) -> Self:
        new = super().__new__
        return served(lambda: new(cls))

    def find(
        self, name: str, user: int | None = None, timeout: float = 0.0, node: int = 0
    ) -> Function:
        """The function of this name, which another program serves; waited for so many seconds where
        nobody serves it yet.

        user: whose function it is, by number; None for this process's own user.
        node: which node of the cluster serves it, by number; 0 for this one. What is raised about a
            function of another node names the node.

        Raises NotFound, Denied, InvalidName, Full, NoControlPlane.
        """
        return when_found(lambda: Function(self, name, user, node), timeout)

    def serve(
        self,
        name: str,
        request_bytes: int = PAYLOAD_BYTES_MAX,
        reply_bytes: int = PAYLOAD_BYTES_MAX,
        queue: int = 64,
        others: bool = False,
    ) -> Service:
        """Serves the function of this name from now on. Where somebody serves it already, it is what that
        one has said.

        request_bytes, reply_bytes: what a payload and a reply may have.
        queue: messages that may wait.
        others: whether programs of other users may call it, as far as the rules allow it.

        Raises Denied, InvalidName, Full, NoControlPlane.
        """
        return Service(self, name, request_bytes, reply_bytes, queue, others)

    def list(
        self, prefix: str = "", user: int | None = None, node: int = 0
    ) -> tuple[ListedFunction, ...]:
        """The functions that this process may see and whose names begin so; of another node, by its
        number, those of this process's user."""
        return tuple(ListedFunction(*told) for told in self._list(prefix, user, node))


def multicast(
    functions: Iterable[Function], payload: ReadableBuffer, timeout: float | None = None
) -> list[bytes | Error]:
    """Calls many functions with the same payload at once: in their order, each one's reply, or what its
    call would have raised."""

    def told(answer: Callable[[], bytes]) -> bytes | Error:
        try:
            return answer()
        except Error as error:
            return error

    begun: list[PendingCall | Error] = []
    for function in functions:
        try:
            begun.append(function.begin(payload, timeout))
        except Error as error:
            begun.append(error)
    return [call if isinstance(call, Error) else told(call.wait) for call in begun]


def open() -> Rpc:
    """The same as `Rpc()`. A control plane is started if none runs. Raises NoControlPlane."""
    return Rpc()


def _fail(call: Call, text: str) -> None:
    """Answers a call with a no, unless somebody has answered it."""
    if not call.is_answered:
        call.fail(text)


def _log(error: Exception) -> None:
    """Tells the server's own log. Looked up when it is needed: few servers raise."""
    import logging

    logging.getLogger("heliostat.rpc").error("a call has failed", exc_info=error)
