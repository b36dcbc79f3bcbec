"""Mooncake's transfer engine and NIXL beside reads and writes of another node, all over loopback's TCP.

They lie in a virtual environment of their own (`bench/requirements-engines.txt`), which is made at the first run;
what cannot be installed or does not run is left out, and said so. Their buffers are registered before; neither asks
whose transfer it is (docs/cluster.md, What it is compared with).
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from clusters.arms import Arms, CALLED, OTHER
from clusters.sizes import KIB, MIB, named
from environments import python_of
from heliostat_run import ROOT
from measure import Result

SCRIPT = ROOT / "bench/python/engine_transfers.py"
SIZES = (4 * KIB, 64 * KIB, MIB, 4 * MIB)
ENGINES = {"nixl": "NIXL", "mooncake": "Mooncake's engine"}


def run(python: Path, engine: str, seconds: float) -> dict | None:
    """What an engine's script has measured; None where it does not run here."""
    words = [str(python), str(SCRIPT), engine, str(seconds), ",".join(map(str, SIZES))]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"read"')]
    if not lines:
        print(f"{ENGINES[engine]} is left out: {(done.stderr or done.stdout).strip().splitlines()[-1:]}", flush=True)
        return None
    return json.loads(lines[-1])


def ours(arms: Arms, way: str) -> dict:
    """The same of a node: all kinds and sizes."""
    return {
        kind: {str(size): arms.asked(arms.place(way)[0], "node", OTHER, kind, size)["ns"] / 1e3 for size in SIZES}
        for kind in ("read", "write")
    }


def transfers(arms: Arms) -> list[Result]:
    """Each engine in turns with both transports."""
    python, seconds = python_of("engines", "--no-deps"), float(arms.seconds)
    running = [engine for engine in ENGINES if python and run(python, engine, 0) is not None]
    if not running:
        return []
    found = arms.bench.alternate(
        {way: way for way in (*arms.clusters, *running)},
        lambda way: ours(arms, way) if way in arms.clusters else run(python, way, seconds),
    )
    of = lambda way, kind, size: [one[kind][str(size)] for one in found[way] if one]  # noqa: E731
    return [
        arms.bench.compare(f"{kind} of {named(size)}, {CALLED[way]} vs {ENGINES[engine]}", of(way, kind, size), of(engine, kind, size), "us", better="less", aim=1.0)
        for engine in running
        for kind in ("read", "write")
        for size in SIZES
        for way in arms.clusters
    ]
