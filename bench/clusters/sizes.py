"""Sizes, and what they are called in the tables."""

from __future__ import annotations

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


def named(size: int) -> str:
    for unit, bytes_of_it in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size >= bytes_of_it:
            return f"{size // bytes_of_it} {unit}"
    return f"{size} B"
