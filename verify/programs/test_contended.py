"""Waiting beside busy loops and beside a peer that thinks: never far behind the kernel's path.

What a turn takes is compared with the same programs' turns over the kernel's path, measured
by turns in the same test. The bounds are wide and the best of some rounds counts, for other
load on the machine may only make a round worse; what they catch is ten to a thousand times off.
"""

from __future__ import annotations

import json
import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, ROOT, Harness, Side

pytestmark = pytest.mark.heliostat

SOURCE = ROOT / "bench/programs/turns.c"
DIRECT, KERNEL = ("run", "--"), ("run", "--no-direct", "--")
# At most; the first round within the bound is enough.
ROUNDS = 12
SECONDS = 0.7
LOOPS = 4
BUSY = "while :; do :; done"


@pytest.fixture(scope="module")
def turns(tmp_path_factory) -> Path:
    """The measuring program, compiled."""
    binary = tmp_path_factory.mktemp("turns") / "turns"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", str(binary), str(SOURCE)], check=True)
    return binary


@contextmanager
def busy_loops(harness: Harness, per_core: int):
    """Loops in the session of the programs, so many for each core."""
    count = per_core * len(os.sched_getaffinity(0))
    # Each is this process's own child, which dies with it: children of a shell would outlive both.
    loops = [harness.start(Side.PLAIN, ["sh", "-c", BUSY], name="loop", session=False) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.process.wait()


def once(harness: Harness, turns: Path, way: tuple, how: str, work: tuple, cores: tuple) -> dict:
    """What the client says of its turns; `work` in us and `cores` are the server's and the client's."""
    port = kernel_view.free_port()
    server = harness.start(
        Side.PLAIN, [BINARY, *way, turns, "server", port, how, work[0]], core=cores[0], session=False
    )
    kernel_view.wait_listening(port, server.process)
    client = harness.start(
        Side.PLAIN, [BINARY, *way, turns, "client", port, how, work[1], 1, SECONDS], core=cores[1], session=False
    )
    status = client.wait(120)
    server.kill()
    server.process.wait()
    assert status == 0, client.errors()
    return json.loads(client.output())


def best_ratio(bound: float, figure: str, *arguments) -> float:
    """How many times the kernel path's figure the direct path's is, in the first round within a bound."""
    harness, turns, *rest = arguments
    ratios = []
    for _ in range(ROUNDS):
        direct = once(harness, turns, DIRECT, *rest)
        kernel = once(harness, turns, KERNEL, *rest)
        ratios.append(direct[figure] / kernel[figure])
        if ratios[-1] < bound:
            break
    return min(ratios)


@pytest.mark.parametrize("how", ["threads", "epoll"])
def test_a_turn_beside_busy_loops_takes_no_slices(harness, turns, how) -> None:
    with busy_loops(harness, LOOPS):
        ratio = best_ratio(3, "p50_us", harness, turns, how, (30, 30), (None, None))
    assert ratio < 3, f"{ratio:.1f} times the kernel path's median"


def test_bells_of_a_peer_that_gets_none_are_not_held_back(harness, turns) -> None:
    cores = sorted(os.sched_getaffinity(0))
    ratio = best_ratio(10, "p99_us", harness, turns, "epoll", (0, 300), (cores[0], cores[-1]))
    assert ratio < 10, f"{ratio:.1f} times the kernel path's p99"
