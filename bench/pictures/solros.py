"""One page of Solros's figures, as they come out here; its numbers are the paper's own."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from records import plots  # noqa: E402
from records.solros import HOST_CPU, P99, RATE, WAYS, WORKER_CPU, Figures  # noqa: E402

COLOURS = {"lean": "#e07b00", "own stack": "#5b8db8", "staged": "#3f7d4e", "host": "#9aa5b1"}
Panel = Callable[[plt.Axes, Figures], None]


def lines(axes: plt.Axes, rows: dict[int, dict[str, float]], scale: float = 1.0) -> None:
    """A line for each way, by what the rows are counted in."""
    ways = dict.fromkeys(way for row in rows.values() for way in row)
    for way, colour in zip(ways, COLOURS.values()):
        points = sorted((at, row[way] * scale) for at, row in rows.items() if way in row)
        axes.plot(*zip(*points), "o-", color=COLOURS.get(way, colour), label=way)


def by_threads(axes: plt.Axes, found: Figures) -> None:
    """Figure 8: pairs of enqueue and dequeue."""
    lines(axes, found.pairs)
    finish(axes, "8: enqueue and dequeue of 64 B", "threads", "thousand pairs/s")


def copies(axes: plt.Axes, found: Figures) -> None:
    """Figures 4 and 10: two ways to copy."""
    # Bytes in a nanosecond are GB in a second.
    lines(axes, {size: {way: size / row[way] for way in row} for size, row in found.copies.items()})
    finish(axes, "4, 10: two engines to copy", "bytes of a copy", "GB/s", is_log=False)


def control_words(axes: plt.Axes, found: Figures) -> None:
    """Figure 9: how often the other side's words are read."""
    axes.bar(list(found.control_words), list(found.control_words.values()), 0.5, color=["#e07b00", "#9aa5b1"])
    axes.set_ylabel("million messages of 64 B/s", fontsize=8)
    axes.set_title("9: control words read lazily, or each time", fontsize=10)


def blocks(kind: str, number: int) -> Panel:
    """Figures 11 and 12: random blocks, most threads."""

    def draw(axes: plt.Axes, found: Figures) -> None:
        rows = {key: row for key, row in found.files.items() if (key[0], key[3]) == (kind, RATE)}
        most = max((key[2] for key in rows), default=0)
        lines(axes, {key[1] << 10: row for key, row in rows.items() if key[2] == most}, 1e-3)
        finish(axes, f"{number}: random {kind}, {counted(most, 'thread')}", "bytes of a block", "GB/s")

    return draw


def shares(axes: plt.Axes, found: Figures, bars: list[tuple[str, dict[str, float], bool]], title: str) -> None:
    """Bars of CPU by way, one above the other: (which part, by way, whether it is the host's)."""
    ways = [way for way in WAYS if any(way in row for _, row, _ in bars)]
    below = dict.fromkeys(ways, 0.0)
    for part, row, is_host in bars:
        values = [row.get(way, 0.0) for way in ways]
        axes.bar(ways, values, 0.6, list(below.values()), color=[COLOURS[way] for way in ways], alpha=0.4 if is_host else 1, hatch="//" if is_host else "")
        below = {way: below[way] + value for way, value in zip(ways, values)}
    axes.set_ylabel("us of CPU: " + ", ".join(f"{part} (hatched)" if is_host else part for part, _, is_host in bars), fontsize=8)
    axes.set_title(title, fontsize=10)


def file_parts(axes: plt.Axes, found: Figures) -> None:
    """Figure 13 (a): the host's CPU for one block."""
    rows = {key: row for key, row in found.files.items() if (key[0], key[1], key[3]) == ("read", 512, HOST_CPU)}
    least = min(rows, key=lambda key: key[2], default=None)
    shares(axes, found, [("host", rows.get(least, {}), True)], "13 (a): host's CPU of one read of 512 KiB")


def message_parts(axes: plt.Axes, found: Figures) -> None:
    """Figure 13 (b): whose CPU a message of 64 bytes takes."""
    most = max((key[1] for key in found.echoes if key[0] == 64), default=0)
    parts = [("worker", found.echoes.get((64, most, WORKER_CPU), {}), False), ("host", found.echoes.get((64, most, HOST_CPU), {}), True)]
    shares(axes, found, parts, f"13 (b): CPU of one message of 64 B, {counted(most, 'connection')}")


def latencies(place: int, number: int, what: str) -> Panel:
    """Figures 14 and 15: the 99th per cent by size, or by connections."""

    def draw(axes: plt.Axes, found: Figures) -> None:
        rows = {key: row for key, row in found.echoes.items() if key[2] == P99}
        other = 1 - place
        fixed = (max if place == 0 else min)((key[other] for key in rows), default=0)
        lines(axes, {key[place]: row for key, row in rows.items() if key[other] == fixed})
        beside = counted(fixed, "connection") if place == 0 else f"{fixed} B"
        finish(axes, f"{number}: echo, 99th percentile, {beside}", what, "us")

    return draw


def search(what: str, number: str) -> Panel:
    """Figures 16 to 20: applications by the number of workers."""

    def draw(axes: plt.Axes, found: Figures) -> None:
        rows = {key[1]: row for key, row in found.searches.items() if (key[0], key[2]) == (what, RATE)}
        lines(axes, rows)
        axes.set_xticks(sorted(rows))
        finish(axes, f"{number}: {what}", "workers", "each second", is_swept=False, is_log=False)

    return draw


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def finish(axes, title: str, across: str, up: str, is_swept: bool = True, is_log: bool = True) -> None:
    """Names and scales: what is swept doubles from tick to tick, and values are far apart."""
    if not axes.lines:
        axes.text(0.5, 0.5, "not measured", ha="center", transform=axes.transAxes)
    elif is_log:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    if is_swept:
        axes.set_xscale("log", base=2)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(across, fontsize=8)
    axes.set_ylabel(up, fontsize=8)
    if axes.lines:
        axes.legend(frameon=False, fontsize=7)


PANELS = [
    copies, by_threads, control_words, blocks("read", 11), blocks("write", 12), file_parts, message_parts,
    latencies(0, 14, "bytes"), latencies(1, 15, "connections"), search("text indexing", "16, 17"), search("image search", "18 to 20"),
]  # fmt: skip


def draw(found: Figures, path: Path) -> None:
    """Draws all panels; an SVG is the same each time that its figures are."""
    figure, places = plt.subplots(4, 3, figsize=(14, 15), dpi=110)
    for axes, panel in zip(places.flat, PANELS):
        panel(axes, found)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    for axes in places.flat[len(PANELS) :]:
        axes.set_visible(False)
    figure.suptitle("Solros's figures on this machine: workers are processes, a message through a relay stands for PCIe")
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    plots.save(figure, path)
    plt.close(figure)
