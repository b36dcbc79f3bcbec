"""The consumer: finds a region, waits for versions and pins them."""

from __future__ import annotations

import select
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self

from . import _fork, _native
from ._errors import Gone
from ._layout import Layout, decode
from ._naming import served, when_found
from ._snapshot import Snapshot
from ._waiter import Waiter

# A signal that comes between two sleeps, or the producer's death, is seen after this long at the
# latest.
SLICE_S = 0.5


class Attachment(_native.Attachment):
    """A region of another process (or of this one), mapped read-only.

    Threads may share it. A forked child attaches anew. Eight versions may be pinned at a time.
    """

    layout: Layout
    """What its bytes are: a data type and a shape."""
    name: str | None
    """What it was found by."""

    def __new__(
        cls,
        name: str | None = None,
        owner: int | None = None,
        region: _native.Region | None = None,
        descriptors: tuple[int, int] | None = None,
        announce: Callable[[int, int], object] | None = None,
    ) -> Self:
        new = super().__new__
        arguments = (name, owner, region, descriptors, announce)
        attachment = new(cls, *arguments) if name is None else served(lambda: new(cls, *arguments))
        attachment.name = name
        attachment.layout = decode(attachment.description(), attachment.nbytes)
        attachment._waiter = Waiter()
        return attachment

    def __init__(self, *_: Any, **__: Any) -> None:
        """See `heliostat.attach`."""

    _waiter: Waiter

    def latest(self) -> Snapshot:
        """The newest version, pinned. Raises `Gone` before the first, `Full` when this consumer
        already pins as many as it may."""
        if self.latest_number == 0:
            raise Gone("no version was published yet; wait(0) waits for the first")
        return Snapshot(self)

    def numbered(self, number: int) -> Snapshot:
        """Version `number`, pinned, while it is alive. Raises `Gone` when it is not: see `keep` of
        `Region.from_array`."""
        return Snapshot(self, number)

    def wait(self, number: int, timeout: float | None = None) -> bool:
        """Sleeps until there is a version newer than `number`; true when there is.

        False when `timeout` seconds have passed, or when no version will come any more: the
        producer has ended the region, or has died. Other threads run meanwhile, and Ctrl-C is
        answered.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        while True:
            _fork.settle()
            left = SLICE_S if ends is None else min(SLICE_S, max(0.0, ends - time.monotonic()))
            if self.sleep(number, left):
                return True
            is_late = ends is not None and time.monotonic() >= ends
            if is_late or self.is_over:
                return self.latest_number > number

    async def wait_async(self, number: int, timeout: float | None = None) -> bool:
        """The same for asyncio; other tasks run meanwhile, and it may be cancelled."""
        if self.latest_number > number:
            return True
        return await self._waiter.wait(self, number, timeout)

    @property
    def is_over(self) -> bool:
        """No version will come any more: the producer has ended the region, or has died. The last
        version stays."""
        if self.is_closed:
            return True
        bell = self.bell
        if bell is None:
            return False
        look = select.poll()
        look.register(bell, 0)  # a hang-up is always told
        return any(events & select.POLLHUP for _, events in look.poll(0))

    def versions(self, after: int = 0, timeout: float | None = None) -> Iterator[Snapshot]:
        """Each time the newest version, from the first after `after` on; ones between two turns
        are passed over. A version is released when the loop goes on to the next (arrays of it keep
        it as always). Ends with the region, or when nothing new came within `timeout` seconds.
        """
        while self.wait(after, timeout):
            with self.latest() as snapshot:
                after = snapshot.number
                yield snapshot

    async def versions_async(
        self, after: int = 0, timeout: float | None = None
    ) -> AsyncIterator[Snapshot]:
        """`versions` for asyncio: `async for snapshot in source.versions_async(): ...`."""
        while await self.wait_async(after, timeout):
            with self.latest() as snapshot:
                after = snapshot.number
                yield snapshot

    def __repr__(self) -> str:
        name = self.name or "without a name"
        return f"<heliostat.Attachment {name}: {self.layout.shape} {self.layout.dtype}>"


def attach(name: str, owner: int | None = None, *, timeout: float = 0.0) -> Attachment:
    """Attaches to the region `name`.

    owner: the user whose region it is, by number; None for this process's own user. The region of
        another user takes a rule of the control plane.
    timeout: seconds to wait for a producer that has not begun yet.

    Raises NotFound, InvalidName, Denied, Full, NoControlPlane, Corrupt.
    """
    return when_found(lambda: Attachment(name, owner), timeout)


def attach_by(
    descriptors: tuple[int, int], announce: Callable[[int, int], object]
) -> Attachment:
    """Attaches to a region by its table and pool, which its producer has handed over by some way of
    its own (`region.descriptors()`, say through `socket.send_fds`). No name, no control plane.

    announce: is called with two descriptors of this consumer, a page and an end of a bell. It hands
        them to the producer, and returns once that has called `region.admit` with them: a version
        that is pinned before may be taken apart. What it raises is raised.

    All descriptors stay whose they are. Raises Corrupt, MappingFailed.
    """
    return Attachment(descriptors=descriptors, announce=announce)
