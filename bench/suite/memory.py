"""Memory regions on both paths, beside a copy in one's own memory and a request over a unix socket.

Aims: a direct operation within 1.15 times the same access to memory that is only mapped, and within 1.5
times one to the process's own memory from 4 KiB on; a delegated one faster than the socket; both flat from one region to 100,000 and from 1 MiB to 1 GiB. The delegated
path is a sealed program's.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from heliostat_run import BINARY, ROOT, Side
from measure import Bench, Result, last_json

PACKAGE = "heliostat-bench-memory"
MIB = 1 << 20
SIZES = (8, 64, 512, 4096, 65536, MIB, 4 * MIB)
KINDS = ("read", "write")
LENGTH = 64 * MIB
COUNTS = (1, 100, 10_000, 100_000)
LENGTHS = (MIB, 32 * MIB, 1024 * MIB)
# A region of many, and what is read of it.
SMALL, PART = 4096, 512


class Regions:
    """The measuring program, by either path."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        cargo = os.environ.get("CARGO", "cargo")
        subprocess.run([cargo, "build", "--release", "--quiet", "--package", PACKAGE], cwd=ROOT, check=True)
        self.program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / PACKAGE
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


def named(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size // 1024} KiB" if size < MIB else f"{size // MIB} MiB"


def sizes(bench: Bench, regions: Regions) -> list[Result]:
    """Each kind and size, in one region of 64 MiB."""
    rows = []
    for kind, size in [("add", 8), *((kind, size) for kind in KINDS for size in SIZES)]:
        arms = {
            "direct": ("direct", "region", kind, size, 1, LENGTH),
            "delegated": ("delegated", "region", kind, size, 1, LENGTH),
            "copy": ("own", "copy", kind, size, LENGTH),
            "mapped": ("own", "mapped", kind, size, LENGTH),
            "socket": ("own", "socket", kind, size),
        }
        found = bench.alternate(arms, lambda words: regions.run(*words))
        what = f"{'fetch_add' if kind == 'add' else f'{kind} of {named(size)}'}"
        aim = 1 / 1.5 if size >= 4096 else None
        rows.append(bench.compare(f"{what}, direct vs own memory", found["direct"], found["copy"], "ns", better="less", aim=aim))
        note = "mapped memory lies in the kernel's smaller pages, as regions do; the process's own in huge ones"
        rows.append(bench.compare(f"{what}, direct vs mapped memory", found["direct"], found["mapped"], "ns", better="less", aim=1 / 1.15, note=note))
        rows.append(bench.compare(f"{what}, delegated vs unix socket", found["delegated"], found["socket"], "ns", better="less", aim=1.0))
    return rows


def flat(bench: Bench, regions: Regions) -> list[Result]:
    """Many regions against one, and long ones against one of 1 MiB."""
    rows = []
    for path in ("direct", "delegated"):
        counts = {count: (path, "region", "read", PART, count, SMALL) for count in COUNTS}
        lengths = {length: (path, "region", "read", PART, 1, length) for length in LENGTHS}
        for cases, what in [(counts, "{} regions vs one"), (lengths, "a region of {} vs 1 MiB")]:
            found = bench.alternate(cases, lambda words: regions.run(*words))
            first, *others = cases
            for case in others:
                name = what.format(f"{case:,}" if cases is counts else named(case))
                note = "flat: at random places, so that what is not in the processor's caches costs both paths"
                rows.append(bench.compare(f"read of {PART} B, {path}: {name}", found[case], found[first], "ns", better="less", aim=0.5, note=note))
    return rows


PIECES = {"sizes": sizes, "flat": flat}


def measure(bench: Bench) -> list[Result]:
    """All of it, or the pieces that MEMORY names."""
    if bench.harness.plain:
        return []
    regions = Regions(bench)
    wanted = os.environ.get("MEMORY", ",".join(PIECES)).split(",")
    return [row for name in wanted for row in PIECES[name](bench, regions)]
