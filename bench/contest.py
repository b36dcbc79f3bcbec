"""One workload in several sandboxes by turns: what is measured, and how it is compared.

A way that fails in a workload leaves that workload and says why; the others go on.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable

from heliostat_run import Program, Side
from measure import Bench, Result, figure
from sandboxes import PLAIN, RUNSC, SEALED, Sandboxes

JUDGED = (PLAIN, RUNSC)

@dataclass
class Value:
    """One figure of a workload: how it is called, its unit, and what is aimed at against whom.

    `most` is an aim that needs nobody else; what is no speed is not in the picture of speeds.
    """

    called: str
    unit: str
    better: str = "less"
    aims: dict[str, float] = field(default_factory=dict)
    most: float | None = None
    is_speed: bool = True


@dataclass
class Workload:
    """A measurement that can be made in any sandbox; it yields {key of a value: figure}."""

    name: str
    values: dict[str, Value]
    sample: Callable[[str], dict[str, float]]
    cores: str = "any core"


@dataclass
class Contest:
    """The ways that work here, with what a workload needs to run in them."""

    bench: Bench
    boxes: Sandboxes
    ways: list[str]
    rows: list[dict] = field(default_factory=list)

    def run(self, way: str, words: list, core: int | None = None, port: int | None = None) -> Program:
        """Runs a program to its end inside `way`; raises unless it ends with 0."""
        program = self.start(way, words, core, port)
        program.wait(120)
        return judged(program, words)

    def start(self, way: str, words: list, core: int | None = None, port: int | None = None) -> Program:
        """Starts a program inside `way`."""
        command = self.boxes.command(way, words, port)
        inside = {"TMPDIR": str(self.boxes.folder)}
        return self.bench.harness.start(Side.PLAIN, command, core=core, cwd=self.boxes.folder, env=inside, name=way)

    def measure(self, work: Workload) -> list[Result]:
        """All ways by turns; a way that fails leaves the workload and says why."""
        gone: dict[str, str] = {}

        def sample(way: str) -> dict | None:
            try:
                return None if way in gone else work.sample(way)
            except (RuntimeError, TimeoutError) as error:
                gone[way] = str(error)
                return None

        rounds = self.bench.alternate({way: way for way in self.ways}, sample)
        taken = {way: [one for one in samples if one] for way, samples in rounds.items() if way not in gone}
        for way, reason in gone.items():
            print(f"  {work.name}: {way} left out: {reason}", flush=True)
        return [one for key, value in work.values.items() for one in self.compare(work, key, value, taken)]

    def compare(self, work: Workload, key: str, value: Value, taken: dict) -> list[Result]:
        """Sealed against plain Linux and runsc; all ways in a printed line and in the picture."""
        series = {way: [one[key] for one in samples] for way, samples in taken.items()}
        medians = ", ".join(f"{way} {figure(statistics.median(found))}" for way, found in series.items())
        print(f"  {work.name}: {value.called} ({value.unit}, {work.cores}): {medians}", flush=True)
        called = f"{value.called}, {work.cores}" if work.cores != "any core" else value.called
        row = {"called": called, "unit": value.unit, "better": value.better, "is_speed": value.is_speed}
        self.rows.append(row | {"series": dict(series)})
        ours = series.pop(SEALED, [])
        note = "; ".join(f"{way} is missing: {reason}" for way, reason in self.boxes.missing.items())
        return [
            self.bench.compare(
                f"{value.called}, against {way}", ours, theirs, value.unit, better=value.better,
                cores=work.cores, note=note, **aim(value, way),
            )
            for way, theirs in series.items()
            if way in JUDGED
        ]  # fmt: skip


def judged(program: Program, words: list) -> Program:
    """A program that has ended; raises unless it did with 0."""
    if program.process.returncode != 0:
        said = (program.errors() or program.output())[-300:].strip()
        raise RuntimeError(f"{Path(str(words[0])).name} ended with {program.process.returncode}: {said}")
    return program


def aim(value: Value, way: str) -> dict:
    """What is aimed at, as `Bench.compare` takes it."""
    if value.most is not None:
        return {"aim": value.most, "aim_is": "ours at most"}
    return {"aim": value.aims.get(way)}
