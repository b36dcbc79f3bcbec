"""One page of Solros's figures, as they come out here; its numbers are the paper's own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from measure import REPORT  # noqa: E402
from records import files  # noqa: E402

COLOURS = {"lean": "#e07b00", "own stack": "#5b8db8", "staged": "#3f7d4e", "host": "#9aa5b1"}
PAIRS = re.compile(r"pairs 64 B, (\d+) threads, vs two-lock (mcs|ticket)$")
COPY = re.compile(r"copy (\d+) B, nontemporal vs memcpy$")
SEARCH = re.compile(r"(text indexing|image search), (\d+) workers, lean vs (own stack|staged|host): rate$")


def newest(benchmark: str) -> list[dict]:
    """The results of a benchmark's newest record, or of its last run where none is; none where it never ran."""
    records = [record for record in files.read_all() if record.benchmark == benchmark]
    if records:
        return records[0].results
    run = REPORT / f"{benchmark}.json"
    return json.loads(run.read_text()) if run.exists() else []


def by_threads(axes, told: dict) -> None:
    """Figure 8: pairs of enqueue and dequeue."""
    lines: dict[str, list[tuple[int, float]]] = {}
    for row in newest("ring"):
        if found := PAIRS.match(row["name"]):
            if found[2] == "mcs":
                lines.setdefault("combining", []).append((int(found[1]), row["ours"]))
            lines.setdefault(f"two locks, {found[2]}", []).append((int(found[1]), row["theirs"]))
    for (name, points), colour in zip(lines.items(), COLOURS.values()):
        axes.plot(*zip(*sorted(points)), "o-", color=colour, label=name)
    finish(axes, "8: enqueue and dequeue of 64 B", "threads", "thousand pairs/s")


def copies(axes, told: dict) -> None:
    """Figures 4 and 10: two ways to copy."""
    found = [(int(match[1]), row) for row in newest("ring") if (match := COPY.match(row["name"]))]
    for key, name, colour in (("ours", "past the caches", COLOURS["lean"]), ("theirs", "memcpy", COLOURS["host"])):
        # Bytes in a nanosecond are GB in a second.
        axes.plot([size for size, _ in found], [size / row[key] for size, row in found], "o-", color=colour, label=name)
    finish(axes, "4, 10: two engines to copy", "bytes of a copy", "GB/s", is_log=False)


def control_words(axes, told: dict) -> None:
    """Figure 9: how often the other side's words are read."""
    for row in newest("ring"):
        if "lazy vs eager" in row["name"]:
            axes.bar(["lazy", "eager"], [row["ours"], row["theirs"]], 0.5, color=["#e07b00", "#9aa5b1"])
            axes.set_ylabel(f"messages of 64 B, {row['unit']}", fontsize=8)
    axes.set_title("9: control words read lazily", fontsize=10)


def blocks(kind: str, number: int):
    """Figures 11 and 12: random blocks, most threads."""

    def draw(axes, told: dict) -> None:
        rows = [row for row in told["files"] if row["arm"][1] == kind]
        most = max(row["arm"][3] for row in rows)
        for way, colour in COLOURS.items():
            points = sorted((row["arm"][2], row["bytes_s"] / 1e9) for row in rows if row["arm"][0] == way and row["arm"][3] == most)
            axes.plot(*zip(*points), "o-", color=colour, label=way)
        finish(axes, f"{number}: random {kind}, {counted(most, 'thread')}", "bytes of a block", "GB/s")

    return draw


def parts(axes, told: dict) -> None:
    """Figure 13: whose CPU a message of 64 bytes takes."""
    rows = [row for row in told["messages"] if row["arm"][1] == 64]
    most = max(row["arm"][2] for row in rows)
    chosen = {row["arm"][0]: row for row in rows if row["arm"][2] == most}
    for place, (way, row) in enumerate(chosen.items()):
        axes.bar(place, row["worker_us"], 0.6, color=COLOURS[way])
        axes.bar(place, row["host_us"], 0.6, row["worker_us"], color=COLOURS[way], alpha=0.4, hatch="//")
    axes.set_xticks(range(len(chosen)), list(chosen), fontsize=8)
    axes.set_ylabel("us of CPU: worker, host (hatched)", fontsize=8)
    axes.set_title(f"13: CPU of one message of 64 B, {counted(most, 'connection')}", fontsize=10)


def latencies(place: int, number: int, what: str):
    """Figures 14 and 15: the 99th per cent by size, or by connections."""

    def draw(axes, told: dict) -> None:
        other = 3 - place
        fixed = (min if place == 2 else max)(row["arm"][other] for row in told["messages"])
        for way, colour in COLOURS.items():
            chosen = [row for row in told["messages"] if row["arm"][0] == way and row["arm"][other] == fixed]
            if points := sorted((row["arm"][place], row["p99_us"]) for row in chosen):
                axes.plot(*zip(*points), "o-", color=colour, label=way)
        beside = counted(fixed, "connection") if place == 1 else f"{fixed} B"
        finish(axes, f"{number}: echo, 99th percentile, {beside}", what, "us")

    return draw


def search(what: str, number: str):
    """Figures 16 to 20: applications by the number of workers."""

    def draw(axes, told: dict) -> None:
        lines: dict[str, dict[int, float]] = {}
        for row in newest("coprocessor"):
            found = SEARCH.match(row["name"])
            if found and found[1] == what:
                lines.setdefault("lean", {})[int(found[2])] = row["ours"]
                lines.setdefault(found[3], {})[int(found[2])] = row["theirs"]
        for way, points in lines.items():
            axes.plot(*zip(*sorted(points.items())), "o-", color=COLOURS[way], label=way)
        if lines:
            axes.set_xticks(sorted({count for points in lines.values() for count in points}))
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
    copies, by_threads, control_words, blocks("read", 11), blocks("write", 12), parts,
    latencies(1, 14, "bytes"), latencies(2, 15, "connections"), search("text indexing", "16, 17"), search("image search", "18 to 20"),
]  # fmt: skip


def draw(told: dict, path: Path) -> None:
    """Writes the page."""
    figure, places = plt.subplots(4, 3, figsize=(14, 15), dpi=110)
    for axes, panel in zip(places.flat, PANELS):
        panel(axes, told)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    for axes in places.flat[len(PANELS) :]:
        axes.set_visible(False)
    figure.suptitle("Solros's figures on this machine: workers are processes, a message through a relay stands for PCIe")
    figure.tight_layout(rect=(0, 0, 1, 0.985))
    figure.savefig(path)
    plt.close(figure)
