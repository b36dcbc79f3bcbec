"""Snapshots beside other ways to give a process versions of an array; all from Python.

The arms are in bench/peers/arms.py. They and the built wheel live in a virtual environment of
their own, target/peers-venv. PEERS=ARM[,ARM] measures some arms and keeps the others' records;
PEERS_SIZES and PEERS_ROUNDS choose sizes in MiB and rounds,
PEERS_APPEND=1 keeps the records of earlier rounds too. What cannot be installed or started
is in the table as missing, with its reason.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from heliostat_run import ROOT
from measure import REPORT, Bench, Result

PEERS = ROOT / "bench/peers"
REQUIREMENTS = ROOT / "bench/requirements-peers.txt"
VENV = REPORT.parent / "peers-venv"
RECORDS, PICTURE = REPORT / "peers-records.json", REPORT / "peers.png"


def install(*words: str) -> str:
    """Installs into the peers' environment; "" or the last line of the reason why not."""
    command = [str(VENV / "bin/python"), "-m", "pip", "install", "--quiet", *words]
    answer = subprocess.run([*command, "--disable-pip-version-check"], capture_output=True, text=True)
    return "" if answer.returncode == 0 else answer.stderr.strip().splitlines()[-1]


def prepare() -> Path:
    """The environment's interpreter, with every peer that installs and the wheel of this tree."""
    if not VENV.exists():
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    for line in REQUIREMENTS.read_text().splitlines():
        # One by one: a peer that does not install must not take the others along.
        if line and not line.startswith("#") and (reason := install(line)):
            print(f"{line} is not installed: {reason}")
    wheel = os.environ.get("HELIOSTAT_WHEEL") or built_wheel()
    if reason := install("--force-reinstall", "--no-deps", wheel):
        raise RuntimeError(f"{wheel} does not install: {reason}")
    return VENV / "bin/python"


def built_wheel() -> str:
    """Builds the wheel of this tree; its path."""
    command = [sys.executable, str(ROOT / "bind/python/wheel.py")]
    answer = subprocess.run(command, capture_output=True, text=True)
    if answer.returncode != 0:
        raise RuntimeError(f"no wheel: {answer.stderr.strip()[-500:]}")
    return answer.stdout.strip().splitlines()[-1]


def orders(bench: Bench) -> list[str]:
    """The comparison's flags, from the benchmark's and the environment's."""
    words = ["--out", str(RECORDS)]
    words += [] if bench.seconds >= 1 else ["--quick"]
    for flag, name in (("--only", "PEERS"), ("--sizes", "PEERS_SIZES"), ("--rounds", "PEERS_ROUNDS")):
        words += [flag, os.environ[name]] if os.environ.get(name) else []
    return words + (["--append"] if os.environ.get("PEERS_APPEND") else [])


def as_result(one: dict, cacheline: float | None) -> Result:
    return Result(**one, cores="", note="", cacheline_ns=cacheline)


def compare(python: Path, words: list[str]) -> None:
    """The comparison with a control plane of its own, which ends with it."""
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        own = {"XDG_RUNTIME_DIR": folder, "HELIOSTAT_SOCKET": f"{folder}/control.sock"}
        environment = os.environ | own | {"XDG_CACHE_HOME": str(VENV)}
        try:
            command = [python, str(PEERS / "compare.py"), *words]
            subprocess.run(command, env=environment, check=True)
        finally:
            command = [python.with_name("heliostat"), "stop"]
            subprocess.run(command, env=environment, capture_output=True)


def measure(bench: Bench) -> list[Result]:
    """Runs the comparison and prints its own table; the results are ratios to each peer."""
    python, line = prepare(), bench.cacheline_ns()
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    compare(python, orders(bench))
    picture = [python, str(PEERS / "report.py"), str(RECORDS), str(PICTURE)]
    subprocess.run(picture, check=True)
    code = [python, str(PEERS / "ratios.py"), str(RECORDS)]
    rows = json.loads(subprocess.run(code, check=True, capture_output=True, text=True).stdout)
    return [as_result(one, line) for one in rows]
