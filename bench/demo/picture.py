"""The picture of a demo with Redis: grouped bars on a logarithmic axis, each labelled with its ratio to TCP."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

COLOURS = {"TCP": "#9aa5b1", "Unix socket": "#5b8db8", "Heliostat": "#e07b00", "Heliostat, log": "#b84a00"}
BAR_WIDTH = 0.27


def short(value: float) -> str:
    """Three digits of a rate: 820 as it is, 2,630 as 2.63 k, 1,270,000 as 1.27 M."""
    value = float(f"{value:.3g}")
    for unit, letter in ((1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{letter}"
    return f"{value:.3g}"


def draw_bars(axes, entries: list[dict], transport: str, offset: float, told: str) -> None:
    """One transport's bars with spread, rate and ratio."""
    values = [entry["transports"][transport] for entry in entries]
    heights = [value["per_second"] for value in values]
    below = [value["per_second"] - value["lowest"] for value in values]
    above = [value["highest"] - value["per_second"] for value in values]
    places = [index + offset for index in range(len(entries))]
    axes.bar(places, heights, BAR_WIDTH, color=COLOURS[transport], label=told)
    axes.errorbar(places, heights, yerr=[below, above], fmt="none", ecolor="#333333", lw=0.8, capsize=2)
    for place, value, entry in zip(places, values, entries):
        ratio = value["per_second"] / entry["transports"]["TCP"]["per_second"]
        label = short(value["per_second"]) + ("" if transport == "TCP" else f"\n{ratio:.1f}×")
        weight = "bold" if transport.startswith("Heliostat") else "normal"
        axes.text(place, value["highest"] * 1.06, label, ha="center", va="bottom", fontsize=8.5, weight=weight)


def draw(entries: list[dict], title: str, path: Path, ways: dict[str, str] | None = None) -> None:
    """Writes the picture for the demo's summary; `ways` says more of a transport than its name."""
    figure, axes = plt.subplots(figsize=(12, 6), dpi=130)
    transports = list(entries[0]["transports"])
    for number, transport in enumerate(transports):
        draw_bars(axes, entries, transport, (number - (len(transports) - 1) / 2) * BAR_WIDTH, (ways or {}).get(transport, transport))
    axes.set_yscale("log")
    rates = [value for entry in entries for value in entry["transports"].values()]
    axes.set_ylim(min(v["lowest"] for v in rates) / 2, max(v["highest"] for v in rates) * 3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.set_xticks(range(len(entries)))
    axes.set_xticklabels([f"{entry['command']}\n{entry['load'].replace(', ', chr(10))}" for entry in entries])
    axes.set_ylabel("requests per second (logarithmic)")
    axes.set_title(title + "; × is against TCP")
    axes.grid(axis="y", which="major", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left", ncols=len(transports))
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
