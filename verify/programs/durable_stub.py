"""The stub with a device that can be slow or fail, built on demand; what was built before is kept."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from heliostat_run import ROOT

TARGET = ROOT / "target/faults"
STUB = TARGET / "debug/libheliostat_posix.so"
SECONDS = 1200


def build() -> Path:
    """Builds it by the owner of the sources; where it is."""
    if os.stat(ROOT / "Cargo.toml").st_uid == os.geteuid():
        words = ["cargo", "build", "--locked", "-p", "heliostat-posix", "--features", "flush-faults"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
        subprocess.run(words, cwd=ROOT, env=environment, check=True, timeout=SECONDS)
    if not STUB.exists():
        raise FileNotFoundError(f"{STUB}: the owner of {ROOT} has not built it")
    return STUB
