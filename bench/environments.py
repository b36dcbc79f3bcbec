"""Virtual environments of what ours is compared with: each apart, made at the first run, beside the build."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from heliostat_run import ROOT
from measure import IS_BUILT, REPORT


def python_of(name: str, *flags: str) -> Path | None:
    """The interpreter that has what bench/requirements-NAME.txt lists, as far as it installs; None where none is made."""
    wanted = ROOT / f"bench/requirements-{name}.txt"
    venv = REPORT.parent / f"{name}-venv"
    python, done = venv / "bin/python", venv / wanted.name
    if done.exists() and done.read_text() == wanted.read_text():
        return python
    if IS_BUILT:
        return None
    subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    for line in wanted.read_text().splitlines():
        # One by one: what does not install must not take the others along.
        if line and not line.startswith("#"):
            words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *flags, line]
            answer = subprocess.run(words, capture_output=True, text=True, check=False)
            if answer.returncode != 0:
                print(f"{line} is not installed: {answer.stderr.strip().splitlines()[-1:]}", flush=True)
    done.write_text(wanted.read_text())
    return python
