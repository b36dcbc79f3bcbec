"""How everything is measured: placements, alternation, medians and spread, tables and JSON.

A `Bench` owns one private control plane and the compiled measuring programs. Arms of a
comparison run in turn (A B A B ...), so that a slow minute of the machine meets both alike;
the machine's cache-line ping-pong is taken once per round and stands beside each result.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Callable

import kernel_view
from heliostat_run import BUILT, ROOT, Harness, Program, Side

SOURCES = ROOT / "bench/programs"
# Where all measuring programs lie beside those under test, and there may be nothing to build them with.
IS_BUILT = bool(os.environ.get("HELIOSTAT_BENCH_BUILT"))
REPORT = Path(os.environ.get("HELIOSTAT_REPORT", ROOT / "target")) / "bench"


def cargo_program(package: str) -> Path:
    """A measuring program of the workspace, built for release where it is not built."""
    if IS_BUILT:
        return BUILT / package
    cargo = os.environ.get("CARGO", "cargo")
    subprocess.run([cargo, "build", "--release", "--quiet", "--package", package], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / package


def own_package(folder: Path, name: str) -> Path | None:
    """A program of a package outside the workspace; None where it cannot be built, which is said."""
    if IS_BUILT:
        return BUILT / name if (BUILT / name).exists() else None
    target = REPORT.parent / folder.name
    words = [os.environ.get("CARGO", "cargo"), "build", "--release", "--quiet", "--target-dir", str(target)]
    answer = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        print(f"{name} is left out, it cannot be built here: {answer.stderr.strip().splitlines()[-1:]}", flush=True)
        return None
    return target / "release" / name


@dataclass(frozen=True)
class Placement:
    """Which core the server is pinned to, and which the client."""

    name: str
    server: int
    client: int


def placements() -> list[Placement]:
    """One core for both ends, and a core each where the machine has two."""
    cores = sorted(os.sched_getaffinity(0))
    found = [Placement("one core", cores[0], cores[0])]
    if len(cores) > 1:
        found.append(Placement("two cores", cores[0], cores[1]))
    return found


@dataclass
class Result:
    """One comparison. `ratio` is how many times better ours is; above 1 is better."""

    name: str
    ours: float | None
    theirs: float | None
    unit: str
    ratio: float | None
    aim: float | None
    aim_is: str
    spread: dict[str, list[float]]
    cores: str
    note: str
    cacheline_ns: float | None = None
    load_average: float = field(default_factory=lambda: round(os.getloadavg()[0], 2))

    def met(self) -> bool | None:
        """Whether the aim is reached; None when there is no aim or nothing was measured."""
        if self.aim is None or (self.ours, self.ratio) == (None, None):
            return None
        return self.ours <= self.aim if self.aim_is == "ours at most" else self.ratio >= self.aim


@dataclass
class Bench:
    """What a benchmark needs: a harness, how often and how long, and the compiled programs."""

    harness: Harness
    repetitions: int = 5
    seconds: float = 2.0
    full: bool = False
    quick: bool = False
    cachelines: list[float] = field(default_factory=list)

    def sides(self) -> list[Side]:
        return [Side.PLAIN] if self.harness.plain else [Side.PLAIN, Side.HELIOSTAT]

    def program(self, name: str, flags: tuple[str, ...] = ("-pthread",), ending: str = "") -> str:
        """Path of a measuring program, compiled when its source is newer."""
        if IS_BUILT:
            return str(BUILT / f"{name}{ending}")
        source, binary = SOURCES / f"{name}.c", REPORT / "bin" / f"{name}{ending}"
        binary.parent.mkdir(parents=True, exist_ok=True)
        newest = max(path.stat().st_mtime for path in (source, SOURCES / "tcp.h"))
        if not binary.exists() or binary.stat().st_mtime < newest:
            gcc = ["gcc", "-O2", "-Wall", "-Wextra", *flags, "-o", str(binary), str(source)]
            subprocess.run(gcc, check=True)
        return str(binary)

    def library(self, name: str) -> str:
        """The same of a library that is put before others."""
        return self.program(name, ("-shared", "-fPIC"), ".so")

    def cacheline_ns(self) -> float | None:
        """The cache-line ping-pong between the two cores at this moment."""
        place = placements()[-1]
        command = [self.program("cacheline"), str(place.server), str(place.client)]
        answer = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return answer["round_trip_ns"]

    def alternate(self, arms: dict, sample: Callable) -> dict:
        """Samples each arm once per round, in turn; {arm: [sample, ...]}."""
        samples: dict = {arm: [] for arm in arms}
        self.cachelines = []
        for _ in range(self.repetitions):
            line = self.cacheline_ns()
            self.cachelines += [line] if line is not None else []
            for arm, what in arms.items():
                samples[arm].append(sample(what))
        return samples

    def pair(self, side: Side, place: Placement, name: str, server: list, client: list) -> dict:
        """Runs `name server PORT ...` and `name client PORT ...`; the client's JSON."""
        port, binary = kernel_view.free_port(), self.program(name)
        served = self.harness.start(side, [binary, "server", port, *server], core=place.server)
        try:
            kernel_view.wait_listening(port, served.process)
            words = [binary, "client", port, *client]
            return last_json(self.harness.run(side, words, core=place.client, seconds=120))
        finally:
            served.kill()
            served.process.wait()

    def compare(self, name: str, ours: list[float], theirs: list[float], unit: str, **more) -> Result:
        """Medians and ratio of two lists of samples; `better` is "more" or "less"."""
        better = more.pop("better", "more")
        mine = statistics.median(ours) if ours else None
        other = statistics.median(theirs)
        ratio = None
        if mine:
            ratio = mine / other if better == "more" else other / mine
        spread = {"theirs": [min(theirs), max(theirs)]}
        if ours:
            spread["ours"] = [min(ours), max(ours)]
        line = statistics.median(self.cachelines) if self.cachelines else None
        return Result(
            name, mine, other, unit, ratio, more.pop("aim", None), more.pop("aim_is", "ratio at least"),
            spread, more.pop("cores", ""), more.pop("note", ""), line,
        )  # fmt: skip


