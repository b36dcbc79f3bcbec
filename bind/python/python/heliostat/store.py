"""Areas of a store: bytes with a name that outlive every program.

    with heliostat.store.create("ledger/state", 1 << 20) as area:
        area.write(0, b"balance 12")  # any buffer, at any offset
        area.flush()  # from here on it survives a loss of power

    with heliostat.store.open("ledger/state", "r") as area:
        area.read(0, 10)
        page = bytearray(4096)
        area.read_into(0, page)

They belong to the store that the control plane has (`heliostat store init`, `attach`). A program that is
trusted with the device drives it itself, for others the control plane does; the calls are the same. What
keeps records and says when they are durable is in `heliostat.log`.
"""

from __future__ import annotations

from typing import Self

from . import _native
from ._naming import served

__all__ = ["Area", "create", "open"]


class Area(_native.AreaHandle):
    """An open area; `len` of it is its size. Closed by `close`, at the end of its `with` block, or with the
    last reference to it. Threads may share it, and wait for each other; a forked child opens its own.

    Raises InvalidRegion beyond its end, Denied, DeviceFailed, NoControlPlane when the session is over."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create(name: str, size: int, *, rights: str = "rwm", way: str = "any", exclusive: bool = False) -> Area:
    """Makes an area of so many bytes, a multiple of the store's grain, which are zero, and opens it. `rights`,
    `way` and `exclusive` as for `open`. Raises NameTaken, Full, Denied, NotFound where there is no store."""
    return served(lambda: Area(name, size, rights, way, exclusive, None))


def open(
    name: str, rights: str = "rw", *, user: int | None = None, way: str = "any", exclusive: bool = False
) -> Area:
    """Opens the area of a name, among those of a user, by number; else of the own one. `rights` are some of
    r(ead), w(rite), m(anage: resize and delete), all of them or none. `way` is any, emulated or direct. With
    `exclusive` nobody else opens it to write or manage it meanwhile.

    Raises NotFound, Denied; InUse where another process has it exclusively, or writes it and it is wanted
    so: the text names it; Unsupported where it was wanted directly, and the text says why not."""
    return served(lambda: Area(name, None, rights, way, exclusive, user))
