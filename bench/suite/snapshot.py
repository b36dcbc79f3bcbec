"""Snapshots of live memory beside a locked copy and beside fork; one program measures all arms.

Aims: 1 GiB with 0.1 % of its pages written is published in a sixtieth of a copy's time; the
producer is slowed by at most half of what fork costs at 10 %, and never by more than 1.3 times
a plain copy; attaching costs below 1 ms per GiB.
"""

from __future__ import annotations

import json
import os
import subprocess

from heliostat_run import ROOT
from measure import Bench, Result

PACKAGE = ["run", "--release", "--quiet", "--package", "heliostat-bench-snapshot", "--"]


def measure(bench: Bench, *extra: str) -> list[Result]:
    """The program's rows as results. It needs no control plane, so both sides of a harness do."""
    path = bench.harness.folder / "snapshot-rows.json"
    words = [os.environ.get("CARGO", "cargo"), *PACKAGE, "--out", str(path), *extra]
    words += ["--full"] if bench.full else []
    words += ["--quick"] if bench.repetitions < 5 else []
    before = bench.cacheline_ns()
    answer = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"{PACKAGE[4]} ended with {answer.returncode}: {answer.stderr[-1000:]}")
    return [Result(**row, cacheline_ns=before) for row in json.loads(path.read_text())]
