"""Random operations on one tree by several processes, each answer compared with a model's.

`python verify/conformance/random_tree.py --operations 1000000 [--seed N] [--ways plain,sealed]`.
Three processes are one program, run plainly, under Heliostat, or sealed; the fourth is always plain
and changes the same files between their steps. The model (random/model.c) lies in memory that all
four map: it is an account of what POSIX says, and knows nothing of the kernel. The same seed gives
the same operations and the same log on every way. The seed is printed; it replays the run.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from heliostat_run import BINARY, Harness, Program, Side, Way  # noqa: E402

# Of the four processes.
INSIDE = 3


def compiled(folder: Path, static: bool = False) -> Path:
    program = folder / ("walk-static" if static else "walk")
    gcc = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", *(["-static"] if static else [])]
    subprocess.run([*gcc, "-o", program, *sorted((HERE / "random").glob("*.c"))], check=True)
    return program


def prefix(way: Way, folder: Path) -> list[str]:
    """What stands before the program of the inside processes."""
    if way is Way.PLAIN:
        return []
    sealed = ["--sealed", "--grant", f"{folder}:rw"] if way is Way.SEALED else []
    return [str(BINARY), "run", *sealed, "--"]


def run(harness: Harness, way: Way, operations: int, seed: int, folder: Path, static: bool = False, seconds: float = 100) -> str:
    """Runs so many operations; the closing line. AssertionError with the difference if there is one."""
    program, state, tree = compiled(folder, static), folder / "state", folder / "tree"
    tree.mkdir()
    subprocess.run([program, "begin", state, str(seed), str(operations)], check=True)
    take = [program, "take", state, tree]
    # Held open, so that the first turn is not lost before somebody takes it.
    turn = os.open(f"{state}.0", os.O_RDWR)
    inside = harness.start(Side.PLAIN, [*prefix(way, folder), *take, "0", str(INSIDE)])
    outside = harness.start(Side.PLAIN, [*take, str(INSIDE), "1"])
    os.write(turn, b"t")
    ended = wait_for_both(inside, outside, seconds)
    os.close(turn)
    closing = subprocess.run([program, "end", state], capture_output=True, text=True).stdout.strip()
    told = inside.output() + inside.errors() + outside.output() + outside.errors()
    assert ended == [0, 0] and "as the model" in closing, f"{way.value}, seed {seed}, ended {ended}: {closing}\n{told}"
    return closing


def wait_for_both(one: Program, other: Program, seconds: float) -> list[int]:
    """How they ended. When one fails, the other waits for it for ever and is killed."""
    ends = time.monotonic() + seconds
    while None in (ended := [part.process.poll() for part in (one, other)]):
        if any(ended) or time.monotonic() > ends:
            time.sleep(0.5)
            one.kill()
            other.kill()
        time.sleep(0.02)
    return ended


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000, help="in total, shared by the ways")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--ways", default="plain,unsealed,sealed")
    parser.add_argument("--static", action="store_true", help="the statically linked program")
    asked = parser.parse_args()
    ways = [Way(name) for name in asked.ways.split(",")]
    print(f"replay: python verify/conformance/random_tree.py --operations {asked.operations} --seed {asked.seed} --ways {asked.ways}")
    closings = set()
    with Harness(plain=True) as harness:
        for way in ways:
            with tempfile.TemporaryDirectory() as folder:
                each = -(-asked.operations // len(ways))
                closing = run(harness, way, each, asked.seed, Path(folder), asked.static, 3600)
            print(f"{way.value}: {closing}", flush=True)
            closings.add(closing)
    return 0 if len(closings) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
