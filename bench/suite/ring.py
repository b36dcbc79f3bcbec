"""The ring beside a bare cache line, locks and iceoryx2, measured by bench/ring.

Aims: request and response within one and a half times the bare line; faster than iceoryx2; lazy
control words 1.4 times eager ones; combining 1.5 times an MCS lock.
"""

from __future__ import annotations

import json
import os
import re
import subprocess

from heliostat_run import ROOT
from measure import REPORT, Bench, Result

PROGRAM = ["run", "--release", "--quiet", "--package", "heliostat-bench-ring", "--features", "iceoryx2"]
# How the program words an aim.
LEAST_RATIO = re.compile(r"ratio >=? ([\d.]+)")
MOST = re.compile(r"at most ([\d.]+) ns")


def measure(bench: Bench) -> list[Result]:
    """Runs the program and reads what it wrote."""
    path = REPORT / "ring.json"
    path.unlink(missing_ok=True)
    words = [os.environ.get("CARGO", "cargo"), *PROGRAM]
    answer = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode != 0 or not path.is_file():
        raise RuntimeError(f"{PROGRAM[4]} ended with {answer.returncode}: {answer.stderr[-1000:]}")
    return [result(row) for row in json.loads(path.read_text())]


def result(row: dict) -> Result:
    """A row of the program as a result; its spread is one number, a part of the median."""
    ours, half = row["ours"], row["ours"] * row["spread"] / 2
    spread = {"ours": [ours - half, ours + half], "theirs": [row["theirs"], row["theirs"]]}
    cores = "two cores" if row["cores"] == 2 else "one core"
    aim, aim_is = aim_of(row["aim"])
    return Result(row["name"], ours, row["theirs"], row["unit"], row["ratio"], aim, aim_is, spread, cores, row["note"])


def aim_of(words: str) -> tuple[float | None, str]:
    """The aim that the program's words state, and what it is about."""
    if least := LEAST_RATIO.search(words):
        return float(least[1]), "ratio at least"
    most = MOST.search(words)
    return (float(most[1]) if most else None), "ours at most"