def by_rounds(row: Result, ours: list[float], theirs: list[float]) -> Result:
    """The same comparison by the ratios of its rounds: their median, and their quartiles as spread."""
    pairs = [mine / other for mine, other in zip(ours, theirs) if other > 0]
    row.ratio, row.spread["ratios"] = statistics.median(pairs), statistics.quantiles(pairs, n=4)
    return row


@dataclass(frozen=True)
class Value:
    """One thing that a sample says: its key, how it is called, its unit and which way is better."""

    key: str
    called: str
    unit: str
    better: str = "more"


RATE = Value("rate", "rate", "req/s")
P50 = Value("p50_us", "p50", "us", "less")
P99 = Value("p99_us", "p99", "us", "less")
SERVER_CPU = Value("cpu_ns", "server CPU", "ns/req", "less")


def compare_best(
    bench: Bench, name: str, samples: dict, value: Value, pair: tuple, aim: float | None = None
) -> Result:
    """Compares the best placement of one arm with the best placement of another.

    `samples` is {(arm, placement name): [{key: number}, ...]}, `pair` is (our arm, their arm).
    """
    picked = []
    for wanted in pair:
        by_place = {
            place: [one[value.key] for one in rounds]
            for (arm, place), rounds in samples.items()
            if arm == wanted
        }
        picked.append(best(by_place, value.better))
    (ours_at, ours), (theirs_at, theirs) = picked
    return bench.compare(
        f"{name}: {value.called}", ours, theirs, value.unit,
        better=value.better, aim=aim, cores=f"{ours_at or '-'} / {theirs_at}",
    )  # fmt: skip


def last_json(program: Program) -> dict:
    """The JSON object in the last line that a program printed."""
    lines = program.output().strip().splitlines()
    if program.process.returncode != 0 or not lines:
        raise RuntimeError(
            f"{program.name} ended with {program.process.returncode}: {program.errors()[-1000:]}"
        )
    return json.loads(lines[-1])


def best(samples: dict[str, list[float]], better: str = "more") -> tuple[str, list[float]]:
    """The arm with the best median, and its samples; ("", []) of nothing."""
    if not samples:
        return "", []
    pick = max if better == "more" else min
    name = pick(samples, key=lambda arm: statistics.median(samples[arm]))
    return name, samples[name]


def figure(value: float | None) -> str:
    """A number for a table: three or four significant digits, thousands grouped."""
    if value is None:
        return "-"
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def row(result: Result) -> list[str]:
    """One table row."""
    met = {None: "", True: "met", False: "MISSED"}[result.met()]
    sign = "<=" if result.aim_is == "ours at most" else ">="
    aim = f"{sign} {figure(result.aim)}" if result.aim is not None else ""
    low, high = result.spread.get("ours", result.spread["theirs"])
    return [
        result.name, result.cores, figure(result.ours), figure(result.theirs), result.unit,
        figure(result.ratio), aim, met, f"{figure(low)}..{figure(high)}", figure(result.cacheline_ns),
        figure(result.load_average),
    ]  # fmt: skip


HEADINGS = ["what", "cores", "ours", "theirs", "unit", "ratio", "aim", "", "min..max", "line ns", "load"]


def table(results: list[Result]) -> str:
    """All results as aligned columns."""
    rows = [HEADINGS, *(row(result) for result in results)]
    widths = [max(len(line[column]) for line in rows) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in rows
    )


def write(name: str, results: list[Result]) -> Path:
    """Writes target/bench/NAME.json."""
    REPORT.mkdir(parents=True, exist_ok=True)
    path = REPORT / f"{name}.json"
    path.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    return path


def settle(seconds: float = 0.1) -> None:
    """Lets the last arm's connections and processes go before the next begins."""
    time.sleep(seconds)
