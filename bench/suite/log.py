"""Durable appends: our log beside a bare file, okaywal, redb and LMDB, measured by bench/log.

Every way makes durable what it acknowledges. First on this disk; then with a simulated flush of 15 us,
100 us and 1 ms, where the flush is all there is: our log lies on a device in memory whose durable writes complete
so much later; the others have a file in memory, and the same wait behind fdatasync, fsync and msync. The best bare way is the one that was the
fastest of four in this run. Needs no control plane.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from heliostat_run import ROOT
from measure import REPORT, Bench, Result

PACKAGE = ROOT / "bench/log"
OURS = "log"
BARE = ("fdatasync", "dsync", "direct-fdatasync", "direct-dsync")
OTHERS = ("okaywal", "redb", "lmdb")
SIZES = {64: "64 B", 1024: "1 KiB", 65536: "64 KiB"}
PRODUCERS = (1, 8, 64)
FLUSHES_US = (15, 100, 1000)
# A lone append may take 1.1 times the best bare one; 64 producers share what one fdatasync costs.
LONE_AIM, SHARED_AIM = 1 / 1.1, 10.0
MEMORY = Path("/dev/shm")
NOTE = "appends per second of all producers, each waiting for its own to be durable"


def build() -> Path:
    """The program, from a package of its own; the path of it."""
    target = REPORT.parent / "bench-log"
    words = [os.environ.get("CARGO", "cargo"), "build", "--release", "--quiet", "--target-dir", str(target)]
    answer = subprocess.run(words, cwd=PACKAGE, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"bench/log cannot be built: {answer.stderr[-1000:]}")
    return target / "release/heliostat-bench-log"


class Load:
    """One size, one number of producers, one device."""

    def __init__(self, bench: Bench, program: Path, size: int, producers: int, flush_us: int = 0) -> None:
        self.program, self.size, self.producers, self.flush_us = program, size, producers, flush_us
        self.seconds = min(bench.seconds, 1.0)
        self.folder = MEMORY if flush_us else REPORT
        self.folder.mkdir(parents=True, exist_ok=True)

    def sample(self, way: str) -> float:
        """Appends per second of one run."""
        numbers = [self.size, self.producers, self.seconds, self.flush_us]
        words = [str(self.program), str(self.folder), way, *map(str, numbers)]
        answer = subprocess.run(words, capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"{way} ended with {answer.returncode}: {answer.stderr[-500:]}")
        return json.loads(answer.stdout)["per_second"]

    def name(self) -> str:
        where = f"flush of {self.flush_us} us" if self.flush_us else "this disk"
        return f"append of {SIZES[self.size]} by {self.producers}, {where}"


def compared(bench: Bench, load: Load, ways: tuple[str, ...]) -> list[Result]:
    """Ours against each other way, and against the best of the bare ones."""
    found = bench.alternate({way: way for way in (OURS, *ways)}, load.sample)
    bare = [way for way in ways if way in BARE]
    best = max(bare, key=lambda way: sorted(found[way])[len(found[way]) // 2])
    is_lone = load.producers == 1 and load.size == 1024
    rows = [row(bench, load, found, best, "the best bare way", LONE_AIM if is_lone else None)]
    for way in ways:
        is_shared = way == "fdatasync" and load.producers == 64 and load.size != 65536
        rows.append(row(bench, load, found, way, way, SHARED_AIM if is_shared else None))
    return rows


def row(bench: Bench, load: Load, found: dict, way: str, called: str, aim: float | None) -> Result:
    name = f"{load.name()}, vs {called}"
    return bench.compare(name, found[OURS], found[way], "/s", better="more", aim=aim, note=NOTE, cores="two cores")


def measure(bench: Bench) -> list[Result]:
    """This disk with every size and number of producers; simulated flushes with 1 KiB."""
    program = build()
    rows = []
    for size in SIZES:
        for producers in PRODUCERS:
            rows += compared(bench, Load(bench, program, size, producers), BARE + OTHERS)
    for flush_us in FLUSHES_US:
        for producers in (1, 64):
            rows += compared(bench, Load(bench, program, 1024, producers, flush_us), ("fdatasync", *OTHERS))
    return rows
