"""The sweep's picture: overhead per size and way, write faults, and small regions."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

from pictures.spread import lines  # noqa: E402

COLOURS = {
    "own data": "#9aa5b1", "snapshot": "#e07b00", "snapshot, whole": "#f3bd7a",
    "spin lock": "#5b8db8", "copy": "#6aa56a",
}  # fmt: skip
LABELS = {"own data": "analysis of own data (control)"}
FAULTS = {"not watched": "#9aa5b1", "watched, first write": "#e07b00", "after fork": "#5b8db8"}


def draw(groups: dict, found: dict, path: Path) -> None:
    """Writes the picture."""
    figure, axes = plt.subplots(2, 2, figsize=(13, 9), dpi=120)
    for place, cores in zip(axes[0], ("two cores", "one core")):
        draw_overheads(place, {cells: ways for (cells, on), ways in groups.items() if on == cores}, cores)
    draw_faults(axes[1][0], found["faults"])
    draw_small(axes[1][1], found["small"])
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.3)
        one.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def draw_overheads(axes, sizes: dict, cores: str) -> None:
    """Overhead over the run alone; grey is the analysis itself, without any sharing."""
    lines(axes, {way: shares(sizes, way) for way in COLOURS}, COLOURS, LABELS)
    axes.axhline(1, color="#b03030", lw=0.8, ls="--", label="aim: 1 %")
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=5)
    axes.set_xlabel("cells (24 groups; 32 directions, 8 beyond 6,144 cells)")
    axes.set_ylabel("added to a step, %")
    axes.set_title(f"Sweep and analysis on {cores}: what sharing adds (median, extremes)")


def shares(sizes: dict, way: str) -> dict:
    """By size, what sharing added in each trial of `way`, in per cent of a step."""
    return {cells: [100 * one["over_ns"] / one["step_ns"] for one in ways[way]] for cells, ways in sorted(sizes.items())}


def draw_faults(axes, faults: dict) -> None:
    """Distribution of the time of one write."""
    for name, colour in FAULTS.items():
        bins, writes = faults[name]["bins"], faults[name]["writes"]
        xs = [10 ** (bin / faults["bins_per_decade"]) for bin in range(len(bins))]
        label = f"{name} ({faults[name]['faults_per_write']:.2f} faults per write)"
        axes.step(xs, [100 * count / writes for count in bins], where="post", color=colour, label=label)
    axes.set_xscale("log")
    axes.set_xlim(10, 1e5)
    axes.set_xlabel("time of the first write to a page, ns")
    axes.set_ylabel("share of writes per bin, %")
    axes.set_title("What a write costs (64 MiB, every fifth page)")


def draw_small(axes, rows: list[dict]) -> None:
    """Cost of a version of a small region: watching against copying it whole."""
    for wrote, style in (("one page", ":"), ("a tenth", "--"), ("everything", "-")):
        at = {"one page": 0, "a tenth": 1, "everything": 2}[wrote]
        chosen = rows[at::3]
        kib = [row["bytes"] / 1024 for row in chosen]
        for key, colour in (("watched_ns", "#e07b00"), ("whole_ns", "#5b8db8")):
            label = f"{'watched' if key == 'watched_ns' else 'copied whole'}, {wrote} written"
            axes.plot(kib, [row[key] / 1e3 for row in chosen], style, color=colour, label=label)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("region, KiB")
    axes.set_ylabel("processor time of a version, us")
    axes.set_title("Small regions: watching pages or copying everything")
