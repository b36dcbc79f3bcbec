"""The co-processors' picture: rates by the number of workers, and CPU of each text and query."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

COLOURS = {"lean": "#e07b00", "own stack": "#5b8db8", "staged": "#3f7d4e", "host": "#9aa5b1"}


def draw_rates(axes, what: str, ways: dict) -> None:
    """A line for each way."""
    for way, by_count in ways.items():
        counts = sorted(by_count)
        axes.plot(counts, [by_count[count]["rate"] for count in counts], "o-", color=COLOURS[way], label=way)
    axes.set_xticks(sorted({count for by_count in ways.values() for count in by_count}))
    axes.set_xlabel("workers")
    axes.set_ylabel("texts a second" if "indexing" in what else "queries a second")
    axes.set_ylim(bottom=0)
    axes.set_title(what)
    axes.legend(frameon=False, fontsize=8)


def draw_costs(axes, ways: dict) -> None:
    """A bar for each way, of one worker."""
    for place, (way, by_count) in enumerate(ways.items()):
        cost = by_count[min(by_count)]["cpu_us"]
        axes.bar(place, cost, 0.6, color=COLOURS[way])
        axes.text(place, cost, f"{cost:,.0f}", ha="center", va="bottom", fontsize=9)
    axes.set_xticks(range(len(ways)), list(ways))
    axes.set_ylabel("us of CPU for each, one worker")


def draw(told: dict, path: Path) -> None:
    """Writes the picture."""
    figure, axes = plt.subplots(2, len(told), figsize=(5.5 * len(told), 7.5), dpi=130, squeeze=False)
    for place, (what, ways) in enumerate(told.items()):
        draw_rates(axes[0][place], what, ways)
        draw_costs(axes[1][place], ways)
    for one in axes.flat:
        one.spines[["top", "right"]].set_visible(False)
    figure.suptitle("Search by workers without a kernel of their own")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
