"""C programs that use Heliostat's library, built for tests of sealed programs."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from heliostat_run import BINARY, BUILT, ROOT

BINDING = ROOT / "bind/c"


def built(source: Path, folder: Path) -> Path:
    """The program of one source file."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile the program with")
    program = folder / source.stem
    words = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-I", BINDING / "include", source]
    words += [BUILT / "libheliostat_c.a", "-lpthread", "-ldl", "-lm", "-o", program]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return program


def run_sealed(harness, flags: list, words: list, **more) -> subprocess.CompletedProcess:
    """A program run sealed in the harness, to its end."""
    command = [str(BINARY), "run", "--sealed", *map(str, flags), "--", *map(str, words)]
    more = {"env": harness.environment(), "cwd": "/", "timeout": 120, **more}
    return subprocess.run(command, capture_output=True, text=True, **more)
