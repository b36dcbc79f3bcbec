"""Runs benchmarks and records them: `python bench/record.py all|none|NAME[,NAME] [flags of bench/run.py]`.

Writes one file a run into bench/results, then the figures of docs/specification.md, the tables of
bench/results/README.md and the pictures from the newest records. `none` runs nothing and writes
the pages and pictures anew. `gather NAME FOLDER BENCHMARK` runs nothing: what the last run of a benchmark has
left goes into one record of NAME in FOLDER, beside what that has of others. So a machine that is not the usual one
gets a record of its own, which is put into bench/results by hand, and its figures take nobody's place.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent / "verify")]

import measure  # noqa: E402
from pictures import solros as solros_picture  # noqa: E402
from records import files, overview, page, plots, solros  # noqa: E402
from run import NAMES  # noqa: E402


def record(name: str, flags: list[str]) -> Path | None:
    """Runs one benchmark and records it; None if it failed, which it has said."""
    found = measure.REPORT / f"{name}.json"
    found.unlink(missing_ok=True)
    done = subprocess.run([sys.executable, str(BENCH / "run.py"), name, *flags])
    if done.returncode != 0 or not found.is_file():
        return None
    settings = " ".join(flag.lstrip("-") for flag in flags) or "whole run"
    return files.write(files.of_run(name, json.loads(found.read_text()), settings))


def write_pages(names: list[str]) -> None:
    """Pages and pictures from all that is recorded."""
    for binding in page.rewrite():
        print(f"no record has a result for: {binding}")
    overview.write()
    records = files.read_all()
    plots.draw_overview(records, page.PAGE.read_text())
    solros.write()
    solros_picture.draw(solros.recorded(), solros.PICTURE)
    for name in names:
        if drawn := plots.draw_history(records, name, measure.REPORT / "history"):
            print(f"drawn: {drawn}")


def gather(name: str, folder: Path, benchmark: str) -> Path:
    """Adds the results that lie in target/bench to the record of this machine."""
    before = next(iter(files.read_all(folder, f"*-{name}.json")), None)
    results = json.loads((measure.REPORT / f"{benchmark}.json").read_text())
    return files.write(files.gathered(name, benchmark, results, before), folder)


def main() -> int:
    asked, *flags = sys.argv[1:] or ["all"]
    if asked == "gather":
        name, folder, benchmark = flags
        print(gather(name, Path(folder), benchmark))
        return 0
    names = {"all": NAMES, "none": []}.get(asked, asked.split(","))
    if "--plain" in flags:
        print("a run without Heliostat is not recorded")
        return 2
    written = {name: record(name, flags) for name in names}
    for name, path in written.items():
        print(f"{name}: {path or 'FAILED, not recorded'}")
    write_pages(names)
    return 0 if all(written.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
