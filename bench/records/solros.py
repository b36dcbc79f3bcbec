"""Writes docs/solros.md and its picture: Solros's figures as they come out here, from the newest records."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from records import files, overview, page

PAGE, PICTURE = files.ROOT / "docs/solros.md", files.ROOT / "docs/solros.svg"
WAYS = ("lean", "own stack", "staged", "host")
COPY = re.compile(r"copy (\d+) B, nontemporal vs memcpy$")
PAIRS = re.compile(r"pairs 64 B, (\d+) threads, vs two-lock (mcs|ticket)$")
FILES = re.compile(r"random (read|write) of (\d+) KiB, (\d+) threads, lean vs ([a-z ]+)(?:: (.+))?$")
ECHO = re.compile(r"echo of (\d+) B, (\d+) connections, lean vs ([a-z ]+): (.+)$")
SEARCH = re.compile(r"(text indexing|text search|image search), (\d+) workers, lean vs ([a-z ]+): (rate|CPU of each)$")
RATE, P99, HOST_CPU, WORKER_CPU = "rate", "p99", "CPU of the host", "CPU of the worker"

HEAD = """# Solros's figures, here

Figures 4 and 8 to 20 of *Solros: a data-centric operating system architecture for heterogeneous computing* (EuroSys'18), rebuilt with what a machine without co-processors has. `make bench-record BENCH=ring,solros,coprocessor` measures them and writes this page.

![all figures](solros.svg)

| there | here |
|---|---|
| a Xeon Phi behind PCIe, 61 lean cores | a sealed process (docs/coprocessor.md) on the same cores as everything else |
| a message over PCIe | a copy into a local socket and out of it again, by a relay process |
| co-processor-centric: the card's own Linux and stack (NFS, virtio, TCP) | *own stack*: the worker asks the relay for each block of 4 KiB, or for each message |
| host-centric: the host reads and writes, and stages | *staged*: the worker asks the relay for whole blocks |
| Solros | *lean*: operations on rings, answered by the control plane's loops (docs/lean.md) |
| the host alone | *host*: the kernel's own calls, of an ordinary process: a bound, not a rival |

So what a bus costs is not in these figures; what is saved in system calls, copies, messages and stacks is. The workers of these figures run on any core (`--cores none`), and the measuring clients on the same cores: with two cores there is no core of one's own for anybody, and a lean worker's wait for its loop is a switch between processes. Ratios carry over, absolute figures do not.
"""


@dataclass
class Figures:
    """What was measured: by what was asked for, then by way (or by name of the other side)."""

    copies: dict[int, dict[str, float]] = field(default_factory=dict)
    pairs: dict[int, dict[str, float]] = field(default_factory=dict)
    control_words: dict[str, float] = field(default_factory=dict)
    # (read or write, KiB of a block, threads, what is told)
    files: dict[tuple[str, int, int, str], dict[str, float]] = field(default_factory=dict)
    # (bytes of a message, connections, what is told)
    echoes: dict[tuple[int, int, str], dict[str, float]] = field(default_factory=dict)
    # (what, workers, what is told)
    searches: dict[tuple[str, int, str], dict[str, float]] = field(default_factory=dict)
    conditions: list[str] = field(default_factory=list)


def put(table: dict, key: object, other: str, result: dict, ours: str = "lean") -> None:
    """Both sides of a result. What ours was is told by several: the last is kept."""
    if result["ours"] is not None and result["theirs"] is not None:
        table.setdefault(key, {}).update({ours: result["ours"], other: result["theirs"]})


def read(results: dict[str, list[dict]]) -> Figures:
    """The figures of results by benchmark: `ring`, `solros`, `coprocessor`."""
    found = Figures()
    for result in results.get("ring", []):
        if match := COPY.match(result["name"]):
            put(found.copies, int(match[1]), "memcpy", result, "past the caches")
        elif match := PAIRS.match(result["name"]):
            put(found.pairs, int(match[1]), f"two locks, {match[2]}", result, "combining")
        elif "lazy vs eager" in result["name"]:
            put({"": found.control_words}, "", "eager", result, "lazy")
    for result in results.get("solros", []):
        if match := FILES.match(result["name"]):
            put(found.files, (match[1], int(match[2]), int(match[3]), match[5] or RATE), match[4], result)
        elif match := ECHO.match(result["name"]):
            put(found.echoes, (int(match[1]), int(match[2]), match[4]), match[3], result)
    for result in results.get("coprocessor", []):
        if match := SEARCH.match(result["name"]):
            put(found.searches, (match[1], int(match[2]), match[4]), match[3], result)
    return found


def newest() -> dict[str, list[tuple[files.Record, dict]]]:
    records = files.read_all()
    return {name: overview.newest_results(records, name) for name in ("ring", "solros", "coprocessor")}


def with_run(run: list[dict]) -> Figures:
    """The figures of a run of `solros`, and of what is recorded of the others."""
    others = {name: [result for _, result in pairs] for name, pairs in newest().items()}
    return read(others | {"solros": run})


def recorded() -> Figures:
    """The figures of the newest records."""
    rows = newest()
    found = read({name: [result for _, result in pairs] for name, pairs in rows.items()})
    found.conditions = [overview.conditions([record for record, _ in pairs]) for pairs in rows.values() if pairs]
    return found


def amount(row: dict[str, float], column: str, unit: str) -> str:
    return page.amount(row[column], unit) if column in row else "-"


def table(title: str, first: str, rows: dict[str, dict[str, float]], columns: tuple[str, ...], unit: str, is_less_better: bool = False) -> str:
    """A table of values by what was asked for; where there are ways, also lean's gain over each worker's own stack."""
    if not rows:
        return f"\n## {title}\n\nNot recorded.\n"
    gains = ["lean against own stack"] if "own stack" in columns else []
    lines = [f"\n## {title}\n", "| " + " | ".join([first, *columns, *gains]) + " |", "|" + "---|" * (1 + len(columns) + len(gains))]
    for name, row in rows.items():
        cells = [name, *(amount(row, column, unit) for column in columns)]
        if gains:
            ours, theirs = row["lean"], row.get("own stack")
            gain = theirs and (theirs / ours if is_less_better else ours / theirs)
            cells.append(f"{page.number(gain)}x" if gain else "-")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def chosen(rows: dict, told: str, name: str, **kept: object) -> dict[str, dict[str, float]]:
    """Rows that tell one thing, under their names, in order; `kept` names places of the key and what is there."""
    places = {"first": 0, "second": 1}
    picked = {key: row for key, row in rows.items() if key[-1] == told and all(key[places[at]] == value for at, value in kept.items())}
    return {name.format(*key): picked[key] for key in sorted(picked)}


def rendered(found: Figures) -> str:
    """The page."""
    echoes = WAYS[:2] + WAYS[3:]
    parts = [
        HEAD,
        table("4, 10: two engines to copy", "bytes", {str(size): {way: size / row[way] for way in row} for size, row in sorted(found.copies.items())}, ("past the caches", "memcpy"), "GB/s"),
        table("8: pairs of enqueue and dequeue of 64 B, thousands a second", "threads", {str(count): row for count, row in sorted(found.pairs.items())}, ("combining", "two locks, mcs", "two locks, ticket"), "k/s"),
        table("9: how often the other side's control words are read, messages of 64 B", "", {"lazily, or each time": found.control_words} if found.control_words else {}, ("lazy", "eager"), "M/s"),
        table("11: random reads of a file", "block", chosen(found.files, RATE, "{1} KiB, {2} threads", first="read"), WAYS, "MB/s"),
        table("12: random writes of a file", "block", chosen(found.files, RATE, "{1} KiB, {2} threads", first="write"), WAYS, "MB/s"),
        table("13 (a): CPU of the host for one block", "block", chosen(found.files, HOST_CPU, "{0} of {1} KiB, {2} threads"), WAYS[:3], "us", True),
        table("13 (b): CPU of the worker for one message", "message", chosen(found.echoes, WORKER_CPU, "{0} B, {1} connections"), echoes, "us", True),
        table("13 (b): CPU of the host for one message", "message", chosen(found.echoes, HOST_CPU, "{0} B, {1} connections"), echoes[:2], "us", True),
        table("14, 15: echo, 99th percentile", "message", chosen(found.echoes, P99, "{0} B, {1} connections"), echoes, "us", True),
        table("14, 15: echo, messages a second", "message", chosen(found.echoes, RATE, "{0} B, {1} connections"), echoes, "/s"),
    ]  # fmt: skip
    for what, number in (("text indexing", "16, 17"), ("text search", "17"), ("image search", "18 to 20")):
        rows = chosen(found.searches, RATE, "{1} workers", first=what)
        parts.append(table(f"{number}: {what}, each second", "workers", rows, WAYS, "/s"))
        rows = chosen(found.searches, "CPU of each", "{1} workers", first=what)
        parts.append(table(f"{number}: {what}, CPU of each", "workers", rows, WAYS, "us", True))
    parts.append("\n" + "\n\n".join(found.conditions) + "\n")
    return "".join(parts)


def write(path: Path = PAGE) -> None:
    """Writes the page; its picture is drawn by `pictures.solros`."""
    path.write_text(rendered(recorded()))
