"""Writes the figures and states of docs/specification.md from the newest records.

A row that has a benchmark names its result in a comment behind the figure, which no reader of
the page sees; the figure before it, and the state behind it, are written here:

    | promise | aim | command | 3.5x: 2.7 us against 9.5 us (22 Nov 2026) <!-- pingpong: NAME @ CORES --> | kept |
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

from records import files

PAGE = files.ROOT / "docs/specification.md"
ROW = re.compile(r"^(?P<before>\|.*\| )(?P<figure>[^|]*)<!-- (?P<benchmark>[\w-]+): (?P<name>.+) @ (?P<cores>[^|>]*?) --> \| (?P<state>\w+|-)(?P<after>.*)$")  # fmt: skip
# The figure of a row whose benchmark was not recorded yet; its state is "-".
NOT_RECORDED = "not recorded"
# What a figure of one unit is divided by from some size on, and its unit then.
SCALES = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us")),
    "us": ((1e6, "s"), (1e3, "ms")),
    "ms": ((1e3, "s"),),
    "/s": ((1e6, " M/s"),),
    "req/s": ((1e6, " M req/s"),),
    "IOPS": ((1e6, " M IOPS"),),
}


def amount(value: float, unit: str) -> str:
    """A figure with its unit, three significant digits."""
    for least, larger in SCALES.get(unit, ()):
        if abs(value) >= least:
            return f"{number(value / least)} {larger.strip()}"
    return f"{number(value)} {unit}".replace(" /s", "/s").replace(" x", "x")


def number(value: float) -> str:
    """Three significant digits, thousands grouped."""
    return f"{float(f'{value:.3g}'):,g}" if abs(value) >= 1000 else f"{value:.3g}"


def day(moment: str) -> str:
    """22 Nov 2026, of an ISO date."""
    return date.fromisoformat(moment[:10]).strftime("%-d %b %Y")


def figure(record: files.Record, result: dict) -> str:
    """What the page says of a result."""
    ours, theirs, unit = result["ours"], result["theirs"], result["unit"]
    if result["aim_is"] == "ours at most":
        said = amount(ours, unit)
    elif ours is None or theirs is None:
        said = f"{number(result['ratio'])}x"
    else:
        said = f"{number(result['ratio'])}x: {amount(ours, unit)} against {amount(theirs, unit)}"
    return f"{said} ({day(record.date)})"


def is_met(result: dict) -> bool | None:
    """Whether the aim is reached; None without an aim."""
    if result["aim"] is None:
        return None
    if result["aim_is"] == "ours at most":
        return result["ours"] <= result["aim"]
    return result["ratio"] >= result["aim"]


def rewritten(text: str, records: list[files.Record]) -> tuple[str, list[str]]:
    """The page with the newest figures, and the bindings that no record has a result for."""
    lines, unknown = [], []
    for line in text.splitlines():
        match = ROW.match(line)
        if not match:
            lines.append(line)
            continue
        found = files.newest(records, match["benchmark"], match["name"], match["cores"])
        if found is None:
            unknown.append(f"{match['benchmark']}: {match['name']} @ {match['cores']}")
            lines.append(line)
            continue
        state = {None: "reported", True: "kept", False: "missed"}[is_met(found[1])]
        binding = line[line.index("<!-- ") : line.index(" -->") + 4]
        lines.append(f"{match['before']}{figure(*found)} {binding} | {state}{match['after']}")
    return "\n".join(lines) + "\n", unknown


def awaited(text: str) -> set[str]:
    """The bindings of rows that say themselves that nothing is recorded."""
    rows = filter(None, map(ROW.match, text.splitlines()))
    return {f"{row['benchmark']}: {row['name']} @ {row['cores']}" for row in rows if row["figure"].strip() == NOT_RECORDED}


def rewrite(path: Path = PAGE) -> list[str]:
    """Rewrites the page in place; what no record has a result for."""
    text, unknown = rewritten(path.read_text(), files.read_all())
    path.write_text(text)
    return unknown
