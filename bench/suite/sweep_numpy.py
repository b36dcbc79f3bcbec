"""The transport sweep of bench/sweep as a NumPy user writes it, analysed by another process.

The same problem, sizes, ways and pairs of steps (bench/python/sweep.py). Before anything is
measured its flux is compared with the one that the Rust program writes, particles are counted, and
each way's analyses are compared with the producer's own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from heliostat_run import ROOT
from measure import REPORT, Bench, Result
from pictures import sweep_numpy as picture
from suite import sweep
from suite.checkpoint import PACKAGE, install

SCRIPT = ROOT / "bench/python/sweep.py"
CHECKED = ["6,5,8", "8,8,12"]
STEPS = "3"


def measure(bench: Bench) -> list[Result]:
    """Checks, then measures, then draws target/bench/sweep_numpy.png."""
    REPORT.mkdir(parents=True, exist_ok=True)
    install()
    for cells in CHECKED:
        reference = REPORT / "sweep-reference.f64"
        words = [os.environ.get("CARGO", "cargo"), *sweep.PACKAGE, "--flux", cells, STEPS, "--out", str(reference)]
        told(words, dict(os.environ))
        script(bench, "check", "--cells", cells, "--steps", STEPS, "--reference", str(reference))
    path = REPORT / "sweep-numpy-runs.json"
    flags = ["--quick"] if bench.seconds < 1 else []
    flags += ["--full"] if bench.full else []
    script(bench, "measure", "--out", str(path), "--trials", str(min(bench.repetitions, 5)), *flags)
    return results(json.loads(path.read_text())["runs"])


def script(bench: Bench, *words: str) -> None:
    """Runs the program with the package and this benchmark's control plane."""
    own = {**os.environ, **bench.harness.environment(), "PYTHONPATH": str(PACKAGE)}
    told([sys.executable, str(SCRIPT), *words], own)


def told(words: list[str], environment: dict) -> None:
    """Runs a command; RuntimeError with what it said if it fails."""
    answer = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
    if answer.returncode != 0:
        said = (answer.stdout + answer.stderr).strip()[-1000:]
        raise RuntimeError(f"{' '.join(words[1:4])} ended with {answer.returncode}: {said}")


def results(runs: list[dict]) -> list[Result]:
    """Rows and picture of what the program wrote."""
    groups = sweep.grouped(runs)
    picture.draw(groups, REPORT / "sweep_numpy.png")
    rows = []
    for (cells, cores), ways in groups.items():
        aim_percent = sweep.AIM_PERCENT if cores == sweep.AIMED else None
        for way, aim in (("spin lock", aim_percent), ("copy", None), ("own data", None)):
            arms = [sweep.overheads(ways[one], "over_ns") for one in ("snapshot", way)]
            called = "analysing own data" if way == "own data" else way
            rows.append(sweep.row(f"{cells} cells: added to a step, vs {called}", arms, cores, sweep.WITH, aim))
        arms = [sweep.overheads(ways[one], "shared_ns") for one in ("snapshot", "copy")]
        rows.append(sweep.row(f"{cells} cells: the call that shares, vs copy", arms, cores, sweep.CALL, None))
    return rows
