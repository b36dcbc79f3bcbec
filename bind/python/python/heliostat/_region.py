"""The producer: memory of this process that is published in versions."""

from __future__ import annotations

import math
import mmap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from . import _native
from ._errors import InvalidRegion
from ._layout import Layout
from ._memory import writable
from ._naming import served

if TYPE_CHECKING:
    from ._attachment import Attachment

Engine = Literal["probed", "tracked", "declared", "whole"]
Placement = Literal["probed", "chunks", "slab"]


class Published(NamedTuple):
    """A new version."""

    number: int
    """Greater than that of the version before."""
    dirty_bytes: int
    """Bytes of pages written since the version before."""
    copied_bytes: int
    """Bytes copied for this one."""
    has_raced: bool | None
    """Somebody wrote while it was made, so it may be torn. None when nobody looked, or nothing was
    seen and a part is not watched, because it is written in every version."""


class Ahead(NamedTuple):
    """What one call of `Region.copy_ahead` did."""

    nbytes: int
    """Bytes that it copied."""
    is_done: bool
    """All is copied that was written when the round began; the next call begins another one."""


class Metrics(NamedTuple):
    """What a region has done since it began."""

    published: int
    """Versions."""
    skipped: int
    """Publishings that found no place."""
    stalled: int
    """Publishings that had to wait."""
    copied_bytes: int
    """For all versions together."""


class Region(_native.Region):
    """A range of this process's memory that is published in versions.

    The memory stays the program's: it reads and writes it as before. `publish` makes a version of
    it as it is at that moment; nobody may write it meanwhile. The object that owns the memory is
    kept alive, and its buffer locked, until the region is closed.

    Ends with `close`, at the end of a `with` block, or with its last reference. Consumers keep the
    versions that they have; the last one stays whole.
    """

    array: npt.NDArray[Any]
    """The memory, writable."""

    def __new__(
        cls,
        array: npt.NDArray[Any],
        layout: Layout,
        name: str | None,
        **settings: Any,
    ) -> Self:
        # Bytes, since not every data type can be exported as a buffer.
        held = array.reshape(-1).view(np.uint8)
        arguments = (held, name, layout.encode(), *settings.values())
        new = super().__new__
        region = new(cls, *arguments) if name is None else served(lambda: new(cls, *arguments))
        region.array = array
        return region

    def __init__(self, *_: Any, **__: Any) -> None:
        """Regions are made by `from_array` and `allocate`."""

    @classmethod
    def from_array(
        cls,
        a: Any,
        name: str | None = None,
        *,
        keep: int = 1,
        patience: float = 0.0,
        colours: int = 4,
        engine: Engine = "probed",
        placement: Placement = "probed",
        looks_for_races: bool = False,
        generation: int = 1,
    ) -> Self:
        """A region of memory that exists: an ndarray, or whatever has a writable buffer (memoryview,
        bytearray, array.array, mmap, ctypes), or a tensor on the CPU that speaks DLPack.

        It must be writable, contiguous in C order, and not empty.

        name: what consumers find it by (`heliostat.attach`); None for a region that only
            `attachment()` reaches. `a-b/c_d.1`: letters, digits, `._-`, parts between slashes.
        keep: the newest so many versions stay although nobody pins them; fewer than `colours`.
        patience: seconds that `publish` waits for a consumer to let go before it raises `Full`.
        colours: versions that may be alive together, and one in the making; 2 to 16.
        engine: how writes become known. "tracked": by the kernel; "declared": by `declare` alone;
            "whole": not, each version is a whole copy; "probed": tracked where it works, else whole.
        placement: where versions lie. "slab": each in one piece, ready to read, for the memory of two
            whole copies at least; "chunks": 2 MiB of memory per changed chunk, and each snapshot
            maps what changed; "probed": slabs up to 256 MiB, chunks above.
        looks_for_races: after each copy ask the kernel whether somebody wrote meanwhile.
        generation: what a nameless region says of itself; a name counts its producers by itself.

        Raises InvalidRegion, InvalidName, NameTaken, Full, Denied, NoControlPlane, Unsupported.
        """
        array = writable(a)
        layout = Layout(array.dtype, array.shape)
        return cls(
            array,
            layout,
            name,
            keep=keep,
            patience=patience,
            colours=colours,
            engine=engine,
            placement=placement,
            looks_for_races=looks_for_races,
            generation=generation,
        )

    @classmethod
    def allocate(
        cls,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike = float,
        name: str | None = None,
        **settings: Any,
    ) -> Self:
        """A region of fresh zeros, `region.array`: whole pages, so that no byte is copied because
        it shares a page with something else. The settings are those of `from_array`.
        """
        kind = np.dtype(dtype)
        extents = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = math.prod(extents) * kind.itemsize
        if nbytes <= 0 or kind.hasobject:
            raise InvalidRegion(f"shape {extents} of {kind} is no memory to share")
        memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        array = np.frombuffer(memory, np.uint8)[:nbytes].view(kind).reshape(extents)
        return cls.from_array(array, name, **settings)

    def publish(self) -> Published:
        """Makes a version of the memory as it is now. Nobody may write it meanwhile.

        Other threads run on, apart from those that use this region. Raises `Full` when every place
        is taken and nobody lets go within the region's patience; what was written is not forgotten
        but goes into the next version. Raises `Forked` in a forked child.
        """
        return Published(*super().publish())

    def copy_ahead(self, budget: int | None = None) -> Ahead:
        """Copies what was written so far, so that the next `publish` has to copy only what was
        written since: its pause is shorter. Other threads may go on writing the memory meanwhile.

        With a budget it copies so many bytes and less than a page more, at least a page; to be
        called again until `is_done`. With "declared", declare what is written after a call after
        it. Does nothing, and is done, with "whole". Raises what `publish` raises.
        """
        if budget is not None and budget < 0:
            raise ValueError(f"a budget is a number of bytes, 0 or more, not {budget}")
        return Ahead(*super().copy_ahead(budget))

    def declare(self, start: int | slice | npt.NDArray[Any], stop: int | None = None) -> None:
        """Says that bytes were written by means that the engine cannot see: with "declared" by the
        program, with "tracked" by a device.

        `declare(start, stop)` counts bytes from the start of the memory; `declare(a[3:5])` means
        the bytes of a part of the array, `declare(slice(3, 5))` those of `a[3:5]`.
        """
        if isinstance(start, slice):
            start = self.array[start]
        if isinstance(start, np.ndarray):
            low, high = np.lib.array_utils.byte_bounds(start)
            if low < self.address or high > self.address + self.nbytes:
                raise InvalidRegion("this array lies outside the region's memory")
            return super().declare(low - self.address, high - self.address)
        if stop is None:
            raise TypeError("declare(start, stop), declare(slice) or declare(part of the array)")
        if not 0 <= start <= stop <= self.nbytes:
            raise InvalidRegion(f"bytes {start} to {stop} are not in a region of {self.nbytes}")
        return super().declare(start, stop)

    def metrics(self) -> Metrics:
        """What it has done since it began."""
        return Metrics(*super().metrics())

    def attachment(self) -> Attachment:
        """Attaches inside this process; no name and no control plane are needed."""
        from ._attachment import Attachment

        return Attachment(region=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = self.name or "nameless"
        return f"<heliostat.Region {name}: {self.array.shape} {self.array.dtype}, {self.engine}>"
