"""The memory, locks and functions of a cluster's nodes, for programs that compute with arrays.

    from heliostat import cluster

    nodes = cluster.open()
    heat = nodes.create("heat", (1000, 1000), "f8", node=2)     # zeros, on node 2
    big = nodes.create("big", 10**9, "u1", spread=[1, 2, 3])    # longer than one node's memory, if it must
    heat[10:20] = 1.5

    heat = cluster.open().open("heat")                          # in another program, on any node
    heat[10:20, ::2].mean()
    numpy.asarray(nodes.open("near"))                           # the memory itself, where it is on this node

Arrays are memory regions (`heliostat.memory`) with a head that tells data type and shape. A name is one
among those of its node; `open` looks on this node, then on the others, then for spread ones.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import _array_head, lock, memory, rpc
from ._array import Array, named
from ._array_head import HEAD_BYTES
from ._array_later import Awaited
from ._binaries import ask, control_plane
from ._errors import Corrupt, Error, Gone, InvalidRegion, NoControlPlane, NotFound
from ._layout import Layout
from ._memory_operations import MemoryOperations
from ._memory_region import MemoryRegion
from ._memory_spread import Part, SpreadRegion
from ._naming import when_found

__all__ = ["Array", "Cluster", "Node", "Part", "SpreadRegion", "lock", "memory", "open", "rpc"]

_RIGHTS = "read,write,atomic"
# Operations that one event loop has on their way at once.
_LATER_MAX = 256


class Node(NamedTuple):
    """A node of the cluster, as this one sees it."""

    number: int
    state: str
    """here, away, joining, joined, lost or left."""
    address: str


class Cluster:
    """This process's access to the memory, locks and functions of all nodes. Threads may share it; a
    forked child opens its own. All of one process use one session's memory."""

    def __init__(self) -> None:
        self.memory = memory.open()
        self._later: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Awaited]
        self._later = weakref.WeakKeyDictionary()
        self._here: list[int] | None = None

    def create(
        self,
        name: str | None,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike = np.float64,
        *,
        node: int | None = None,
        spread: Sequence[int] | None = None,
        lasting: bool = False,
        others: str = "",
    ) -> Array:
        """A new array, all zeros: on this node, on another one, or spread over several.

        name: what it is found by; one that nobody has if None.
        lasting: whether it outlives this process, until somebody frees it.
        others: what other users may who know the name, as far as the rules allow it.

        Raises NameTaken, Full, Denied, InvalidName, InvalidRegion, NoControlPlane.
        """
        if node is not None and spread is not None:
            raise ValueError("an array is on one node or spread over several")
        name = f"array/{secrets.token_hex(8)}" if name is None else name
        layout = _layout(dtype, shape)
        head = _array_head.encode(layout)
        where = tuple(spread) if spread is not None else (node or 0,)
        try:
            if spread is not None:
                region: MemoryRegion | SpreadRegion = SpreadRegion(
                    self.memory, name, others, bytes=HEAD_BYTES + layout.nbytes, nodes=spread,
                    is_lasting=lasting, first=head,
                )  # fmt: skip
            else:
                region = self._made(name, layout, node, (lasting, others))
        except Error as error:
            raise named(error, name, where) from error
        return Array(self, region, layout, name, "all")

    def from_array(self, name: str | None, a: npt.ArrayLike, **settings: Any) -> Array:
        """A new array with the elements of `a`; `settings` as of `create`."""
        elements = np.asarray(a)
        made = self.create(name, elements.shape, elements.dtype, **settings)
        made[...] = elements
        return made

    def open(
        self,
        name: str,
        *,
        node: int | None = None,
        rights: str = _RIGHTS,
        user: int | None = None,
        timeout: float = 0.0,
    ) -> Array:
        """The array of this name, on whatever node it is; on this one alone, if `node` is given.

        rights: what is wanted: read, write, atomic, share and manage with commas between them, or "all".
        timeout: how many seconds to look for it.

        Raises NotFound, Denied, Corrupt where the region is no array, Busy while it is made or freed,
        NoControlPlane.
        """
        wanted = rights if "read" in rights or rights == "all" else f"read,{rights}"
        region = when_found(lambda: self._found(name, (node, wanted, user)), timeout)
        return self._array(region, name, wanted)

    def nodes(self) -> tuple[Node, ...]:
        """The nodes of the cluster, in order of number; none without a cluster."""
        try:
            told = json.loads(ask(["cluster", "list", "--json", "--socket", control_plane()]))
        except Error:
            return ()
        return tuple(Node(it["node"], it["state"], it["address"]) for it in told["nodes"])

    def locks(self, node: int | None = None) -> lock.Locks:
        """Locks, semaphores and barriers, of this node or of another one."""
        opened = lock.open()
        return opened if node is None else opened.on(node)

    def rpc(self) -> rpc.Rpc:
        """Functions that programs serve: `find(name, node=2)` finds one of another node."""
        return rpc.open()

    def here(self, node: int | None) -> int | None:
        """The number of the node that a region is on, or of this one if that has one."""
        if node is not None:
            return node
        if self._here is None:
            self._here = [it.number for it in self.nodes() if it.state == "here"]
        return self._here[0] if self._here else None

    def later(self) -> Awaited:
        """The running event loop's operations."""
        loop = asyncio.get_running_loop()
        found = self._later.get(loop)
        if found is None:
            operations = MemoryOperations(self.memory, _LATER_MAX)
            found = self._later[loop] = Awaited(operations, _LATER_MAX)
        return found

    def _array(self, region: MemoryRegion | SpreadRegion, name: str, rights: str) -> Array:
        """The array that a region is, as its head tells."""
        try:
            if len(region) < HEAD_BYTES:
                raise Corrupt("it is too short for an array's head")
            layout = _array_head.decode(region.read(0, HEAD_BYTES), len(region) - HEAD_BYTES)
        except Error as error:
            where = () if isinstance(region, SpreadRegion) else (region.node or 0,)
            region.unmap()
            raise named(error, name, where) from error
        return Array(self, region, layout, name, rights)

    def _made(
        self, name: str, layout: Layout, node: int | None, life: tuple[bool, str]
    ) -> MemoryRegion:
        """It has its name once its head is written, and is lasting once it has its name."""
        there = self.memory if node is None else self.memory.on(node)
        region = there.allocate(HEAD_BYTES + layout.nbytes)
        region.write(0, _array_head.encode(layout))
        region.rename(name, life[1])
        if life[0]:
            region.set_lasting(True)
        return region

    def _found(
        self, name: str, asked: tuple[int | None, str, int | None]
    ) -> MemoryRegion | SpreadRegion:
        node, rights, user = asked
        nodes = self.memory._nodes() if node is None else [node]
        for at in nodes:
            there = self.memory.on(at) if at else self.memory
            try:
                return there.map(name, rights, user)
            except NotFound:
                continue
            except NoControlPlane as error:
                # A node that has just been lost has nothing that could be found.
                if node is not None or at == 0:
                    raise named(error, name, (at,)) from error
            except Error as error:
                raise named(error, name, (at,)) from error
        there = self.memory.on(node) if node else self.memory
        try:
            return SpreadRegion(there, name, rights, user)
        except NotFound:
            raise NotFound(f"no array has the name {name} now, on {len(nodes)} nodes") from None
        except Error as error:
            raise named(error, name, tuple(nodes)) from error


def open() -> Cluster:
    """The same as `Cluster()`. A control plane is started if none runs. Raises NoControlPlane."""
    return Cluster()


def _layout(dtype: npt.DTypeLike, shape: int | Sequence[int]) -> Layout:
    kind = np.dtype(dtype)
    if kind.hasobject or kind.itemsize == 0:
        raise InvalidRegion(f"{kind} is no memory to share")
    extents = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    layout = Layout(kind, tuple(int(extent) for extent in extents))
    if min(layout.shape, default=1) <= 0:
        raise InvalidRegion(f"shape {layout.shape} of {kind} has no bytes")
    return layout


def _opened_again(
    name: str, where: tuple[int | None, bool], rights: str, identity: str
) -> Array:
    """The array that was pickled, and no other one of its name: of a node, or spread."""
    (node, is_spread), own = where, Cluster()
    if is_spread:
        found = own._array(SpreadRegion(own.memory, name, rights), name, rights)
    else:
        found = own.open(name, node=node, rights=rights)
    if found.identity != identity:
        found.close()
        raise Gone(f"array {name}: it has ended, and another one has its name")
    return found
