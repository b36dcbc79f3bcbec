"""Memory regions: bytes with a name, rights and a life of their own, which programs of the node share.

    memory = heliostat.memory.open()
    cache = memory.allocate(1 << 20, name="kv/cache")
    cache.write(4096, b"value")

    cache = heliostat.memory.open().map("kv/cache")  # in another process
    cache.read(4096, 5)
    cache.fetch_add(0, 1)

    far = heliostat.memory.open().on(2).map("kv/cache")  # on another node, by the same calls

Programs of one user read and write a region where it lies; those of other users, and sealed ones,
have the control plane do it, and make the same calls. A region lives as long as somebody has a handle
on it that may manage it, or until it is freed if it is lasting.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import NamedTuple, Self

from . import _native
from ._errors import NoControlPlane
from ._memory_operations import Completion, MemoryOperations
from ._memory_region import MemoryRegion
from ._memory_spread import Part, SpreadRegion
from ._naming import served

__all__ = [
    "Completion",
    "ListedRegion",
    "Memory",
    "MemoryOperations",
    "MemoryRegion",
    "Part",
    "SpreadRegion",
    "open",
]


class ListedRegion(NamedTuple):
    """A region, as `Memory.list` tells of it."""

    identity: str
    """What it is, whatever name it has: no two regions ever have the same."""
    nbytes: int
    user: int
    """Whose it is, by number."""
    handles: int
    """On it, of all programs."""
    is_lasting: bool
    """Whether it outlives those who manage it."""
    age_s: int
    """Seconds since it was allocated."""
    name: str | None


class Memory(_native.Memory):
    """This process's access to memory regions, in one session with the control plane.

    Threads may share it. A forked child opens its own. If the control plane ends, regions end with
    it: what is mapped stays readable and writable, everything else raises NoControlPlane, and a
    `Memory` that is opened anew has regions again.

    Rights are words with commas between them: read, write, atomic (change words), share (name it, say
    what other users may), manage (free it, make it longer, appoint users); or "all".
    """

    def __new__(cls) -> Self:
        """The same for all who ask in one process, as long as its control plane is there: a session has
        one server loop, and one place where it says which regions it is in."""
        global _own
        new = super().__new__
        with _lock:
            found = _own[1] if _own is not None and _own[0] == os.getpid() else None
            if not isinstance(found, cls) or not _stands(found):
                found = served(lambda: new(cls))
                _own = (os.getpid(), found)
            return found

    def on(self, node: int) -> Memory:
        """The same for regions of another node, by its number: what is allocated, mapped and listed by
        it is there. The node's own number is as if it were not said.

        Where that node is not joined, does not answer, or is lost, NoControlPlane is raised, which
        names it.
        """
        return _native.Memory.__new__(type(self), self, node)

    def allocate(
        self,
        bytes: int,
        name: str | None = None,
        lasting: bool = False,
        others: str = "",
        replicas: int = 0,
    ) -> MemoryRegion:
        """A region of so many bytes, all of them zero, with every right.

        name: what others find it by, one among the names of this user.
        lasting: whether it outlives this process, until somebody frees it.
        others: what other users may who know the name, as far as the rules allow it.
        replicas: on how many nodes of a cluster it lives, this one among them; 0 for an ordinary one.
            What was written is on all of them before a call returns. It needs a name, and stays until
            it is freed.

        Raises InvalidName, InvalidRegion, NameTaken, Full, Denied, NoControlPlane.
        """
        return MemoryRegion(self, name, others, None, bytes, lasting, replicas)

    def map(
        self, name: str, rights: str = "read,write,atomic", user: int | None = None
    ) -> MemoryRegion:
        """A handle on the region of this name. All of the rights are granted, or it raises.

        user: whose region it is, by number; None for this process's own user.

        Waits for the owner's word, half a second at most, where the owner has asked for that. Raises
        NotFound, Denied, InvalidName, Full, NoControlPlane.
        """
        return MemoryRegion(self, name, rights, user, None, False, 0)

    def spread(
        self,
        bytes: int,
        nodes: Sequence[int],
        name: str | None = None,
        lasting: bool = False,
        others: str = "",
    ) -> SpreadRegion:
        """A region whose bytes, all of them zero, are spread evenly over these nodes, in this order, so
        that it may be longer than one node's memory. Every node finds it by its name. Without a cluster
        node 0 is this one.

        Raises as `allocate`; Busy while another one of this name is made or freed.
        """
        return SpreadRegion(self, name, others, None, bytes, nodes, lasting)

    def map_spread(
        self, name: str, rights: str = "read,write,atomic", user: int | None = None
    ) -> SpreadRegion:
        """Handles on all parts of the spread region of this name, looked for on this node, then on all
        others that are joined. Parts of nodes that are lost are known as such, and the others can be
        used. Raises as `map`; Busy while it is made or freed."""
        return SpreadRegion(self, name, rights, user)

    def operations(self, limit: int = 256) -> MemoryOperations:
        """A place for operations that complete later, at most so many of them that are on their way or
        were not taken."""
        return MemoryOperations(self, limit)

    def list(self, prefix: str = "", user: int | None = None) -> tuple[ListedRegion, ...]:
        """The regions of a user whose names begin so; with an empty prefix all of them, also those
        without a name. Those that come or go meanwhile may be among them or not."""
        return tuple(ListedRegion(*told) for told in self._list(prefix, user))


def open() -> Memory:
    """The same as `Memory()`. A control plane is started if none runs. Raises NoControlPlane."""
    return Memory()


_lock = threading.Lock()
_own: tuple[int, Memory] | None = None


def _stands(memory: Memory) -> bool:
    try:
        memory._nodes()
    except NoControlPlane:
        return False
    return True


def _after_fork() -> None:
    global _lock
    # Another thread of the parent may hold it for ever.
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
