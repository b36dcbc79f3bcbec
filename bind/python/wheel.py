#!/usr/bin/env python3
"""Builds the wheel, or with --source the source distribution.

    wheel.py [--source] [--release-folder target/release] [--out target/wheels]

The wheel has the extension module, and Heliostat's programs beside it as package data; they must have
been built (`make build`; `target/debug` for tests), and go in without their debug information. Its platform tag is computed from
what the module and the programs ask of glibc: manylinux_2_35 is for any distribution with glibc 2.35
or newer. Prints the path of what was made.
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
sys.path[:0] = [str(HERE / "backend"), str(ROOT / "packaging")]

import glibc  # noqa: E402
import programs  # noqa: E402
import sources  # noqa: E402


def platform(files: list[Path]) -> str:
    """The tag of machines on which all of the files can be loaded."""
    return "manylinux_{}_{}".format(*glibc.needed(files))


def build(built: Path, out: Path) -> Path:
    """Lets maturin build and pack the module; the wheel's path."""
    shutil.rmtree(out, ignore_errors=True)
    packed = programs.pack(built, HERE)
    # As the programs were built: a second build of everything takes minutes.
    profile = "dev" if built.name == "debug" else "release"
    command = [sys.executable, "-m", "maturin", "build", "--profile", profile, "--locked", "--strip"]
    # maturin refuses a tag that the module needs more than, and knows nothing of the programs.
    command += ["--compatibility", platform([*packed, built / "libheliostat_python.so"])]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    command += ["--out", str(out), "--manifest-path", str(HERE / "Cargo.toml")]
    subprocess.run(command, cwd=HERE, env=environment, check=True, stdout=sys.stderr)
    (wheel,) = out.glob("heliostat-*.whl")
    return wheel


def main() -> None:
    """Packs and builds."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--source", action="store_true", help="the source distribution")
    options.add_argument("--release-folder", type=Path, default=TARGET / "release")
    options.add_argument("--out", type=Path)
    chosen = options.parse_args()
    out = (chosen.out or TARGET / ("sdist" if chosen.source else "wheels")).resolve()
    if chosen.source:
        out.mkdir(parents=True, exist_ok=True)
        print(sources.write(ROOT, out))
    else:
        print(build(chosen.release_folder.resolve(), out))


if __name__ == "__main__":
    main()
