"""The cluster demo's picture: time by phase, and which node did what when, with the death in it."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

PHASE_COLOURS = ["#c9ced4", "#9aa5b1", "#e07b00", "#5b8db8", "#3f7d4e"]
KIND_COLOURS = {"map": "#e07b00", "reduce": "#5b8db8"}
LOST = "#b03030"


def draw_phases(axes, seconds: float, runs: dict[str, dict], phases: list[str]) -> None:
    """One stacked bar for each run, and the one thread's beside them."""
    names = ["one thread", *runs]
    axes.bar(0, seconds, 0.6, color="#555555")
    axes.text(0, seconds, f"{seconds:.2f} s", ha="center", va="bottom", fontsize=9)
    for place, told in enumerate(runs.values(), 1):
        bottom = 0.0
        for phase, colour in zip(phases, PHASE_COLOURS):
            height = told["phases"][phase]
            axes.bar(place, height, 0.6, bottom, color=colour, label=phase if place == 1 else None)
            bottom += height
        axes.text(place, bottom, f"{told['seconds']:.2f} s", ha="center", va="bottom", fontsize=9)
    axes.set_xticks(range(len(names)), [name.replace(", ", ",\n") for name in names])
    axes.set_ylabel("seconds")
    axes.set_title("Time by phase", pad=24)
    axes.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(phases), handlelength=1)


def draw_tasks(axes, name: str, told: dict) -> None:
    """A line for each worker, a bar for each try of a task; those that were for nothing are crossed."""
    workers = sorted({(task["node"], task["worker"]) for task in told["tasks"]})
    line = {worker: place for place, (_, worker) in enumerate(workers)}
    for task in told["tasks"]:
        crossed = {} if task["done"] else {"hatch": "xxxx", "alpha": 0.45}
        width = task["to"] - task["from"]
        colour = KIND_COLOURS[task["kind"]]
        axes.barh(line[task["worker"]], width, 0.6, task["from"], color=colour, edgecolor="white", linewidth=0.4, **crossed)
    for death in told["deaths"]:
        axes.axvline(death["at"], color=LOST, linewidth=1)
        # Beside the line, where there is room.
        is_late = death["at"] > told["seconds"] * 0.7
        words = f" node {death['node']} found dead "
        axes.text(death["at"], len(workers) - 0.55, words, color=LOST, fontsize=8, va="center", ha="right" if is_late else "left")
    for kind, colour in KIND_COLOURS.items():
        axes.barh(0, 0, color=colour, label=kind)
    axes.barh(0, 0, color="#bbbbbb", edgecolor="white", hatch="xxxx", label="lost, done again")
    axes.set_yticks(range(len(workers)), [f"node {node}" for node, _ in workers])
    axes.set_xlabel("seconds since the master began")
    axes.set_title(f"Tasks: {name}")
    axes.set_ylim(-0.5, len(workers) - 0.3)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)


def draw(size: int, seconds: float, runs: dict[str, dict], phases: list[str], path: Path) -> None:
    """Writes the picture of a word count of so many bytes."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), dpi=130, width_ratios=[1, 1.7])
    draw_phases(left, seconds, runs, phases)
    name, told = list(runs.items())[-1]
    draw_tasks(right, name, told)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"Word count of {size / 1e6:,.0f} MB of text on three nodes of one machine")
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
