"""Load with random kills for a long time; nothing may be wrong, left behind or growing.

`python verify/soak.py --minutes 10 [--seed N] [--snapshots]`. Each round starts checked transfers and a
Redis under load, kills or stops a random one of them, and requires that every untouched
transfer is whole. At the end the control plane must be as small as after the first rounds.
The seed is printed; with it the same rounds are run again. With `--snapshots` each round is
a run of the snapshot verifier with engine, placement, memory, policy and size drawn, up to 1 GiB.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE / "faults"), str(HERE / "programs"), str(HERE / "snapshot")]

import kernel_view  # noqa: E402
import regions  # noqa: E402
from fault_pairs import start_transfer, transfer_result  # noqa: E402
from heliostat_run import Harness, Side  # noqa: E402
from real_programs import start_redis  # noqa: E402

WARM_ROUNDS = 3
GROWTH_BYTES_MAX = 4 << 20


def one_round(harness: Harness, chance: random.Random) -> str:
    """Three transfers and a loaded Redis, one of them struck; what was done, or an exception."""
    port, redis = start_redis(harness, Side.HELIOSTAT)
    words = ["redis-benchmark", "-p", port, "-c", str(chance.choice([1, 20, 50])), "-n", "100000000", "-q"]
    load = harness.start(Side.HELIOSTAT, [*words, "-t", "set,get"])
    transfers = [start_transfer(harness, Side.HELIOSTAT, 2) for _ in range(3)]
    victim = chance.choice([redis, load, *transfers[0]])
    number = chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP])
    time.sleep(chance.uniform(0, 1.5))
    os.kill(victim.pid, number)
    for taker, sender in transfers[1:]:
        sent, taken = transfer_result(taker, sender)
        if sent != taken or not int(sent):
            raise AssertionError(f"sent {sent}, taken {taken} after {number!r} to {victim.name}")
    for program in (redis, load, *transfers[0]):
        program.kill()
        program.process.wait()
    harness.programs.clear()
    kernel_view.wait_until(lambda: not harness.status()["sessions"], 60, "no sessions")
    return f"{signal.Signals(number).name} to {victim.name}"


SNAPSHOTS = {
    "engine": ["tracked", "tracked", "declared", "whole", "remap"],
    "placement": ["probed", "chunks", "slab"],
    "memory": ["anonymous", "malloc", "huge", "file", "memfd"],
    "flow": ["latest", "keep", "wait", "skip"],
    "consumers": [1, 2, 3, 5, 8],
    "least": [20, 500, 5000],
}
GIB_EVERY = 4  # rounds


def snapshot_rounds(chance: random.Random, end: float) -> int:
    """Runs of the verifier until the time is over; 1 with the words of the first that failed."""
    number = 0
    while time.monotonic() < end or not number:
        orders = {key: chance.choice(values) for key, values in SNAPSHOTS.items()}
        orders |= {"chaos": "all", "seed": chance.randrange(1 << 32), "mib": chance.choice([16, 64, 256])}
        if number % GIB_EVERY == 0:
            # Few places: each may take as much memory as the region has.
            orders |= {"mib": 1024, "consumers": 1, "colours": 4, "rounds": 40}
        words = ["run", *regions.words({"rounds": 200, **orders})]
        print(f"round {number}: snapshot-verifier {' '.join(words)}", flush=True)
        if subprocess.run([regions.VERIFIER, *words], timeout=600).returncode != 0:
            return 1
        number += 1
    return 0


def size(harness: Harness) -> tuple[int, int]:
    """(descriptors, resident bytes) of the control plane."""
    pid = harness.control_plane()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return len(os.listdir(f"/proc/{pid}/fd")), pages * os.sysconf("SC_PAGE_SIZE")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--snapshots", action="store_true", help="versions of memory instead of streams")
    asked = parser.parse_args()
    chance, end, rounds, first = random.Random(asked.seed), time.monotonic() + asked.minutes * 60, 0, None
    mode = " --snapshots" if asked.snapshots else ""
    print(f"replay: python verify/soak.py --minutes {asked.minutes} --seed {asked.seed}{mode}", flush=True)
    if asked.snapshots:
        return snapshot_rounds(chance, end)
    with Harness() as harness:
        while time.monotonic() < end or rounds <= WARM_ROUNDS:
            print(f"round {rounds}: {one_round(harness, chance)}", flush=True)
            rounds += 1
            first = size(harness) if rounds == WARM_ROUNDS else first
        last = size(harness)
    grown = last[0] > first[0] or last[1] > first[1] + GROWTH_BYTES_MAX
    print(f"{rounds} rounds; control plane: {first} at first, {last} at last{': GROWN' if grown else ''}")
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
