"""The comparison as a table for people: `report.py FILE [PICTURE]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from arms import ARMS
from summary import Row, named, per_page_us, read_gb_s, rows

HEADINGS = (
    "arm", "write us/page", "publish ms", "min..max", "write+publish", "its CPU ms", "(ratio)",
    "first use us", "read GB/s", "1 % ms", "latency ms", "steps/s", "seen/s", "MiB",
)  # fmt: skip


def number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def scaled(one: Row, key: str, unit: float) -> str:
    value = one.median(key)
    return number(value / unit if value is not None else None)


def ratio(one: Row, ours: Row | None, key: str) -> str:
    """How many times Heliostat's write and publish together this arm's take."""
    theirs, mine = one.median(key), ours.median(key) if ours else None
    return f"{theirs / mine:.2f}x" if theirs and mine else "-"


def line(one: Row, all_rows: list[Row]) -> list[str]:
    """One arm's cells."""
    if one.missing:
        return [one.arm, f"missing: {one.missing}"]
    alone = named(all_rows, "nothing", one.size_mib, one.pattern)
    ours = named(all_rows, "heliostat", one.size_mib, one.pattern)
    spread = one.figures["publish_ns"]
    torn = f" ({one.torn} TORN)" if one.torn else ""
    return [
        one.arm + torn, number(per_page_us(one, alone)), scaled(one, "publish_ns", 1e6),
        f"{number(spread.low / 1e6)}..{number(spread.high / 1e6)}", ratio(one, ours, "cycle_ns"),
        scaled(one, "cycle_cpu_ns", 1e6), ratio(one, ours, "cycle_cpu_ns"),
        scaled(one, "first_ns", 1e3), number(read_gb_s(one)), scaled(one, "part_ns", 1e6),
        scaled(one, "latency_ns", 1e6), scaled(one, "steps_per_s", 1), scaled(one, "seen_per_s", 1),
        scaled(one, "memory_bytes", 1 << 20),
    ]  # fmt: skip


def columns(lines: list[list[str]]) -> str:
    """Lines in columns; a line with fewer cells runs on."""
    full = [cells for cells in lines if len(cells) == len(HEADINGS)]
    widths = [max(len(cells[at]) for cells in full) for at in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()
        for cells in lines
    )


def table(all_rows: list[Row]) -> str:
    """One table per size and pattern, and what each arm was set to."""
    cells = dict.fromkeys((one.size_mib, one.pattern) for one in all_rows)
    parts = []
    for size, pattern in cells:
        here = [one for one in all_rows if (one.size_mib, one.pattern) == (size, pattern)]
        lines = [list(HEADINGS), *(line(one, all_rows) for one in here)]
        parts.append(f"{size} MiB, {pattern} written per step\n{columns(lines)}")
    said = [f"{name}: {arm.settings}" for name, arm in ARMS.items()]
    return "\n\n".join([*parts, "\n".join(said)])


def draw(all_rows: list[Row], path: Path) -> None:
    """Write and publish together, a panel per size and pattern, with the spread of publish."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [one for one in all_rows if one.median("cycle_ns") and one.arm != "nothing"]
    cells = list(dict.fromkeys((one.size_mib, one.pattern) for one in shown))
    figure, axes = pyplot.subplots(1, len(cells), figsize=(3.2 * len(cells), 4), sharey=False)
    for panel, (size, pattern) in zip([axes] if len(cells) == 1 else axes, cells):
        here = [one for one in shown if (one.size_mib, one.pattern) == (size, pattern)][::-1]
        spans = [one.figures["cycle_ns"] for one in here]
        middles = [span.median / 1e6 for span in spans]
        errors = [
            [(span.median - span.low) / 1e6 for span in spans],
            [(span.high - span.median) / 1e6 for span in spans],
        ]
        colours = ["tab:orange" if one.arm == "heliostat" else "tab:gray" for one in here]
        panel.barh([one.arm for one in here], middles, xerr=errors, color=colours)
        panel.set_title(f"{size} MiB, {pattern}", fontsize=9)
        panel.set_xlabel("write + publish, ms", fontsize=8)
        panel.set_xscale("log")
        panel.tick_params(labelsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main() -> None:
    found = rows(json.loads(Path(sys.argv[1]).read_text()))
    print(table(found))
    if len(sys.argv) > 2:
        draw(found, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
