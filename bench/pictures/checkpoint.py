"""The training loop's picture: each step's time with its stall, and stalls by way."""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"none": "#333333", "save": "#9aa5b1", "thread": "#5b8db8", "snapshot": "#e07b00"}
CALLED = {"none": "no checkpoints", "save": "blocking save", "thread": "copy, thread writes", "snapshot": "snapshot"}


def draw(runs: dict, path: Path) -> None:
    """Writes the picture."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), dpi=120)
    every = len(runs["save"][0]["steps"]) // max(len(runs["save"][0]["stalls"]), 1)
    for way, found in runs.items():
        run = found[0]
        left.plot(clock(run, every), range(1, len(run["steps"]) + 1), "o-", ms=3, color=COLOURS[way], label=CALLED[way])
    left.set_xlabel("seconds")
    left.set_ylabel("steps done")
    left.set_title(f"Training with a checkpoint of {runs['none'][0]['bytes'] >> 20} MiB every {every} steps")
    left.legend(frameon=False)
    ways = [way for way in runs if way != "none"]
    stalls = [[1e3 * one for run in runs[way] for one in run["stalls"]] for way in ways]
    bars = right.bar([CALLED[way] for way in ways], [statistics.median(one) for one in stalls],
                     color=[COLOURS[way] for way in ways])  # fmt: skip
    for at, values in enumerate(stalls):
        right.plot([at] * len(values), values, "k_", ms=10)
    right.bar_label(bars, fmt="%.0f ms")
    right.set_yscale("log")
    right.set_ylabel("stall per checkpoint, ms (median, all as dashes)")
    for one in (left, right):
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def clock(run: dict, every: int) -> list[float]:
    """When each step was done, stalls included."""
    now, found, stalls = 0.0, [], iter(run["stalls"])
    for at, seconds in enumerate(run["steps"], 1):
        now += seconds + (next(stalls, 0.0) if at % every == 0 else 0.0)
        found.append(now)
    return found
