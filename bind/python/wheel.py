#!/usr/bin/env python3
"""Builds the wheel: the extension module, and Heliostat's programs beside it as package data.

    wheel.py [--release-folder target/release] [--out target/wheels]

The programs must have been built (`make build`); they go into the package without their debug
information. Prints the wheel's path.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
PACKAGED = HERE / "python/heliostat/_bin"
PROGRAMS = ("heliostat", "heliostatd", "libheliostat_posix.so")


def pack_programs(built: Path) -> None:
    """Puts the programs into the package, stripped, with the right to be executed."""
    PACKAGED.mkdir(exist_ok=True)
    for name in PROGRAMS:
        source, packed = built / name, PACKAGED / name
        if not source.is_file():
            raise SystemExit(f"{source} is not there; run `make build`")
        # A new file each time: an old one may be running.
        packed.unlink(missing_ok=True)
        shutil.copy(source, packed)
        packed.chmod(0o755)
        if strip := shutil.which("strip"):
            subprocess.run([strip, "--strip-debug", packed], check=True)


def build(out: Path) -> Path:
    """Lets maturin build and pack the module; the wheel's path."""
    shutil.rmtree(out, ignore_errors=True)
    command = [sys.executable, "-m", "maturin", "build", "--release", "--locked", "--strip"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    command += ["--out", str(out), "--manifest-path", str(HERE / "Cargo.toml")]
    subprocess.run(command, cwd=HERE, env=environment, check=True, stdout=sys.stderr)
    (wheel,) = out.glob("heliostat-*.whl")
    return wheel


def main() -> None:
    """Packs and builds."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--release-folder", type=Path, default=TARGET / "release")
    options.add_argument("--out", type=Path, default=TARGET / "wheels")
    chosen = options.parse_args()
    pack_programs(chosen.release_folder.resolve())
    print(build(chosen.out.resolve()))


if __name__ == "__main__":
    main()
