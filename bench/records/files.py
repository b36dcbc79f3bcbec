"""One file a run in bench/results: which benchmark, when, where, and what it found.

A record holds the results as bench/run.py writes them. A transcribed one was written from a
document that stated its figures, has no samples, and may hold that document's words (`stated`).
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "bench/results"


@dataclass(frozen=True)
class Record:
    """One run. `date` is ISO 8601 in UTC, to the minute (or the day where no more is known)."""

    benchmark: str
    date: str
    settings: str
    machine: dict
    commit: str
    results: list[dict]
    is_transcribed: bool = False
    notes: list[str] = field(default_factory=list)
    stated: list[dict] = field(default_factory=list)


def machine() -> dict:
    """What the figures depend on, of the machine at hand."""
    said = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.split(":", 1)[1].strip() for line in said if line.startswith("model name")]
    bytes_of_memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": models[0] if models else platform.machine(),
        "memory_gib": round(bytes_of_memory / 2**30),
        "kernel": platform.release(),
    }


def of_run(benchmark: str, results: list[dict], settings: str) -> Record:
    """The record of a run that has just ended, on this machine."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
    return Record(benchmark, now, settings, machine(), commit(), results)


def commit() -> str:
    """The commit that was measured, with + if the tree differs from it; told where programs were built elsewhere."""
    if told := os.environ.get("HELIOSTAT_COMMIT"):
        return told
    asked = ["git", "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
    answer = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True)
    return answer.stdout.strip() or "unknown"


def write(record: Record, folder: Path = FOLDER) -> Path:
    """Writes the record; its path, which says when and what."""
    folder.mkdir(parents=True, exist_ok=True)
    moment = record.date.replace(":", "").replace("T", "-").removesuffix("Z")
    path = folder / f"{moment}-{record.benchmark}.json"
    path.write_text(json.dumps(asdict(record), indent=1) + "\n")
    return path


def gathered(name: str, benchmark: str, results: list[dict], before: Record | None) -> Record:
    """The record of several benchmarks on this machine, which are no runs of the usual one: results by benchmark.

    `before` is what it has of others, and of other parts of this one.
    """
    named = [result | {"name": f"{benchmark}: {result['name']}"} for result in results]
    fresh = {(result["name"], result["cores"]) for result in named}
    kept = [result for result in before.results if (result["name"], result["cores"]) not in fresh] if before else []
    found = of_run(name, kept + named, "quick")
    return found if before is None else replace(found, date=before.date)


def read_all(folder: Path = FOLDER, names: str = "*.json") -> list[Record]:
    """Every record, or those of files so named, the newest first."""
    found = [Record(**json.loads(path.read_text())) for path in sorted(folder.glob(names))]
    return sorted(found, key=lambda record: record.date, reverse=True)


def newest(records: list[Record], benchmark: str, name: str, cores: str) -> tuple[Record, dict] | None:
    """The newest result of that name on those cores (* for any), and the record that holds it."""
    for record in records:
        if record.benchmark != benchmark:
            continue
        for result in record.results:
            is_asked = result["name"] == name and cores in ("*", result["cores"])
            if is_asked and (result["ours"], result["ratio"]) != (None, None):
                return record, result
    return None
