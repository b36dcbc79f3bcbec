"""The lean interface answers as the kernel does: one thread, emulated warps and blocks, unsealed and sealed.

One program makes the same calls by the kernel, by `heliostat_lean.h` from one thread, and by its forms
for warps and for blocks from 32 fibers. What the kernel answered in the same test is what the others
have to answer: nothing is written down.
"""

from __future__ import annotations

import difflib
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from heliostat_run import ROOT, Harness, Side

HERE = Path(__file__).resolve().parent
HEADERS = ROOT / "bind/lean/include"
SEEDS = [1, 2, 3]
CASES_MIN = 450

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def shop():
    folder = Path(tempfile.mkdtemp(prefix="lean-cases-"))
    program = folder / "cases"
    gcc = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Wno-unused-function", "-pthread"]
    subprocess.run([*gcc, f"-I{HEADERS}", "-o", program, *sorted((HERE / "lean").glob("*.c"))], check=True)
    with Harness() as harness:
        yield harness, folder, program
    shutil.rmtree(folder)


def answers(shop, way: str, seed: int, *how: str) -> list[str]:
    """What the cases print by a way, and the tree that they leave."""
    harness, folder, program = shop
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    words = [str(program), way, str(tree), str(seed)]
    if way == "kernel":
        done = harness.run(Side.PLAIN, words)
    else:
        reach = ["--root", f"{tree}:rw", "--listen", "127.0.0.1:*", "--connect", "127.0.0.1:*"]
        heliostat = [str(ROOT), "--"][1:]
        words = [*coprocessor(*how, *reach), *heliostat, *words]
        done = harness.run(Side.PLAIN, words)
    assert done.process.returncode == 0, done.errors()
    left = [f"{path.relative_to(tree)} {path.stat().st_size} {path.stat().st_mode:o}" for path in sorted(tree.rglob("*"))]
    return done.output().splitlines() + left


def coprocessor(*words: str) -> list[str]:
    from heliostat_run import BINARY

    return [str(BINARY), "coprocessor", "run", *words]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("how", [["--unsealed"], [], ["--watch"]], ids=["unsealed", "sealed", "watched"])
@pytest.mark.parametrize("way", ["lean", "warps", "blocks"])
def test_every_call_answers_as_the_kernels_does(shop, way, how, seed):
    kernel, lean = answers(shop, "kernel", seed), answers(shop, way, seed, *how)
    assert len(kernel) >= CASES_MIN, len(kernel)
    found = list(difflib.unified_diff(kernel, lean, "kernel", way, lineterm="", n=1))
    assert not found, "\n".join(found[:60])
