"""The Rust programs of test_rust.py, built on demand; what was built before is kept.

The sources' owner builds them. Everybody else, who may have neither the compiler nor a place in the
build's folder, takes what the owner has built.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from heliostat_run import ROOT

CRATE = Path(__file__).resolve().parent / "rust"
TARGET = ROOT / "target/verify-rust"
BUILT = TARGET / "release/rust-programs"
SECONDS = 1200


def build() -> Path:
    """Builds them by their owner; where they are."""
    if os.stat(CRATE).st_uid == os.geteuid():
        words = ["cargo", "build", "--release", "--locked", "--manifest-path", str(CRATE / "Cargo.toml")]
        subprocess.run(words, env={**os.environ, "CARGO_TARGET_DIR": str(TARGET)}, check=True, timeout=SECONDS)
    if not BUILT.exists():
        raise FileNotFoundError(f"{BUILT}: the owner of {CRATE} has not built it")
    return BUILT
