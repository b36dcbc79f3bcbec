"""A memory region that is spread over nodes, so that it may be longer than one node's memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from . import _native


class Part(NamedTuple):
    """Bytes of a spread region that lie on one node."""

    node: int
    """Its number; 0 without a cluster."""
    start: int
    """The first byte of the whole."""
    stop: int
    """The byte behind the last."""
    lost: str | None
    """Why it could not be reached when the region was mapped."""


class SpreadRegion(_native.SpreadRegion):
    """Handles on all parts of a region, from `Memory.spread` or `Memory.map_spread`.

    The calls are those of a `MemoryRegion`, by offsets in the whole; reads and writes that meet several
    nodes are on their way to all of them at once. An error of one part names its node and its bytes;
    what lies in other parts may have been done, and can be used as before.
    """

    name: str | None
    """What it was made or mapped as."""

    def __new__(
        cls,
        memory: _native.Memory,
        name: str | None,
        allowed: str,
        user: int | None = None,
        bytes: int | None = None,
        nodes: Sequence[int] = (),
        is_lasting: bool = False,
        first: bytes = b"",
    ) -> Self:
        settings = (allowed, user, bytes, list(nodes), is_lasting, first)
        region = super().__new__(cls, memory, name, *settings)
        region.name = name
        return region

    def __init__(self, *_: Any, **__: Any) -> None:
        """See `Memory.spread` and `Memory.map_spread`."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """Where its bytes lie, in order."""
        return tuple(Part(*told) for told in self._parts())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.unmap()

    def __repr__(self) -> str:
        if self.is_unmapped:
            return "<heliostat.SpreadRegion: unmapped>"
        nodes = ", ".join(str(part.node) for part in self.parts)
        return f"<heliostat.SpreadRegion {self.name or 'without a name'}: on nodes {nodes}>"
