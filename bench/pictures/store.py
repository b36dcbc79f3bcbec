"""The store's picture: latency over time around a checkpoint, pauses, and memory."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {
    "stop": "#9aa5b1", "fork": "#5b8db8", "snapshot": "#f3bd7a",
    "snapshot, copied ahead": "#e07b00", "snapshot every 50 ms": "#7a4dab",
}  # fmt: skip


def draw(runs: list[dict], path: Path) -> None:
    """Writes the picture, of the largest store that was run."""
    mib = max(run["mib"] for run in runs)
    chosen = [run for run in runs if run["mib"] == mib]
    figure, axes = plt.subplots(2, 2, figsize=(13, 9), dpi=120)
    titles = {100e3: "100,000 operations/s", 0.0: "as many operations as it can"}
    for place, (rate, title) in zip(axes[0], titles.items()):
        draw_latency(place, [run for run in chosen if run["rate"] == rate and not run["watches"]])
        place.set_title(f"{mib} MiB, {title}: longest latency in each 5 ms")
    draw_rate(axes[1][0], [run for run in chosen if run["rate"] == 0.0 and not run["watches"]])
    draw_memory(axes[1][1], [run for run in chosen if run["watches"]], mib)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def firsts(runs: list[dict]) -> dict:
    """The first trial of each way."""
    found: dict = {}
    for run in runs:
        found.setdefault(run["way"], run)
    return found


def draw_latency(axes, runs: list[dict]) -> None:
    """Longest latency per place in time; a line marks the end of writing."""
    for way, run in firsts(runs).items():
        step = run["place_ns"] / 1e9
        begun = run["begun_ns"] / 1e9
        points = [(at * step - begun, max(ns, 1) / 1e6) for at, (ns, count) in enumerate(run["series"]) if count]
        axes.plot(*zip(*points), color=COLOURS[way], lw=0.9, label=way)
        axes.axvline(run["written_ns"] / 1e9 - begun, color=COLOURS[way], ls=":", lw=1)
    axes.set_yscale("log")
    axes.set_xlabel("seconds from the checkpoint's begin; dotted: the file is on the disk")
    axes.set_ylabel("latency, ms")
    axes.legend(frameon=False, fontsize=8)


def draw_rate(axes, runs: list[dict]) -> None:
    """Operations per second over time."""
    for way, run in firsts(runs).items():
        step, begun = run["place_ns"] / 1e9, run["begun_ns"] / 1e9
        width = 5
        counts = [count for _, count in run["series"]]
        sums = [sum(counts[at : at + width]) / width / step / 1e6 for at in range(0, len(counts), width)]
        axes.plot([at * width * step - begun for at in range(len(sums))], sums, color=COLOURS[way], lw=1, label=way)
    axes.set_xlabel("seconds from the checkpoint's begin")
    axes.set_ylabel("million operations per second")
    axes.set_title("Throughput around a checkpoint")
    axes.legend(frameon=False, fontsize=8)


def draw_memory(axes, runs: list[dict], mib: int) -> None:
    """Greatest memory of server and writer, in sizes of the store."""
    ways = [run["way"].replace("snapshot, ", "snapshot,\n").replace("snapshot every", "snapshot\nevery") for run in runs]
    sizes = [run["memory_peak"] / 2**20 / mib for run in runs]
    bars = axes.bar(ways, sizes, color=[COLOURS[run["way"]] for run in runs])
    axes.bar_label(bars, [f"{size:.2f}" for size in sizes])
    axes.axhline(1, color="#333333", lw=0.8)
    axes.set_ylabel("peak Pss of server and writer, in sizes of the store")
    axes.set_title("Memory (100,000 operations/s)")
    axes.tick_params(axis="x", labelsize=8)
