"""Parted cores' picture: what each partition makes of each workload, against plain Linux."""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

PLAIN, NONE, CARRIED = "plain", "none", "carried"
# Nothing parted is grey; partitions are blue, and those that carry connections orange, the darker the more cores.
BLUES = ["#9ec3e6", "#5b8db8", "#2f6699", "#143d66"]
ORANGES = ["#f7b267", "#e07b00", "#a85c00", "#6b3a00"]
MARKERS = {"spread": "s", "": "o"}
ROW_INCHES, HEAD_INCHES = 0.16, 1.9


def look(name: str) -> tuple[str, str]:
    """Colour and marker of a partition, by its name: `kernel 2, spread`."""
    if name == NONE:
        return "#777777", "D"
    cores = int(name.split(",")[0].removeprefix("kernel ")) - 1
    shades = ORANGES if CARRIED in name else BLUES
    return shades[cores % len(shades)], MARKERS["spread" if "spread" in name else ""]


def draw(rounds: dict, path: Path) -> None:
    """Writes the picture; `rounds` is {workload: {partition: [sample, ...]}}, with plain Linux's own."""
    arms = list(dict.fromkeys(name for found in rounds.values() for name in found if name != PLAIN))
    height = HEAD_INCHES + ROW_INCHES * (len(arms) + 2) * len(rounds)
    figure, axes = plt.subplots(figsize=(10, height), dpi=120)
    named: set[str] = set()
    for place, found in enumerate(rounds.values()):
        plain = statistics.median(found[PLAIN])
        for number, name in enumerate(arms):
            if name in found:
                point(axes, [one / plain for one in found[name]], place + (number + 1) / (len(arms) + 1) - 0.5, name, name not in named)
                named.add(name)
        low, high = min(found[PLAIN]) / plain, max(found[PLAIN]) / plain
        axes.fill_betweenx([place - 0.45, place + 0.45], low, high, color="#dddddd", lw=0, label="plain, least to most" if place == 0 else None)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_yticks(range(len(rounds)), list(rounds), fontsize=9)
    axes.set_ylim(len(rounds) - 0.5, -0.5)
    axes.set_xlabel("times plain Linux: median, least to most (right of 1 is better)")
    axes.set_title("Cores parted between programs and the kernel's work; clients in another network namespace", fontsize=10)
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def point(axes, ratios: list[float], at: float, name: str, is_named: bool) -> None:
    """One partition of one workload: its median, and a bar from the least to the most."""
    middle = statistics.median(ratios)
    colour, marker = look(name)
    bar = [[middle - min(ratios)], [max(ratios) - middle]]
    label = called(name) if is_named else None
    axes.errorbar(middle, at, xerr=bar, fmt=marker, color=colour, ms=5, lw=1.2, capsize=2, label=label)


def called(name: str) -> str:
    """A partition as its reader calls it: `2 kernel cores, spread`."""
    if name == NONE:
        return "nothing parted"
    count, *how = name.removeprefix("kernel ").split(",")
    return ",".join([f"{count} kernel core{'s' if count != '1' else ''}", *how])
