"""The store's picture: latencies and pause of each way, one checkpoint in time, throughput, memory."""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {
    "stop": "#9aa5b1", "fork": "#5b8db8", "snapshot": "#f3bd7a",
    "snapshot, copied ahead": "#e07b00", "snapshot every 50 ms": "#7a4dab",
}  # fmt: skip
SHOWN = {"p50_ns": ("o", "median"), "p99_ns": ("s", "99 %"), "p999_ns": ("^", "99.9 %"), "longest_ns": ("_", "longest")}
PACED, FREE = 100e3, 0.0
# Places of 5 ms that are drawn as one.
WIDTH = 4


def draw(runs: list[dict], path: Path) -> None:
    """Writes the picture, of the largest store that was run."""
    mib = max(run["mib"] for run in runs)
    chosen = [run for run in runs if run["mib"] == mib]
    loads = {rate: by_way([run for run in chosen if run["rate"] == rate and not run["watches"]]) for rate in (PACED, FREE)}
    figure = plt.figure(figsize=(15, 13), dpi=120)
    rows = figure.add_gridspec(3, 1, height_ratios=[1.3, 0.8, 1], hspace=0.42)
    tops = [figure.add_subplot(place) for place in rows[0].subgridspec(1, 2, wspace=0.16)]
    for axes, (rate, title) in zip(tops, {PACED: "100,000 operations/s", FREE: "as many operations as it can"}.items()):
        draw_percentiles(axes, loads[rate])
        axes.set_title(f"{mib} MiB, {title}: before (hollow), during a checkpoint (filled)", fontsize=11)
    level(tops)
    draw_times(figure, rows[1].subgridspec(1, len(loads[PACED]), wspace=0.08), loads[PACED])
    below = [figure.add_subplot(place) for place in rows[2].subgridspec(1, 2, wspace=0.16)]
    draw_rate(below[0], loads[FREE])
    draw_memory(below[1], [run for run in chosen if run["watches"]], mib)
    for one in figure.axes:
        one.spines[["top", "right"]].set_visible(False)
        one.grid(alpha=0.3, axis="y")
    figure.savefig(path, bbox_inches="tight")
    plt.close(figure)


def by_way(runs: list[dict]) -> dict:
    """{way: its trials}."""
    found: dict = {}
    for run in runs:
        found.setdefault(run["way"], []).append(run)
    return found


def draw_percentiles(axes, ways: dict) -> None:
    """Medians of the trials' percentiles, and the pause as a red bar with its length."""
    for at, (way, runs) in enumerate(ways.items()):
        for phase, x in (("before", at - 0.17), ("during", at + 0.17)):
            # Who stands still has no operation meanwhile, only those that waited.
            if not all(run[phase]["count"] for run in runs):
                continue
            found = {key: statistics.median(run[phase][key] for run in runs) / 1e6 for key in SHOWN}
            axes.plot([x, x], [found["p50_ns"], found["longest_ns"]], color=COLOURS[way], lw=1)
            for key, (mark, _) in SHOWN.items():
                face = COLOURS[way] if phase == "during" else "white"
                axes.plot(x, found[key], mark, ms=14 if mark == "_" else 7, mec=COLOURS[way], mfc=face)
        pause = pause_ms(way, runs)
        axes.plot([at - 0.36, at + 0.36], [pause, pause], color="#b03030", lw=2.5)
        told = f"{pause:,.0f} ms" if pause >= 10 else f"{pause:.2g} ms"
        axes.annotate(told, (at, pause * 1.15), color="#b03030", fontsize=9, ha="center", va="bottom")
    handles = [plt.Line2D([], [], color="#444444", marker=mark, ls="", label=label) for mark, label in SHOWN.values()]
    handles.append(plt.Line2D([], [], color="#b03030", lw=2.5, label="the server stands still"))
    axes.legend(handles=handles, frameon=False, fontsize=8, ncol=5, loc="upper center", bbox_to_anchor=(0.5, -0.1))
    axes.set_yscale("log")
    axes.set_ylabel("latency of an operation, ms")
    name_ways(axes, list(ways))


