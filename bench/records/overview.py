"""Writes bench/results/README.md: the newest results of every benchmark as tables."""

from __future__ import annotations

from pathlib import Path

from records import files, page

PAGE = files.FOLDER / "README.md"
HEAD = """# Recorded runs

Written by `make bench-record` from the files beside it, one a run. This page holds the newest result of each name, with or without a promise; what is promised of some of them is in `docs/specification.md`. *Ratio* is how many times better Heliostat is than what it is compared with. Figures of small shared virtual machines: ratios and orders of magnitude carry over, absolute times do not.

A record that says *transcribed* was written from documents that stated its figures before runs were recorded. It has no samples, and the words it was taken from, with older figures and conditions, are in its file (`stated`, `notes`).
"""


def newest_results(records: list[files.Record], benchmark: str) -> list[tuple[files.Record, dict]]:
    """The newest of each name and cores of one benchmark, in the order of the newest record."""
    found: dict = {}
    for record in records:
        for result in record.results if record.benchmark == benchmark else []:
            found.setdefault((result["name"], result["cores"]), (record, result))
    return list(found.values())


def cell(value: float | None, unit: str) -> str:
    return "" if value is None else page.amount(value, unit)


def section(records: list[files.Record], benchmark: str) -> str:
    """Heading, conditions and table of one benchmark."""
    rows = newest_results(records, benchmark)
    if not rows:
        return ""
    lines = [f"\n## {benchmark}\n", conditions([record for record, _ in rows]), ""]
    lines += ["| what | cores | ours | theirs | ratio | date |", "|---|---|---|---|---|---|"]
    for record, result in rows:
        ratio = "" if result["ratio"] is None else f"{page.number(result['ratio'])}x"
        ours, theirs = (cell(result[key], result["unit"]) for key in ("ours", "theirs"))
        cells = (result["name"], result["cores"], ours, theirs, ratio, record.date[:10])
        lines.append("| " + " | ".join(cells).replace("  ", " ") + " |")
    return "\n".join(lines) + "\n"


def conditions(records: list[files.Record]) -> str:
    """One line for each record that the table draws on."""
    said = []
    for record in dict.fromkeys(id(one) for one in records):
        one = next(it for it in records if id(it) == record)
        machine = one.machine
        kind = "transcribed" if one.is_transcribed else f"commit {one.commit}"
        said.append(f"{one.date[:10]}: {one.settings}, {machine['processor']}, {machine['cores']} cores, {kind}.")
    return " ".join(said)


def write(path: Path = PAGE) -> None:
    """Writes the page."""
    path.write_text(rendered(files.read_all()))


def rendered(records: list[files.Record]) -> str:
    """The page's text."""
    names = sorted({record.benchmark for record in records})
    return HEAD + "".join(section(records, name) for name in names)
