"""Checkpoints of a training loop: snapshots beside a blocking save and a copying thread.

Adam writes every page of parameters and moments in each step. Before anything is measured, each
way is checked: every checkpoint is the state at its step, and a run that is resumed from one
ends bit-identical with a run that was never interrupted.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import zlib
from pathlib import Path

from heliostat_run import ROOT
from measure import REPORT, Bench, Result
from pictures import checkpoint as picture
from suite.peers import built_wheel

PACKAGE = REPORT / "python"
SCRIPT = ROOT / "bench/python/training.py"
CHECKED = ["save", "thread", "snapshot"]
STALL = "how long the loop stands still for one checkpoint, median of all"
WHOLE = "time of all steps and stalls over the same run without checkpoints, per cent"


def measure(bench: Bench) -> list[Result]:
    """Checks, then measures, then draws target/bench/checkpoint.png."""
    import numpy as np

    install()
    folder = REPORT / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    for way in CHECKED:
        check(bench, way, folder, np)
    is_quick = bench.seconds < 1
    size = ["--hidden", "2048" if is_quick else "8192", "--steps", "11" if is_quick else "21"]
    runs: dict = {way: [] for way in ["none", *CHECKED]}
    for _ in range(2 if is_quick else min(bench.repetitions, 4)):
        for way, found in runs.items():
            found.append(train(bench, way, folder, *size))
            clear(folder)
    (REPORT / "checkpoint-runs.json").write_text(json.dumps(runs))
    picture.draw(runs, REPORT / "checkpoint.png")
    return results(bench, runs)


def install() -> None:
    """The wheel of this tree (or HELIOSTAT_WHEEL), for the training processes alone."""
    wheel = os.environ.get("HELIOSTAT_WHEEL") or built_wheel()
    shutil.rmtree(PACKAGE, ignore_errors=True)
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    answer = subprocess.run([*words, "--target", str(PACKAGE), wheel], capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{wheel} does not install: {answer.stderr.strip()[-500:]}")


def train(bench: Bench, way: str, folder: Path, *more: str) -> dict:
    """One run of the training loop."""
    words = [sys.executable, str(SCRIPT), "train", way, "--folder", str(folder), *more]
    own = {"PYTHONPATH": str(PACKAGE)}
    answer = subprocess.run(
        words, env={**os.environ, **bench.harness.environment(), **own}, capture_output=True, text=True, timeout=200
    )
    if answer.returncode != 0:
        raise RuntimeError(f"training ({way}) ended with {answer.returncode}: {answer.stderr[-1000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def check(bench: Bench, way: str, folder: Path, np) -> None:
    """Each checkpoint is the state at its step, and resuming from the first changes nothing."""
    clear(folder)
    size = ("--hidden", "256", "--steps", "60", "--every", "20", "--digests")
    whole = train(bench, way, folder, *size)
    written = sorted(folder.glob("step-*.npy"))
    steps = [str(int(path.stem.removeprefix("step-"))) for path in written]
    # A version that a newer one overtook while an older one was written is passed over; the last
    # one never is.
    if not steps or steps[-1] != max(whole["digests"], key=int):
        raise RuntimeError(f"{way}: there are checkpoints of steps {steps}, the last is missing")
    for step, path in zip(steps, written):
        if zlib.crc32(np.load(path)) != whole["digests"].get(step):
            raise RuntimeError(f"{way}: the checkpoint of step {step} is not the state of that step")
    if len(steps) < 2:
        raise RuntimeError(f"{way}: only one checkpoint was written, so none can be resumed")
    # The earliest: a run resumed from the last would have nothing left to do.
    resumed = train(bench, "none", folder, *size, "--resume", str(written[0]))
    if resumed["final"] != whole["final"]:
        raise RuntimeError(f"{way}: a resumed run ends differently")
    clear(folder)


def clear(folder: Path) -> None:
    """Removes checkpoints."""
    for path in folder.glob("step-*"):
        path.unlink()


def results(bench: Bench, runs: dict) -> list[Result]:
    """Stalls and whole times, snapshots against both others."""
    stalls = {way: [1e3 * one for run in runs[way] for one in run["stalls"]] for way in CHECKED}
    whole = {
        way: [100 * (total(run) / total(bare) - 1) for run, bare in zip(found, runs["none"])]
        for way, found in runs.items()
    }
    mib = runs["none"][0]["bytes"] >> 20
    rows = []
    for other, called in (("save", "blocking save"), ("thread", "copy and thread")):
        rows.append(
            bench.compare(
                f"{mib} MiB: stall, snapshot vs {called}", stalls["snapshot"], stalls[other], "ms",
                better="less", cores="two cores", note=STALL,
            )
        )  # fmt: skip
        ours, theirs = statistics.median(whole["snapshot"]), statistics.median(whole[other])
        spread = {"ours": [min(whole["snapshot"]), max(whole["snapshot"])]}
        spread["theirs"] = [min(whole[other]), max(whole[other])]
        name = f"{mib} MiB: training slowed, snapshot vs {called}"
        ratio = theirs / max(ours, 0.01)
        rows.append(Result(name, ours, theirs, "%", ratio, None, "", spread, "two cores", WHOLE))
    return rows


def total(run: dict) -> float:
    """Seconds of a run."""
    return sum(run["steps"]) + sum(run["stalls"])
