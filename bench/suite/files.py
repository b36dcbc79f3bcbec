"""Cached files read by unmodified programs: a tight loop, fio, sqlite3 and DuckDB.

Aims: a pread loop over a hot 1 MiB file 4 times as fast as plain Linux at 4 KiB and 8 times at
64 B; fio's psync engine reaches 90 % of its own mmap engine, 4 KiB random over 64 MiB. Opening
and reading a file once must not get slower.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from fio_turns import by_turns
from heliostat_run import Side
from measure import Bench, Result, by_rounds, last_json

LOOPS = [
    # (way, bytes, aim)
    ("pread", 64, 8.0), ("pread", 4096, 4.0), ("pread", 65536, None), ("read", 64, None),
    ("read", 4096, None), ("seek", 4096, None), ("open", 4096, 1.0),
]  # fmt: skip
CALLED = {"pread": "pread, random", "read": "read, in order", "seek": "lseek and read", "open": "open, read, close"}
FIO_AIM = 0.9
BLOCK = 4096


def numbered(path: Path, size: int) -> Path:
    """A file whose every 4 KiB begin with their number, as bench/programs/pread.c checks it."""
    path.write_bytes(b"".join(bytes([block % 251]) * BLOCK for block in range(size // BLOCK)))
    return path


def loops(bench: Bench, folder: Path) -> list[Result]:
    """The tight loop in every way, one core."""
    path, program = numbered(folder / "hot", 1 << 20), bench.program("pread")
    found = []
    for way, size, aim in LOOPS:
        def sample(side: Side) -> float:
            words = [program, path, size, bench.seconds, way]
            return last_json(bench.harness.run(side, words, core=0))["ns_per_call"]

        samples = bench.alternate({side: side for side in bench.sides()}, sample)
        ours, theirs = samples.get(Side.HELIOSTAT, []), samples[Side.PLAIN]
        name = f"{CALLED[way]}, {size} B of a hot 1 MiB file"
        found.append(bench.compare(name, ours, theirs, "ns", better="less", aim=aim, cores="one core"))
    return found


def fio_words(path: Path, engine: str) -> list:
    return [
        "fio", "--name=cached", f"--filename={path}", "--rw=randread", "--bs=4k", f"--ioengine={engine}",
        "--size=64m", "--invalidate=0", "--randrepeat=0", "--norandommap",
    ]  # fmt: skip


def fio(bench: Bench, folder: Path) -> list[Result]:
    """psync under Heliostat against plain psync, and against fio's mmap engine, by turns."""
    if not shutil.which("fio"):
        raise RuntimeError("fio is not installed: run `make setup`")
    path = numbered(folder / "fio", 64 << 20)
    arms = {engine: (Side.PLAIN, fio_words(path, engine)) for engine in ("psync", "mmap")}
    arms |= {} if bench.harness.plain else {"ours": (Side.HELIOSTAT, fio_words(path, "psync"))}
    turns = max(40, int(bench.seconds * 40))
    rounds = bench.alternate({"all": arms}, lambda arms: by_turns(bench, arms, turns, 0, folder))["all"]
    found = {arm: [one[arm] for one in rounds] for arm in arms}
    note = f"fio: all three on one core by turns of 50 ms, {turns} each; the ratio is the median of those of each round"
    rows = []
    for name, arm, aim in [("fio psync, 4 KiB random, 64 MiB cached", "psync", None), ("the same against fio's mmap engine", "mmap", FIO_AIM)]:
        row = bench.compare(name, found.get("ours", []), found[arm], "IOPS", aim=aim, cores="one core", note=note)
        rows.append(row if row.ratio is None else by_rounds(row, found["ours"], found[arm]))
    return rows


def timed(bench: Bench, side: Side, words: list) -> float:
    """Milliseconds from start to end of a program that must succeed."""
    began = time.monotonic()
    program = bench.harness.run(side, words, core=0, seconds=120)
    if program.process.returncode != 0:
        raise RuntimeError(f"{words[0]} ended with {program.process.returncode}: {program.errors()[-500:]}")
    return (time.monotonic() - began) * 1e3


SCAN = "select count(*), sum(length(text)), sum(number) from rows"
FILL = (
    "create table rows(number integer, text text); with recursive n(i) as (select 1 union all select i+1 from n "
    "where i < {rows}) insert into rows select i, printf('%0200d', i * 2654435761 % 1000003) from n;"
)


def databases(bench: Bench, folder: Path) -> list[Result]:
    """Whole scans of a cached database; reported, since most of the time is the database's own."""
    path = folder / "rows.db"
    rows = 100_000 if bench.seconds < 1 else 400_000
    plain = bench.harness.run(Side.PLAIN, ["sqlite3", path, FILL.format(rows=rows)], seconds=120)
    if plain.process.returncode != 0:
        raise RuntimeError(f"sqlite3: {plain.errors()[-500:]}")
    scans = {"sqlite3 -readonly, scan": ["sqlite3", "-readonly", f"file:{path}?immutable=0", SCAN]}
    try:
        import duckdb

        parquet = folder / "rows.parquet"
        duckdb.sql(f"copy (select i as number, repeat(i::varchar, 30) as text from range({rows * 4}) t(i)) to '{parquet}'")
        query = f"import duckdb; print(duckdb.sql(\"select sum(number), sum(length(text)) from '{parquet}'\").fetchall())"
        scans["DuckDB, scan of a Parquet file"] = [sys.executable, "-c", query]
    except ImportError:
        print("DuckDB is not installed: its scan is left out")
    found = []
    for name, words in scans.items():
        samples = bench.alternate({side: side for side in bench.sides()}, lambda side: timed(bench, side, words))
        ours = samples.get(Side.HELIOSTAT, [])
        found.append(bench.compare(name, ours, samples[Side.PLAIN], "ms", better="less", cores="one core"))
    return found


def measure(bench: Bench) -> list[Result]:
    folder = bench.harness.folder / "files"
    folder.mkdir()
    return loops(bench, folder) + fio(bench, folder) + databases(bench, folder)
