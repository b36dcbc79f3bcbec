"""A key-value store checkpointed while it serves: snapshots against fork against standing still.

Load A of YCSB (half SET, keys by Zipf) in the store's own process on one core, the file written
by another process on the other core. Every file is read back and compared with the store at the
moment of its checkpoint; one that differs is an error, not a figure.
"""

from __future__ import annotations

import json
import os
import subprocess

from heliostat_run import ROOT
from measure import REPORT, Bench, Result
from pictures import store as picture

PACKAGE = ["run", "--release", "--quiet", "--package", "heliostat-bench-store", "--"]
PACED, FREE = "100,000 operations/s", "as many operations as it can"
STEADY, AHEAD = "snapshot every 50 ms", "snapshot, copied ahead"
NOTES = {
    "pause": "the server stands still for so long when a checkpoint begins; median of trials",
    "ahead": "the longest single stop of a checkpoint: a piece copied ahead (256 KiB each ms), or its version",
    "steady": "the longest of all publishings, one each 50 ms; a checkpoint adds none of its own",
    "p999": "99.9 % of the operations while the file is written take at most this long",
    "rate": "operations per second while the file is written, relative to before, in per cent",
    "memory": "greatest Pss of server and writer together, less that of the bare store",
}


def measure(bench: Bench) -> list[Result]:
    """Runs the program, draws target/bench/store.png, and compares. Needs no control plane."""
    REPORT.mkdir(parents=True, exist_ok=True)
    path = REPORT / "store-runs.json"
    is_quick = bench.seconds < 1
    mib, trials = ("256", 1) if is_quick else ("256,1024", min(bench.repetitions, 3))
    words = [os.environ.get("CARGO", "cargo"), *PACKAGE, "--out", str(path), "--mib", mib]
    words += ["--trials", str(trials), "--folder", str(REPORT)]
    answer = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{PACKAGE[4]} ended with {answer.returncode}: {answer.stderr[-1000:]}")
    return results(bench, json.loads(path.read_text()))


def results(bench: Bench, runs: list[dict]) -> list[Result]:
    """Rows and picture of what the program wrote."""
    torn = [run["way"] for run in runs if not run["is_whole"]]
    if torn:
        raise RuntimeError(f"checkpoints differ from the store: {', '.join(torn)}")
    picture.draw(runs, REPORT / "store.png")
    rows = []
    for mib in sorted({run["mib"] for run in runs}):
        for rate, load in ((100e3, PACED), (0.0, FREE)):
            ways = by_way(runs, mib, rate)
            rows += compared(bench, f"{mib} MiB, {load}", ways)
        rows += memory(bench, runs, mib)
    return rows


def by_way(runs: list[dict], mib: int, rate: float) -> dict:
    """{way: [run, ...]} of one size and load."""
    chosen: dict = {}
    for run in runs:
        if run["mib"] == mib and run["rate"] == rate and not run["watches"]:
            chosen.setdefault(run["way"], []).append(run)
    return chosen


def compared(bench: Bench, name: str, ways: dict) -> list[Result]:
    """Each way of snapshots against fork, then fork against standing still."""
    pause = {way: [run["pause_ns"] / 1e6 for run in runs] for way, runs in ways.items()}
    pause[STEADY] = [run["publishing"]["longest_ns"] / 1e6 for run in ways[STEADY]]
    slow = {way: [run["during"]["p999_ns"] / 1e6 for run in runs] for way, runs in ways.items()}
    kept = {
        # Who stands still does nothing meanwhile, which no ratio can be made of.
        way: [max(100 * run["during"]["per_second"] / run["before"]["per_second"], 0.01) for run in runs]
        for way, runs in ways.items()
    }
    rows = []
    for way, other in ((AHEAD, "fork"), ("snapshot", "fork"), (STEADY, "fork"), ("fork", "stop")):
        note = NOTES[{STEADY: "steady", AHEAD: "ahead"}.get(way, "pause")]
        for what, values, unit, better, why in (
            ("pause", pause, "ms", "less", note),
            ("p99.9 during it", slow, "ms", "less", NOTES["p999"]),
            ("throughput during it", kept, "%", "more", NOTES["rate"]),
        ):
            called = f"{name}: {what}, {way} vs {other}"
            rows.append(
                bench.compare(called, values[way], values[other], unit, better=better, note=why, cores="two cores")
            )
    return rows


def memory(bench: Bench, runs: list[dict], mib: int) -> list[Result]:
    """Extra memory of each way, against fork's."""
    extra = {
        run["way"]: run["memory_peak"] / 2**20 - mib
        for run in runs
        if run["mib"] == mib and run["watches"]
    }
    ways = ("snapshot", AHEAD, STEADY)
    return [
        bench.compare(
            f"{mib} MiB: extra memory at most, {way} vs fork", [extra[way]], [extra["fork"]], "MiB",
            better="less", note=NOTES["memory"], cores="two cores",
        )
        for way in ways
    ]  # fmt: skip
