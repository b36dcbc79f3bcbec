"""Contention's picture: probability, efficiency and rate by threads, a line for each way."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from pictures import spread  # noqa: E402

SHOWN = (
    ("probability", "contentions a call, %"),
    ("efficiency", "hold / (hold + wait), %"),
    ("rate", "calls/s"),
    ("p99_ns", "p99 of a call, ns"),
)
COLOURS = ["#333333", "#e07b00", "#5b8db8", "#6aa56a", "#a15bb8", "#b85b5b", "#9aa5b1", "#b8a15b"]


def draw(runs: dict, path: Path) -> None:
    """Writes the picture; `runs` is {threads: {way: [run, ...]}}."""
    shown = [(key, called) for key, called in SHOWN if all_have(runs, key)]
    figure, all_axes = plt.subplots(1, len(shown), figsize=(4.2 * len(shown), 3.8), dpi=120, squeeze=False)
    names = list(next(iter(runs.values())))
    colours = dict(zip(names, COLOURS * 4))
    for axes, (key, called) in zip(all_axes[0], shown):
        series = {
            way: {threads: [run[key] for run in ways[way]] for threads, ways in runs.items()} for way in names
        }
        spread.lines(axes, series, colours, {})
        axes.set_xscale("log", base=2)
        axes.set_xticks(list(runs), [str(threads) for threads in runs], fontsize=7)
        axes.set_xlabel("threads")
        axes.set_title(called, fontsize=9)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0][-1].set_yscale("log")
    all_axes[0][0].legend(frameon=False, fontsize=7)
    figure.suptitle("Files of one folder opened, made and removed by many threads: median, least to most", fontsize=10)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def all_have(runs: dict, key: str) -> bool:
    return all(key in run for ways in runs.values() for found in ways.values() for run in found)
