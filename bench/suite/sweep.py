"""A transport sweep that another process analyses while it runs: what sharing its flux costs.

The experiment of the XASM paper (ROSS 2016). Aim: below 1 % over a run without analysis, where
the paper has below 4 %. "own data" is the control: the same analysis at the same moments over
memory that nobody shares, so that the cost of analysing stands apart from the cost of sharing.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess

from heliostat_run import ROOT
from measure import REPORT, Bench, Result
from pictures import sweep as picture

PACKAGE = ["run", "--release", "--quiet", "--package", "heliostat-bench-sweep", "--"]
AIM_PERCENT = 1.0
# The paper gives the analysis cores of its own. On one core part of the analysis runs within the
# producer's steps, whatever way of sharing wakes it: that is shown, and held to nothing.
AIMED = "two cores"
WITH = "a step after a shared one over its neighbour after one that was not, medians of pairs, per cent"
CALL = "time in the producer's own call that shares, per cent of a step"
SMALL = "processor time that a version adds to its writes, whole copies as theirs"


def measure(bench: Bench) -> list[Result]:
    """Runs the program, draws target/bench/sweep.png, and compares. Needs no control plane."""
    path = REPORT / "sweep-runs.json"
    REPORT.mkdir(parents=True, exist_ok=True)
    words = [os.environ.get("CARGO", "cargo"), *PACKAGE, "--out", str(path)]
    words += ["--quick"] if bench.seconds < 1 else ["--trials", str(bench.repetitions)]
    answer = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{PACKAGE[4]} ended with {answer.returncode}: {answer.stderr[-1000:]}")
    return results(json.loads(path.read_text()))


def results(found: dict) -> list[Result]:
    """Rows and picture of what the program wrote."""
    groups = grouped(found["runs"])
    picture.draw(groups, found, REPORT / "sweep.png")
    rows = []
    for (cells, cores), ways in groups.items():
        for name, of, note, aim in (
            ("added to a step", "over_ns", WITH, AIM_PERCENT if cores == AIMED else None),
            ("the call that shares", "shared_ns", CALL, None),
        ):
            arms = [overheads(ways[way], of) for way in ("snapshot", "spin lock")]
            rows.append(row(f"{cells} cells: {name}", arms, cores, note, aim))
        control = overheads(ways["own data"], "over_ns")
        arms = [overheads(ways["snapshot"], "over_ns"), control]
        rows.append(row(f"{cells} cells: added to a step, vs analysing own data", arms, cores, WITH, None))
    return rows + small(found["small"])


def grouped(runs: list[dict]) -> dict:
    """{(cells, cores): {way: [run, ...]}}, trials in their order; checks are left out."""
    groups: dict = {}
    for run in runs:
        if "trial" in run:
            place = groups.setdefault((run["cells"], run["cores"]), {})
            place.setdefault(run["way"], []).append(run)
    return groups


def overheads(trials: list[dict], of: str) -> list[float]:
    """Per cent of a step, one figure for each trial."""
    return [100 * one[of] / one["step_ns"] for one in trials]


def row(name: str, arms: list, cores: str, note: str, aim: float | None) -> Result:
    """One comparison in per cent; the ratio is theirs to ours."""
    ours, theirs = (statistics.median(arm) for arm in arms)
    spread = {"ours": [min(arms[0]), max(arms[0])], "theirs": [min(arms[1]), max(arms[1])]}
    ratio = theirs / max(ours, 0.01)
    return Result(name, ours, theirs, "%", ratio, aim, "ours at most", spread, cores, note)


def small(rows: list[dict]) -> list[Result]:
    """Watched pages against whole copies in small regions."""
    found = []
    for one in rows:
        ours, theirs = one["watched_ns"] / 1e3, one["whole_ns"] / 1e3
        name = f"{one['bytes'] >> 10} KiB, {one['dirty_pages']} pages written: a version"
        spread = {"ours": [ours, ours], "theirs": [theirs, theirs]}
        found.append(Result(name, ours, theirs, "us", theirs / ours, None, "", spread, "any", SMALL))
    return found
