"""Durable appends: our log beside a bare file, RocksDB, okaywal, redb and LMDB, measured by bench/log.

Every way makes durable what it acknowledges. First on this disk (the folder HELIOSTAT_BENCH_DISK, or the build's);
then over files in memory with a simulated flush of 15 us, 100 us and 1 ms: for our log by a device that takes so much
longer, for all others by bench/programs/slowflush.c. One flush is under way at a time, and what is asked for meanwhile
shares the next one, as Linux has it on a disk. The best bare way is the one that was the fastest of four in this
run. LOG=64,1024,65536,simulated picks parts, each of a minute or two; on this disk those of 1 KiB also tell processor
time and bytes written for each append. Needs no control plane.

Where other programs run meanwhile, `chrt -r 1` before it keeps them from deciding: each append waits for others'
threads to be woken.
"""

from __future__ import annotations

import ctypes
import json
import os
import statistics
import subprocess
from pathlib import Path

from measure import REPORT, ROOT, Bench, Result, by_rounds, own_package

OURS = "log"
BARE = ("fdatasync", "dsync", "direct-fdatasync", "direct-rwf")
# Where the flush is all there is, ways to ask for it hardly differ.
BARE_SIMULATED = ("fdatasync", "direct-rwf")
# One flush for each append: those that wait become one otherwise, in the kernel.
IN_TURN = "fdatasync-in-turn"
OTHERS = ("rocksdb", "okaywal", "redb", "lmdb")
ROCKSDB = [name for name in (os.environ.get("HELIOSTAT_BENCH_ROCKSDB"), "librocksdb.so.7.8", "librocksdb.so") if name]
SIZES = {64: "64 B", 1024: "1 KiB", 65536: "64 KiB"}
PRODUCERS = (1, 8, 64)
FLUSHES_US = (15, 100, 1000)
SIMULATED = ((1024, 1), (1024, 8), (1024, 64), (64, 64), (65536, 1))
SIMULATED_QUICK = ((1024, 1), (1024, 64))
PARTS = [*map(str, SIZES), "simulated"]
# A lone append may take 1.1 times the best bare one; 64 producers share what one fdatasync costs, and are above every
# other log and store.
LONE_AIM, SHARED_AIM, PEER_AIM = 1 / 1.1, 10.0, 1.0
DISK, MEMORY = Path(os.environ.get("HELIOSTAT_BENCH_DISK", REPORT)), Path("/dev/shm")
NOTE = "appends per second of all producers, each waiting for its own to be durable"


class Load:
    """One size, one number of producers, one device."""

    def __init__(self, bench: Bench, program: Path, size: int, producers: int, flush_us: int = 0) -> None:
        self.program, self.size, self.producers, self.flush_us = program, size, producers, flush_us
        self.seconds = min(bench.seconds, 1.0)
        self.folder = MEMORY if flush_us else DISK
        self.folder.mkdir(parents=True, exist_ok=True)
        slow = {"LD_PRELOAD": bench.library("slowflush"), "HELIOSTAT_SLOW_FLUSH_US": str(flush_us)}
        self.slow = slow if flush_us else {}

    def sample(self, way: str) -> dict[str, float]:
        """What one run tells."""
        numbers = [self.size, self.producers, self.seconds, self.flush_us]
        words = [str(self.program), str(self.folder), way, *map(str, numbers)]
        # Our log's device is slow by itself; it may have one flush under way, as the others.
        ours = {"HELIOSTAT_BENCH_IN_FLIGHT": "1"} if self.slow else {}
        environment = {**os.environ, **(ours if way == OURS else self.slow)}
        answer = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)
        if answer.returncode != 0:
            raise RuntimeError(f"{way} ended with {answer.returncode}: {answer.stderr[-500:]}")
        return json.loads(answer.stdout)

    def name(self) -> str:
        where = f"flush of {self.flush_us} us" if self.flush_us else "this disk"
        return f"append of {SIZES[self.size]} by {self.producers}, {where}"

    def aim(self, way: str) -> float | None:
        """How many times as many of ours there should be."""
        if self.producers != 64:
            return None
        if way in OTHERS:
            return PEER_AIM
        is_aimed = way == IN_TURN or way == "fdatasync" and not self.flush_us
        return SHARED_AIM if is_aimed and self.size != 65536 else None

    def ways(self, others: tuple[str, ...]) -> tuple[str, ...]:
        """What ours is compared with."""
        return (BARE_SIMULATED if self.flush_us else BARE) + ((IN_TURN,) if self.producers == 64 else ()) + others


