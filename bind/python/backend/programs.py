"""Heliostat's programs as package data: which, how they are built, and how they are packed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

PROGRAMS = ("heliostat", "heliostatd", "libheliostat_posix.so")
BUILD = [
    "build", "--release", "--locked", "--package", "heliostat-command", "--package", "heliostatd",
    "--package", "heliostat-posix",
]  # fmt: skip


def pack(built: Path, package: Path) -> list[Path]:
    """Puts the programs into the package, stripped, with the right to be executed; their paths."""
    packaged, packed = package / "python/heliostat/_bin", []
    packaged.mkdir(exist_ok=True)
    for name in PROGRAMS:
        source, place = built / name, packaged / name
        if not source.is_file():
            raise SystemExit(f"{source} is not there; run `make build`")
        # A new file each time: an old one may be running.
        place.unlink(missing_ok=True)
        shutil.copy(source, place)
        place.chmod(0o755)
        if strip := shutil.which("strip"):
            subprocess.run([strip, "--strip-debug", place], check=True)
        packed.append(place)
    return packed
