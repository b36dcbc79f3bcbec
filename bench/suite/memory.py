"""Memory regions on both paths, beside a copy in one's own memory and a request over a unix socket.

Aims: a direct operation within 1.5 times the same in the process's own memory from 4 KiB on; a delegated
one faster than the socket; both flat, within 10 %, from one region to 100,000 and from 1 MiB to 16 GiB. Places are
random, so that long regions and many are not in the processor's caches, of whatever kind the memory is: own memory of
the same length stands beside, and what ours adds to that is the promise that a region alone can keep.
The delegated path is a sealed program's. MEMORY=sizes,flat picks parts.
"""

from __future__ import annotations

import os

from clusters.sizes import GIB, MIB, named
from heliostat_run import BINARY, Side
from kernel_view import available_bytes
from measure import Bench, Result, cargo_program, last_json

PACKAGE = "heliostat-bench-memory"
SIZES = (8, 64, 512, 4096, 65536, MIB, 4 * MIB)
KINDS = ("read", "write")
LENGTH = 64 * MIB
COUNTS, QUICK_COUNTS = (1, 100, 10_000, 100_000), (1, 100_000)
LENGTHS, QUICK_LENGTHS = (MIB, 32 * MIB, GIB, 16 * GIB), (MIB, 16 * GIB)
# A region of many, and what is read of it.
SMALL, PARTS = 4096, (64, 1024)
# At most so many times as long as with one region of 1 MiB.
FLAT = 1.1


class Regions:
    """The measuring program, by either path."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.program = cargo_program(PACKAGE)
        self.seconds = bench.seconds / 4
        # Building took its time, and a control plane that nobody uses ends.
        bench.harness.call("run", "--", "/bin/true")

    def run(self, path: str, *words: object) -> float:
        """Nanoseconds of an operation."""
        command = [self.program, *words, self.seconds]
        if path == "delegated":
            # Regions without a name need no more than that some may be made.
            command = [BINARY, "run", "--sealed", "--region", "bench/*:allocate", "--grant", self.program, "--", *command]
        found = last_json(self.bench.harness.run(Side.PLAIN, [str(word) for word in command], seconds=600))
        if found.get("direct", path == "direct") != (path == "direct") and words[0] == "region":
            raise RuntimeError(f"the path is not {path}")
        return found["ns"]


def sizes(bench: Bench, regions: Regions) -> list[Result]:
    """Each kind and size, in one region of 64 MiB."""
    rows = []
    for kind, size in [("add", 8), *((kind, size) for kind in KINDS for size in SIZES)]:
        arms = {
            "direct": ("direct", "region", kind, size, 1, LENGTH),
            "delegated": ("delegated", "region", kind, size, 1, LENGTH),
            "copy": ("own", "copy", kind, size, LENGTH),
            "socket": ("own", "socket", kind, size),
        }
        found = bench.alternate(arms, lambda words: regions.run(*words))
        what = f"{'fetch_add' if kind == 'add' else f'{kind} of {named(size)}'}"
        aim = 1 / 1.5 if size >= 4096 else None
        rows.append(bench.compare(f"{what}, direct vs own memory", found["direct"], found["copy"], "ns", better="less", aim=aim))
        rows.append(bench.compare(f"{what}, delegated vs unix socket", found["delegated"], found["socket"], "ns", better="less", aim=1.0))
    return rows


def flat(bench: Bench, regions: Regions) -> list[Result]:
    """Many regions against one, and long ones against one of 1 MiB and against as much own memory."""
    counts = QUICK_COUNTS if bench.quick else COUNTS
    lengths = [length for length in (QUICK_LENGTHS if bench.quick else LENGTHS) if length + 2 * GIB <= available_bytes()]
    note = "flat: at random places, so that what is not in the processor's caches costs both paths, and own memory too"
    more = {"better": "less", "aim": 1 / FLAT, "note": note}
    rows = []
    for part in PARTS:
        for path in ("direct", "delegated"):
            cases = {count: (path, "region", "read", part, count, SMALL) for count in counts}
            found = bench.alternate(cases, lambda words: regions.run(*words))
            for count in counts[1:]:
                rows.append(bench.compare(f"read of {named(part)}, {path}: {count:,} regions vs one", found[count], found[1], "ns", **more))
            cases = {length: (path, "region", "read", part, 1, length) for length in lengths}
            cases |= {-length: ("own", "copy", "read", part, length) for length in lengths[1:] if path == "direct"}
            found = bench.alternate(cases, lambda words: regions.run(*words))
            for length in lengths[1:]:
                what = f"read of {named(part)}, {path}: a region of {named(length)}"
                rows.append(bench.compare(f"{what} vs 1 MiB", found[length], found[MIB], "ns", **more))
                if -length in found:
                    rows.append(bench.compare(f"{what} vs as much own memory", found[length], found[-length], "ns", **more))
    return rows


PIECES = {"sizes": sizes, "flat": flat}


def measure(bench: Bench) -> list[Result]:
    """All of it, or the pieces that MEMORY names."""
    if bench.harness.plain:
        return []
    regions = Regions(bench)
    wanted = os.environ.get("MEMORY", ",".join(PIECES)).split(",")
    return [row for name in wanted for row in PIECES[name](bench, regions)]