class Compared:
    """What all ways did with one load."""

    def __init__(self, bench: Bench, load: Load, others: tuple[str, ...]) -> None:
        self.bench, self.load, self.ways = bench, load, load.ways(others)
        self.found = bench.alternate({way: way for way in (OURS, *self.ways)}, load.sample)

    def rates(self) -> list[Result]:
        """Ours against the best of the bare ways, and against each way."""
        bare = [way for way in self.ways if way in BARE]
        best = max(bare, key=lambda way: statistics.median(self.values(way, "per_second")))
        is_lone = self.load.producers == 1 and self.load.size == 1024
        rows = [self.row("per_second", best, "the best bare way", aim=LONE_AIM if is_lone else None)]
        return rows + [self.row("per_second", way, way, aim=self.load.aim(way)) for way in self.ways]

    def costs(self) -> list[Result]:
        """Processor time of an append, and bytes that the disk got for each of its payload, where the kernel tells."""
        ways = [way for way in self.ways if way in OTHERS or way in BARE_SIMULATED]
        told = [("cpu_us", "CPU", "us")]
        if all(sample["written"] for samples in self.found.values() for sample in samples):
            told.append(("written", "bytes written", "times"))
        return [self.row(key, way, f"{way}: {called}", unit, "less") for key, called, unit in told for way in ways]

    def row(self, key: str, way: str, called: str, unit: str = "/s", better: str = "more", aim=None) -> Result:
        ours, theirs = self.values(OURS, key), self.values(way, key)
        name = f"{self.load.name()}, vs {called}"
        row = self.bench.compare(name, ours, theirs, unit, better=better, aim=aim, note=NOTE, cores=cores())
        return by_rounds(row, *((ours, theirs) if better == "more" else (theirs, ours))) if len(ours) > 1 else row

    def values(self, way: str, key: str) -> list[float]:
        return [sample[key] for sample in self.found[way]]


def cores() -> str:
    return f"{len(os.sched_getaffinity(0))} cores"


def others() -> tuple[str, ...]:
    """The other logs and stores that are here."""
    for name in ROCKSDB:
        try:
            ctypes.CDLL(name)
            return OTHERS
        except OSError:
            pass
    print("RocksDB is left out: there is no librocksdb here (Debian: librocksdb7.8)", flush=True)
    return tuple(way for way in OTHERS if way != "rocksdb")


def measure(bench: Bench) -> list[Result]:
    program = own_package(ROOT / "bench/log", "heliostat-bench-log")
    if program is None:
        raise RuntimeError("bench/log cannot be built here")
    parts = os.environ.get("LOG", ",".join(PARTS)).split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise RuntimeError(f"no part {', '.join(unknown)} of BENCH=log; there are {', '.join(PARTS)}")
    here, rows = others(), []
    for size in [size for size in SIZES if str(size) in parts]:
        for producers in PRODUCERS:
            compared = Compared(bench, Load(bench, program, size, producers), here)
            rows += compared.rates() + (compared.costs() if size == 1024 and producers != 8 else [])
    loads = SIMULATED_QUICK if bench.quick else SIMULATED
    for flush_us, (size, producers) in ((us, load) for us in FLUSHES_US if "simulated" in parts for load in loads):
        rows += Compared(bench, Load(bench, program, size, producers, flush_us), here).rates()
    return rows
