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

from typing import NamedTuple, Self

from . import _native
from ._memory_operations import Completion, MemoryOperations
from ._memory_region import MemoryRegion
from ._naming import served

__all__ = ["Completion", "ListedRegion", "Memory", "MemoryOperations", "MemoryRegion", "open"]


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
        new = super().__new__
        return served(lambda: new(cls))

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
