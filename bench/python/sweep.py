"""A transport sweep in NumPy whose flux another process analyses while it runs: what does that cost?

    sweep.py measure --out FILE [--quick | --full] [--trials N]
    sweep.py check [--reference FILE --cells X,Y,Z --steps N]

The experiment of bench/sweep for programs in Python: its problem, sizes, ways of sharing and pairs
of steps; transport.py has the equations, sharing.py the ways. `measure` writes one JSON object per
run. `check` holds the numerics to the balance of particles and to the flux that the Rust program
wrote, and each way's analyses to the producer's own.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402
from sharing import ANALYSED, BUSY_NS, CHECKED, WAYS, WRONG, Sharing  # noqa: E402
from transport import Solver, block  # noqa: E402

GROUPS = 24
PAPER = [(4, 4, 6), (5, 5, 8), (6, 6, 9), (7, 7, 10), (8, 8, 12), (16, 16, 24)]
LARGER, LARGEST = (32, 32, 48), (64, 64, 96)
QUICK = [PAPER[0], PAPER[4], PAPER[5]]
# Sweeps before the one that ends a step: as many in each, so that steps can be compared.
SWEEPS = 5
# Versions before anything is measured: slots get used, page tables get filled.
WARM_UPS = 4
# How long the measured pairs of one run take, about, and how many there are. Neighbouring steps
# differ by some 5 per cent either way on a machine that is shared, by processor time too: one per
# cent of snapshots, where it is promised, and of their control takes hundreds of pairs to see.
RUN_NS, PROMISED_NS = 0.8e9, 6e9
PROMISED = ["own data", "snapshot"]
LEAST_PAIRS, LEAST_OF_LARGEST, MOST_PAIRS = 8, 2, 500
CORES = sorted(os.sched_getaffinity(0))


def solver_of(cells: tuple[int, int, int]) -> Solver:
    """32 directions, 8 beyond the paper's sizes, as the Rust program has them."""
    return Solver(block(cells, GROUPS), 4 if np.prod(cells) <= 6144 else 2)


def step(solver: Solver, flux: np.ndarray) -> None:
    """One step in time."""
    for _ in range(SWEEPS):
        solver.iterate(flux)
    solver.iterate(flux, commits=True)


def run(cells: tuple[int, int, int], way: str, cores: tuple[int, int], pairs: int, checks: bool = False) -> dict:
    """One run beside a consumer; medians over pairs of neighbouring steps, one after its
    predecessor was shared and one after one that was not."""
    sharing = Sharing(way, (int(np.prod(cells)), GROUPS), cores[1])
    os.sched_setaffinity(0, {cores[0]})
    try:
        times = produce(cells, sharing, pairs, checks)
    finally:
        os.sched_setaffinity(0, set(CORES))
        sharing.end()
    words = [int(word) for word in sharing.words[:8]]
    if words[WRONG]:
        raise RuntimeError(f"{way}, {cells}: {words[WRONG]} of {words[CHECKED]} analyses differ from the producer's")
    place = "one core" if cores[0] == cores[1] else "two cores"
    return {
        "cells": int(np.prod(cells)), "groups": GROUPS, "cores": place, "way": way, "pairs": pairs, **times,
        "analysed": words[ANALYSED], "checked": words[CHECKED], "wrong": words[WRONG],
        "analysis_ns": words[BUSY_NS] / max(words[ANALYSED], 1),
    }  # fmt: skip


def produce(cells: tuple[int, int, int], sharing: Sharing, pairs: int, checks: bool) -> dict:
    """The simulation's side."""
    solver, flux = solver_of(cells), sharing.flux
    for _ in range(WARM_UPS):
        flux += 0
        if checks:
            sharing.expect()
        sharing.share()
    taken: dict = {"alone": [], "over": [], "shared": []}
    for pair in range(pairs + 1):
        both = {}
        # Which of both comes first takes turns too.
        for is_shared in (pair % 2 == 0, pair % 2 == 1):
            began = time.perf_counter_ns()
            if is_shared:
                sharing.share()
                taken["shared"].append(time.perf_counter_ns() - began)
            step(solver, flux)
            both[is_shared] = time.perf_counter_ns() - began
            if checks:
                sharing.expect()
        taken["alone"].append(both[False])
        taken["over"].append(both[True] - both[False])
    middle = {name: statistics.median(values[1:]) for name, values in taken.items()}
    return {"step_ns": middle["alone"], "over_ns": middle["over"], "shared_ns": middle["shared"]}


