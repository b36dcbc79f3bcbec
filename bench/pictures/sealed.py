"""The sandboxes' picture: speed of each workload in each, as a multiple of plain Linux's."""

from __future__ import annotations

import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"sealed": "#e07b00", "bwrap": "#6aa56a", "proot": "#5b8db8", "runsc": "#9aa5b1"}
CALLED = {
    "sealed": "heliostat run --sealed", "bwrap": "bubblewrap (namespaces)", "proot": "proot (no fence)",
    "runsc": "gVisor's runsc of 2022-12, ptrace",
}  # fmt: skip


def draw(rows: list[dict], path: Path) -> None:
    """Writes the picture; a row is {called, better, is_speed, series: {way: [figure, ...]}}."""
    rows = [row for row in rows if row["is_speed"] and row["series"].keys() > {"plain"}]
    figure, axes = plt.subplots(figsize=(11, 1.5 + 0.55 * len(rows)), dpi=120)
    for number, (way, colour) in enumerate(COLOURS.items()):
        bars = [(at, speed(row, way)) for at, row in enumerate(rows) if row["series"].get(way)]
        if not bars:
            continue
        places, widths = [at + 0.2 * (number - 1.5) for at, _ in bars], [width for _, width in bars]
        drawn = axes.barh(places, [width - 1 for width in widths], left=1, height=0.18, color=colour, label=CALLED[way])
        axes.bar_label(drawn, [f"{width:.2g}x" for width in widths], fontsize=6, padding=2)
    axes.set_xscale("log")
    axes.axvline(1, color="#333333", lw=0.8)
    axes.set_yticks(range(len(rows)), [row["called"] for row in rows], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlabel("speed, plain Linux = 1 (median; right is faster)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.3, axis="x")
    if rows:
        axes.legend(frameon=False, fontsize=8, loc="best")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)


def speed(row: dict, way: str) -> float:
    """How many times as fast as plain Linux."""
    ours, plain = statistics.median(row["series"][way]), statistics.median(row["series"]["plain"])
    return ours / plain if row["better"] == "more" else plain / ours
