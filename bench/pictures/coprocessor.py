"""The co-processors' picture: rates by the number of workers, and CPU of each text and query."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.lines import Line2D  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

COLOURS = {"lean": "#e07b00", "own stack": "#5b8db8", "staged": "#3f7d4e", "host": "#9aa5b1"}
TOLD = {
    "lean": "lean: Heliostat, files and connections by shared memory",
    "own stack": "own stack: each worker has a cache of its own, and fetches blocks by messages",
    "staged": "staged: the host reads whole files and sends them in messages",
    "host": "host: the host's own kernel, no co-processor",
}


def draw_rates(axes, what: str, unit: str, ways: dict) -> None:
    """A line for each way."""
    for way, by_count in ways.items():
        counts = sorted(by_count)
        axes.plot(counts, [by_count[count]["rate"] for count in counts], "o-", color=COLOURS[way])
    axes.set_xticks(sorted({count for by_count in ways.values() for count in by_count}))
    axes.set_xlabel("workers")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylabel(f"{unit} per second")
        axes.plot(counts, [by_count[count]["rate"] for count in counts], "o-", color=COLOURS[way], label=way)
    axes.set_xticks(sorted({count for by_count in ways.values() for count in by_count}))
    axes.set_xlabel("workers")
    axes.set_ylabel("texts a second" if "indexing" in what else "queries a second")
    axes.set_ylim(bottom=0)
    axes.set_title(what)


def draw_costs(axes, unit: str, ways: dict) -> None:
    """A bar for each way, of one worker."""
    for place, (way, by_count) in enumerate(ways.items()):
        cost = by_count[min(by_count)]["cpu_us"]
        axes.bar(place, cost, 0.6, color=COLOURS[way])
        axes.text(place, cost, f"{cost:,.0f}", ha="center", va="bottom", fontsize=9)
    axes.set_xticks(range(len(ways)), list(ways))
    axes.margins(y=0.1)
    axes.set_ylabel(f"µs of CPU per {unit}")
    axes.set_title("CPU of one worker and of what serves it", fontsize=10)


def draw(told: dict, units: dict[str, tuple[str, str]], path: Path) -> None:
    """Writes the picture; `units` are what is done each second, many and one."""
    figure, axes = plt.subplots(2, len(told), figsize=(5.5 * len(told), 8), dpi=130, squeeze=False)
    for place, (what, ways) in enumerate(told.items()):
        many, one = units[what]
        draw_rates(axes[0][place], what, many, ways)
        draw_costs(axes[1][place], one, ways)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    lines = [Line2D([], [], marker="o", color=COLOURS[way], label=TOLD[way]) for way in COLOURS]
    figure.legend(handles=lines, loc="lower center", frameon=False, fontsize=9)
    figure.suptitle("Search by workers without a kernel of their own")
    figure.tight_layout(rect=(0, 0.1, 1, 1))
    figure.savefig(path)
    plt.close(figure)