def measure(asked: argparse.Namespace) -> None:
    """All sizes, placements and ways; ways take turns, so that a slow minute meets all of them."""
    sizes = QUICK if asked.quick else [*PAPER, LARGER, *([LARGEST] if asked.full else [])]
    if chosen := os.environ.get("SWEEP_CELLS"):
        sizes = [cells for cells in sizes if str(np.prod(cells)) in chosen.split(",")]
    places = [(CORES[0], CORES[-1]), (CORES[0], CORES[0])] if len(CORES) > 1 else [(CORES[0], CORES[0])]
    runs: list[dict] = []
    for cells in sizes:
        took, count = step_ns(cells), np.prod(cells)
        trials = max(asked.trials - 2 * int(count >= 6144) - 2 * int(count >= 49152), 1)
        for cores in places:
            # What takes a second a step is run where the paper runs it: on cores of their own.
            if cores[0] == cores[1] and len(places) > 1 and count >= (6144 if asked.quick else 49152):
                continue
            for trial in range(trials):
                for way in WAYS:
                    promised = way in PROMISED and cores[0] != cores[1] and not asked.quick
                    pairs = pairs_for(cells, took, PROMISED_NS if promised else RUN_NS)
                    runs.append(run(cells, way, cores, pairs) | {"trial": trial})
        # After every size: who ends this early keeps what was measured.
        asked.out.write_text(json.dumps({"runs": runs}))
        print(f"{count} cells: {len(runs)} runs", file=sys.stderr, flush=True)


def step_ns(cells: tuple[int, int, int]) -> int:
    """How long a step takes, about."""
    solver, flux = solver_of(cells), np.zeros((int(np.prod(cells)), GROUPS))
    step(solver, flux)
    began = time.perf_counter_ns()
    step(solver, flux)
    return time.perf_counter_ns() - began


def pairs_for(cells: tuple[int, int, int], took: int, run_ns: float) -> int:
    """So many pairs of steps as take that long, but enough of them."""
    least = LEAST_OF_LARGEST if cells == LARGEST else LEAST_PAIRS
    return int(min(max(run_ns / 2 / took, least), MOST_PAIRS))


def check(asked: argparse.Namespace) -> None:
    """Fails, with a reason, if anything is not as it must be."""
    cells = tuple(int(word) for word in asked.cells.split(","))
    worst = balance(cells, asked.steps)
    print(f"balance of particles: {worst:.1e} of what is born is missing at most")
    if worst > 1e-12:
        raise SystemExit("particles are lost or made")
    if asked.reference:
        found = difference(cells, asked.steps, asked.reference)
        print(f"against the Rust program's flux: {found:.1e} of it at most")
        # Sums in another order; what a far corner sees has been through hundreds of cells.
        if not found < 1e-10:
            raise SystemExit("the flux is not the Rust program's")
    for way in WAYS[1:]:
        done = run(cells, way, (CORES[0], CORES[-1]), 10, checks=True)
        print(f"{way}: {done['checked']} analyses compared, none differs")
        if done["checked"] == 0:
            raise SystemExit(f"{way}: no analysis was compared")


def balance(cells: tuple[int, int, int], steps: int) -> float:
    """What is born and scattered in, less what is stopped, leaves, and stays for the next step: in
    shares of the first, zero to rounding after each step, whether or not it has converged."""
    solver, worst = solver_of(cells), 0.0
    problem, flux = solver.problem, np.zeros((int(np.prod(cells)), GROUPS))
    for _ in range(steps):
        before = flux.copy()
        step(solver, flux)
        gained = solver.emission.sum(axis=0) * problem.volume
        stopped = (problem.total[problem.filling] * flux + problem.per_step * (flux - before)).sum(axis=0)
        missing = gained - stopped * problem.volume - solver.leakage
        worst = max(worst, float(np.max(np.abs(missing) / gained)))
    return worst


def difference(cells: tuple[int, int, int], steps: int, reference: Path) -> float:
    """The greatest relative difference between the flux after so many steps and a file of it."""
    solver, flux = solver_of(cells), np.zeros((int(np.prod(cells)), GROUPS))
    for _ in range(steps):
        step(solver, flux)
    known = np.fromfile(reference).reshape(flux.shape)
    return float(np.max(np.abs(flux / known - 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["measure", "check"])
    parser.add_argument("--out", type=Path, default=Path("sweep-numpy-runs.json"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--reference", type=Path)
    parser.add_argument("--cells", default="6,5,8")
    parser.add_argument("--steps", type=int, default=3)
    asked = parser.parse_args()
    measure(asked) if asked.what == "measure" else check(asked)


if __name__ == "__main__":
    main()
