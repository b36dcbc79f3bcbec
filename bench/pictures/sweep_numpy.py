"""The NumPy sweep's picture: what sharing adds to a step, and how long the producer's call lasts."""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from pictures.spread import lines  # noqa: E402
from pictures.sweep import COLOURS, LABELS, shares  # noqa: E402

WAYS = ["own data", "snapshot", "spin lock", "copy"]


def draw(groups: dict, path: Path) -> None:
    """Writes the picture."""
    figure, axes = plt.subplots(1, 3, figsize=(17, 5), dpi=120)
    for place, cores in zip(axes, ("two cores", "one core")):
        sizes = {cells: ways for (cells, on), ways in sorted(groups.items()) if on == cores}
        lines(place, {way: shares(sizes, way) for way in WAYS}, COLOURS, LABELS)
        place.axhline(1, color="#b03030", lw=0.8, ls="--", label="aim: 1 %")
        place.set_yscale("symlog", linthresh=5)
        place.set_ylabel("added to a step, %")
        place.set_title(f"NumPy sweep and analysis on {cores}: what sharing adds (median, extremes)")
    draw_calls(axes[2], {cells: ways for (cells, on), ways in sorted(groups.items()) if on == "two cores"})
    for one in axes:
        one.set_xscale("log")
        one.set_xlabel("cells (24 groups; 32 directions, 8 beyond 6,144 cells)")
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.3)
        one.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def draw_calls(axes, sizes: dict) -> None:
    """Time of the producer's call, beside that of the step."""

    def calls(way: str) -> dict:
        return {cells: [one["shared_ns"] / 1e3 for one in ways[way]] for cells, ways in sizes.items()}

    lines(axes, {way: calls(way) for way in WAYS}, COLOURS, LABELS)
    steps = {cells: [one["step_ns"] / 1e3 for one in ways["own data"]] for cells, ways in sizes.items()}
    axes.plot(list(steps), [statistics.median(one) for one in steps.values()], "k:", label="a whole step")
    axes.set_yscale("log")
    axes.set_ylabel("microseconds")
    axes.set_title("The producer's call that shares, two cores (median, extremes)")
