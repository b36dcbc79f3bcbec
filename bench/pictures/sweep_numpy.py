"""The NumPy sweep's picture: what sharing adds to a step, and how long the producer's call lasts."""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from pictures.sweep import COLOURS  # noqa: E402

WAYS = {"own data": "analysis of own data (control)", "snapshot": "snapshot", "spin lock": "spin lock", "copy": "copy"}


def draw(groups: dict, path: Path) -> None:
    """Writes the picture."""
    figure, axes = plt.subplots(1, 3, figsize=(17, 5), dpi=120)
    for place, cores in zip(axes, ("two cores", "one core")):
        sizes = {cells: ways for (cells, on), ways in sorted(groups.items()) if on == cores}
        draw_shares(place, sizes, "over_ns")
        place.axhline(1, color="#b03030", lw=0.8, ls="--", label="aim: 1 %")
        place.set_yscale("symlog", linthresh=5)
        place.set_ylabel("added to a step, %")
        place.set_title(f"NumPy sweep and analysis on {cores}: what sharing adds")
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


def draw_shares(axes, sizes: dict, of: str) -> None:
    """Per cent of a step by size and way: median of the trials, bars from the least to the greatest."""
    for number, (way, label) in enumerate(WAYS.items()):
        values = {cells: [100 * one[of] / one["step_ns"] for one in ways[way]] for cells, ways in sizes.items()}
        points(axes, values, way, label, number)


def draw_calls(axes, sizes: dict) -> None:
    """Time of the producer's call, beside that of the step."""
    for number, (way, label) in enumerate(WAYS.items()):
        values = {cells: [one["shared_ns"] / 1e3 for one in ways[way]] for cells, ways in sizes.items()}
        points(axes, values, way, label, number)
    steps = {cells: [one["step_ns"] / 1e3 for one in ways["own data"]] for cells, ways in sizes.items()}
    axes.plot(list(steps), [statistics.median(one) for one in steps.values()], "k:", label="a whole step")
    axes.set_yscale("log")
    axes.set_ylabel("microseconds")
    axes.set_title("The producer's call that shares, two cores")


def points(axes, values: dict, way: str, label: str, number: int) -> None:
    """One way's line."""
    middles = [statistics.median(one) for one in values.values()]
    below = [middle - min(one) for middle, one in zip(middles, values.values())]
    above = [max(one) - middle for middle, one in zip(middles, values.values())]
    places = [cells * 1.06 ** (number - 1.5) for cells in values]
    axes.errorbar(
        places, middles, yerr=[below, above], fmt="o-", color=COLOURS[way], ms=4, lw=1.2, capsize=2,
        label=f"{label} (median, extremes)" if number == 0 else label,
    )  # fmt: skip
