"""The comparison as ratios, one result per peer and cell, for bench/run.py: `ratios.py FILE`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from summary import Figure, Row, named, rows

COMPARED = (
    ("publish_ns", "publish"),
    ("cycle_ns", "write and publish"),
    ("cycle_cpu_ns", "its processor time"),
)
# By key, peer, MiB and pattern: how many times better Heliostat is meant to be.
AIMS = {
    ("publish_ns", "memcpy + lock", 1024, "0.1 % scattered"): 60.0,
    ("cycle_ns", "fork held", 1024, "10 % scattered"): 2.0,
    ("cycle_ns", "fork held", 1024, "10 % contiguous"): 2.0,
    ("cycle_ns", "memcpy + lock", 1024, "100 %"): 0.77,
}
NANOSECONDS = 1e6


def spread(figure: Figure) -> list[float]:
    return [figure.low / NANOSECONDS, figure.high / NANOSECONDS]


def result(key: str, called: str, theirs: Row, ours: Row) -> dict:
    """The fields of a `measure.Result` that are not about the machine."""
    mine, other = ours.figures[key], theirs.figures[key]
    name = f"{theirs.size_mib} MiB, {theirs.pattern}: {called}, {theirs.arm}"
    return {
        "name": name,
        "ours": mine.median / NANOSECONDS,
        "theirs": other.median / NANOSECONDS,
        "unit": "ms",
        "ratio": other.median / mine.median,
        "aim": AIMS.get((key, theirs.arm, theirs.size_mib, theirs.pattern)),
        "aim_is": "ratio at least",
        "spread": {"ours": spread(mine), "theirs": spread(other)},
    }


def main() -> None:
    found = rows(json.loads(Path(sys.argv[1]).read_text()))
    results = []
    for theirs in found:
        ours = named(found, "heliostat", theirs.size_mib, theirs.pattern)
        if theirs.missing or theirs.arm in ("nothing", "heliostat") or not ours or ours.missing:
            continue
        results += [result(key, called, theirs, ours) for key, called in COMPARED]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
