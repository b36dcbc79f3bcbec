"""Pictures of what is recorded: each promise beside its aim, and each benchmark over time."""

from __future__ import annotations

import re
from pathlib import Path

from records import files, page

METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)
OVERVIEW = files.ROOT / "docs/promises.svg"
# Where nothing at all was measured, as an idle connection's processor time, the bar ends here.
REACHED_MAX = 100
COLOURS = {True: "#2a7f62", False: "#c0392b"}


def reached(result: dict) -> float | None:
    """How many times its aim a result reaches; 1 is just kept."""
    if result["aim"] is None:
        return None
    if result["aim_is"] == "ours at most":
        return result["aim"] / max(result["ours"], result["aim"] / REACHED_MAX)
    return result["ratio"] / result["aim"]


def promises(records: list[files.Record], text: str) -> list[tuple[str, dict]]:
    """(name, result) of every row of the page that has an aim, in its order."""
    found = []
    for match in filter(None, map(page.ROW.match, text.splitlines())):
        pair = files.newest(records, match["benchmark"], match["name"], match["cores"])
        if pair and reached(pair[1]) is not None:
            cores = f" ({match['cores']})" if "core" in match["cores"] else ""
            found.append((f"{match['benchmark']}: {match['name']}{cores}", pair[1]))
    return found


def draw_overview(records: list[files.Record], text: str, path: Path = OVERVIEW) -> None:
    """A bar for each promise: how many times its aim it reaches."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"font.size": 8})
    from matplotlib import pyplot

    rows = promises(records, text)[::-1]
    figure, axes = pyplot.subplots(figsize=(9, 0.19 * len(rows) + 0.9))
    values = [reached(result) for _, result in rows]
    colours = [COLOURS[value >= 1] for value in values]
    axes.barh(range(len(rows)), [value - 1 for value in values], left=1, color=colours, height=0.6)
    axes.set_yticks(range(len(rows)), [name for name, _ in rows])
    axes.set_xscale("log")
    axes.axvline(1, color="black", lw=1)
    axes.set_xlabel("times its aim (left of 1: missed)")
    axes.margins(y=0.01)
    figure.tight_layout()
    save(figure, path)
    pyplot.close(figure)


def save(figure, path: Path) -> None:
    """Saves a picture. An SVG says neither when nor with what it was drawn: it would change without its figures."""
    if path.suffix != ".svg":
        return figure.savefig(path)
    import matplotlib

    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "heliostat"}):
        figure.savefig(path, format="svg", metadata={"Date": None})
    path.write_text(METADATA.sub("", path.read_text()))


def draw_history(records: list[files.Record], benchmark: str, folder: Path) -> Path | None:
    """The ratios of one benchmark's results with an aim, by date; None where there is one run only."""
    series: dict = {}
    for record in records:
        for result in record.results if record.benchmark == benchmark else []:
            if (value := reached(result)) is not None:
                series.setdefault((result["name"], result["cores"]), []).append((record.date[:16], value))
    if max(map(len, series.values()), default=0) < 2:
        return None
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4))
    for (name, cores), points in series.items():
        dates, values = zip(*sorted(points))
        axes.plot(dates, values, "o-", label=f"{name} {cores}".strip())
    axes.axhline(1, color="black", lw=1)
    axes.set_yscale("log")
    axes.set_ylabel("times its aim")
    axes.legend(fontsize=6)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{benchmark}.png", dpi=120)
    pyplot.close(figure)
    return folder / f"{benchmark}.png"