def level(axes: list) -> None:
    """The same scale for all of them."""
    ends = [one.get_ylim() for one in axes]
    for one in axes:
        one.set_ylim(min(low for low, _ in ends), max(high for _, high in ends) * 3)


def pause_ms(way: str, runs: list[dict]) -> float:
    """How long it stands still: at the checkpoint, or for the longest of the versions made anyway."""
    of = (run["publishing"]["longest_ns"] if "every" in way else run["pause_ns"] for run in runs)
    return statistics.median(of) / 1e6


def name_ways(axes, ways: list[str]) -> None:
    """Ways below the axis, in two lines where they are long."""
    names = [way.replace("snapshot, ", "snapshot,\n").replace("snapshot every", "snapshot\nevery") for way in ways]
    axes.set_xticks(range(len(ways)), names, fontsize=8)


def draw_times(figure, grid, ways: dict) -> None:
    """The first trial of each way in axes of its own: the longest latency in each 20 ms."""
    first = None
    for at, (way, runs) in enumerate(ways.items()):
        axes = first = figure.add_subplot(grid[at]) if first is None else figure.add_subplot(grid[at], sharey=first)
        run, begun = runs[0], runs[0]["begun_ns"] / 1e9
        step = run["place_ns"] / 1e9
        series = [ns for ns, _ in run["series"]]
        longest = [max(series[place : place + WIDTH]) / 1e6 for place in range(0, len(series), WIDTH)]
        xs = [place * WIDTH * step - begun for place in range(len(longest))]
        axes.step(xs, [value or float("nan") for value in longest], where="post", color=COLOURS[way], lw=1)
        axes.axvspan(0, run["written_ns"] / 1e9 - begun, color=COLOURS[way], alpha=0.15, lw=0)
        axes.set_yscale("log")
        axes.set_title(way, fontsize=9)
        axes.set_xlabel("s from the checkpoint's begin", fontsize=8)
        if at == 0:
            axes.set_ylabel("longest in 20 ms, ms\n(100,000 operations/s;\nshaded: until the file is written)", fontsize=8)
        else:
            axes.tick_params(labelleft=False)


def draw_rate(axes, ways: dict) -> None:
    """Operations per second while the file is written, of those before."""
    shares = [
        [100 * run["during"]["per_second"] / run["before"]["per_second"] for run in runs] for runs in ways.values()
    ]
    seconds = [statistics.median(run["written_ns"] - run["begun_ns"] for run in runs) / 1e9 for runs in ways.values()]
    middles = [statistics.median(one) for one in shares]
    bars = axes.bar(range(len(ways)), middles, color=[COLOURS[way] for way in ways])
    for at, values in enumerate(shares):
        axes.plot([at] * len(values), values, "k_", ms=10)
    axes.bar_label(bars, [f"{middle:.0f} % for {time:.2g} s" for middle, time in zip(middles, seconds)], padding=3, fontsize=8)
    axes.axhline(100, color="#333333", lw=0.8)
    axes.set_ylabel("operations per second, % of before")
    axes.set_title("Throughput until the file is written (as many as it can; trials as dashes)", fontsize=11)
    axes.margins(y=0.12)
    name_ways(axes, list(ways))


def draw_memory(axes, runs: list[dict], mib: int) -> None:
    """Greatest memory of server and writer, in sizes of the store."""
    sizes = [run["memory_peak"] / 2**20 / mib for run in runs]
    bars = axes.bar(range(len(runs)), sizes, color=[COLOURS[run["way"]] for run in runs])
    axes.bar_label(bars, [f"{size:.2f}" for size in sizes])
    axes.axhline(1, color="#333333", lw=0.8)
    axes.set_ylabel("sizes of the store")
    axes.set_title("Greatest memory (Pss) of server and writer (100,000 operations/s)", fontsize=11)
    name_ways(axes, [run["way"] for run in runs])
