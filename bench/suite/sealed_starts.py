"""What starting sealed programs costs over plain Linux, against what it cost on 23 November 2026.

Aim: half of that. BEFORE=PATH names the `heliostat` of another version, which is then measured by
turns with this one; without it the costs that were measured on that day stand in its place, those
of a virtual machine with two cores.
"""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import sealed_programs
from heliostat_run import BINARY
from measure import Bench, Result

AIM = 2.0
PLAIN, SEALED, BEFORE = "plain", "sealed", "before"
FROM_RECORDS = "against the costs recorded on 23 Nov 2026; BEFORE=PATH measures another version by turns"


@dataclass(frozen=True)
class Start:
    """A command, how often one sample runs it, and what one run cost over plain on that day."""

    called: str
    words: list[str]
    runs: int
    before_ms: float


def starts(folder: Path) -> list[Start]:
    git = ["git", "-C", str(sealed_programs.tree(folder)), "status", "--short"]
    execs = "for turn in {1..300}; do /bin/true; done"
    together = f"for turn in {{1..12}}; do {' '.join(git)}; done"
    return [
        Start("start and end of /bin/true", ["/bin/true"], 10, 19.8),
        Start("300 execs of /bin/true from bash", ["bash", "-c", execs], 1, 439.0),
        Start("git status of 300 files, alone", git, 5, 23.2),
        Start("git status of 300 files, twelve in one shell", ["bash", "-c", together], 1, 411.0),
    ]


def sealed(heliostat: str, folder: Path, words: list[str]) -> list[str]:
    return [heliostat, "run", "--sealed", "--grant", f"{folder}:rw", "--", *words]


def run_ms(command: list[str], start: Start, environment: dict[str, str]) -> float:
    """Milliseconds of one run."""
    began = time.monotonic()
    for _ in range(start.runs):
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return (time.monotonic() - began) / start.runs * 1e3


def measure(bench: Bench) -> list[Result]:
    folder = bench.harness.folder / "sealed"
    folder.mkdir()
    environment, before = bench.harness.environment(), os.environ.get("BEFORE")
    # Another version has a control plane of its own.
    apart = environment | {"XDG_RUNTIME_DIR": str(folder), "HELIOSTAT_SOCKET": str(folder / "control.sock")}
    found = []
    for start in starts(folder):
        ways = {PLAIN: (start.words, environment)}
        if not bench.harness.plain:
            ways[SEALED] = (sealed(str(BINARY), folder, start.words), environment)
        if before:
            ways[BEFORE] = (sealed(before, folder, start.words), apart)
        samples = bench.alternate(ways, lambda way, start=start: run_ms(way[0], start, way[1]))
        found.append(compared(bench, start, samples))
    return found


def compared(bench: Bench, start: Start, samples: dict[str, list[float]]) -> Result:
    """The cost over plain, by rounds, beside that of the version before."""

    def cost(way: str) -> list[float]:
        return [one - plain for one, plain in zip(samples.get(way, []), samples[PLAIN])]

    return bench.compare(
        f"{start.called}: cost over plain, of the version before", cost(SEALED), cost(BEFORE) or [start.before_ms], "ms",
        better="less", aim=AIM, cores="any core", note="" if BEFORE in samples else FROM_RECORDS,
    )  # fmt: skip
