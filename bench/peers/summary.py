"""From records to medians with their spread: by size, pattern and arm, over the rounds."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from arms import ARMS
from load import PATTERNS, Load


@dataclass(frozen=True)
class Figure:
    """A median over the rounds, and the lowest and highest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Figure | None:
        return cls(statistics.median(values), min(values), max(values)) if values else None


@dataclass(frozen=True)
class Row:
    """One arm with one size and pattern. `figures` by key; `missing` says why there are none."""

    arm: str
    size_mib: int
    pattern: str
    figures: dict[str, Figure]
    missing: str = ""
    torn: int = 0

    def median(self, key: str) -> float | None:
        return self.figures[key].median if key in self.figures else None


KEYS = (
    "write_ns", "publish_ns", "first_ns", "read_ns", "part_ns", "latency_ns", "steps_per_s",
    "seen_per_s", "memory_bytes", "cycle_ns", "cycle_cpu_ns", "write_cpu_ns", "publish_cpu_ns",
    "read_cpu_ns",
)  # fmt: skip


def row(records: list[dict], arm: str, size: int, pattern: str) -> Row | None:
    """All rounds of one arm in one cell; None when it does not take part in it."""
    mine = [one for one in records if one["arm"] == arm and one["size_mib"] == size]
    failed = [one["missing"] for one in mine if "missing" in one]
    mine = [one for one in mine if one.get("pattern") == pattern]
    if not mine:
        return Row(arm, size, pattern, {}, failed[-1]) if failed else None
    for one in mine:
        one["cycle_ns"] = one["write_ns"] + one["publish_ns"]
        one["cycle_cpu_ns"] = one["write_cpu_ns"] + one["publish_cpu_ns"]
    figures = {key: Figure.of([one[key] for one in mine if one.get(key) is not None]) for key in KEYS}
    torn = sum(one["torn"] + one["free_torn"] for one in mine)
    return Row(arm, size, pattern, {k: v for k, v in figures.items() if v}, "", torn)


def rows(records: list[dict]) -> list[Row]:
    """Every cell, sizes and patterns in order, arms as they are listed."""
    sizes = sorted({one["size_mib"] for one in records})
    found = [
        row(records, arm, size, pattern) for size in sizes for pattern in PATTERNS for arm in ARMS
    ]
    return [one for one in found if one]


def named(all_rows: list[Row], arm: str, size: int, pattern: str) -> Row | None:
    wanted = (arm, size, pattern)
    return next((one for one in all_rows if (one.arm, one.size_mib, one.pattern) == wanted), None)


def per_page_us(one: Row, alone: Row | None) -> float | None:
    """What a written page costs more than without snapshots, in microseconds of processor time."""
    write, bare = one.median("write_cpu_ns"), alone.median("write_cpu_ns") if alone else None
    if write is None or bare is None:
        return None
    pages = Load(one.size_mib << 20).written_pages(one.pattern)
    return (write - bare) / pages / 1e3


def read_gb_s(one: Row) -> float | None:
    """How fast a version is read whole, from asking for it to its sum."""
    read = one.median("read_ns")
    return (one.size_mib << 20) / read if read else None
