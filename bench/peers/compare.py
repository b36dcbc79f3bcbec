"""Measures all arms in turn and writes what it saw, one record per arm, size, pattern and round.

    compare.py --out FILE [--quick] [--only ARM[,ARM]] [--sizes 64,1024] [--rounds N] [--append]

`--only` always takes "nothing" and "heliostat" along: ratios are of one run. Records of arms that
this run did not measure stay in FILE, so a long comparison may be taken in pieces; `--append`
keeps those of earlier rounds as well.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from arms import ARMS
from load import PATTERNS
from pair import Missing, Pair

MIB = 1 << 20
# Slots, samples and buffers are used for the second time after so many versions, in every arm.
# Written sparsely, so that no arm learns a habit that the first pattern does not have.
WARM_STEPS, WARM_PATTERN = 5, "10 % scattered"
# What a pattern before left behind (slots that lag, chunks that turned hot) is paid before the
# figures are taken.
SETTLING_STEPS = 5
ROUNDS = {64: 3, 1024: 2}


def median(values: list) -> float | None:
    return statistics.median(values) if values else None


def one_step(pair: Pair, pattern: str, want: str) -> dict:
    """A step and the look at it: what the producer paid and what the consumer saw."""
    told = {"pattern": pattern, "want": want, "limit": 30.0}
    orders = {"producer": told | {"job": "step"}}
    if pair.arm.has_consumer():
        orders["consumer"] = told | {"job": "look"}
    answers = pair.ask(**orders)
    step = answers["producer"]
    seen = answers.get("consumer") or step.pop("inside", None)
    if seen:
        step |= seen | {"latency_ns": seen["touched"] - step["at"]}
    elif pair.arm.consumer:
        raise Missing("the consumer saw no version in 30 s")
    return step


def lockstep(pair: Pair, pattern: str, want: str, steps: int, seconds: float) -> dict:
    """Medians over some steps, each seen before the next is made."""
    if pair.arm.has_consumer():
        pair.ask(consumer={"job": "drain"})
    for _ in range(SETTLING_STEPS if want == "all" else 1):
        one_step(pair, pattern, want)
    ends, samples = time.monotonic() + seconds, []
    while len(samples) < 2 or (len(samples) < steps and time.monotonic() < ends):
        samples.append(one_step(pair, pattern, want))
    keys = (
        "write_ns", "publish_ns", "first_ns", "read_ns", "latency_ns", "write_cpu_ns",
        "publish_cpu_ns", "read_cpu_ns",
    )  # fmt: skip
    found = {key: median([one[key] for one in samples if key in one]) for key in keys}
    found["torn"] = sum(not one.get("whole", True) for one in samples)
    return found


def free(pair: Pair, pattern: str, seconds: float) -> dict:
    """Both as fast as they can for some seconds: steps and versions seen per second."""
    told = {"pattern": pattern, "want": "all", "seconds": seconds}
    orders = {"producer": told | {"job": "produce"}}
    if pair.arm.has_consumer():
        orders["consumer"] = told | {"job": "follow", "seconds": seconds}
    answers = pair.ask(**orders)
    made = answers["producer"]
    followed = answers.get("consumer", made)
    rate = made["steps"] / (made["ns"] / 1e9)
    seen = followed.get("seen", 0) / seconds
    return {"steps_per_s": rate, "seen_per_s": seen, "free_torn": followed.get("torn", 0)}


def cell(pair: Pair, pattern: str, asked: argparse.Namespace) -> dict:
    """All that is measured of one arm with one pattern."""
    whole = lockstep(pair, pattern, "all", asked.steps, asked.seconds)
    part = lockstep(pair, pattern, "part", asked.steps, asked.seconds / 2)
    found = whole | {"part_ns": part["read_ns"], "part_torn": part["torn"]}
    found |= free(pair, pattern, asked.seconds)
    return found | {"memory_bytes": pair.memory_bytes()}


def one_arm(name: str, size_bytes: int, asked: argparse.Namespace) -> list[dict]:
    """One arm with every pattern, in processes of its own."""
    arm = ARMS[name]
    patterns = [pattern for pattern in PATTERNS if pattern == "100 %" or not arm.only_whole]
    warm = WARM_PATTERN if WARM_PATTERN in patterns else patterns[-1]
    pair = Pair(name, arm, size_bytes)
    try:
        for _ in range(WARM_STEPS):
            one_step(pair, warm, "all")
        if arm.has_consumer():
            free(pair, warm, 0.1)
        return [{"pattern": pattern} | cell(pair, pattern, asked) for pattern in patterns]
    finally:
        pair.close()


def measure(asked: argparse.Namespace) -> None:
    """All rounds: the arms take turns in each. Writes after each arm, so that a comparison that
    was ended early keeps what it has."""
    kept = json.loads(asked.out.read_text()) if asked.out.exists() else []
    if not asked.append:
        redone = {(name, size) for name in asked.arms for size in asked.sizes}
        kept = [one for one in kept if (one["arm"], one["size_mib"]) not in redone]
    for size in asked.sizes:
        for turn in range(asked.rounds or ROUNDS.get(size, 2)):
            for name in asked.arms:
                head = {"arm": name, "size_mib": size, "round": turn}
                try:
                    found = one_arm(name, size * MIB, asked)
                except Missing as missing:
                    found = [{"missing": str(missing)}]
                kept += [head | one for one in found]
                asked.out.write_text(json.dumps(kept, indent=1) + "\n")
                said = found[0].get("missing", "measured")
                print(f"{size} MiB, round {turn + 1}: {name}: {said}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--quick", action="store_true", help="64 MiB, one round")
    parser.add_argument("--only", default="", help="arms with commas between")
    parser.add_argument("--sizes", help="MiB, with commas between")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--append", action="store_true", help="keep the records of earlier rounds")
    asked = parser.parse_args()
    sizes = asked.sizes or ("64" if asked.quick else "64,1024")
    asked.sizes = [int(size) for size in sizes.split(",")]
    asked.rounds = asked.rounds or (1 if asked.quick else None)
    asked.steps, asked.seconds = (3, 0.2) if asked.quick else (10, 0.5)
    wanted = [name for name in asked.only.split(",") if name]
    asked.arms = [
        name for name in ARMS if not wanted or name in ("nothing", "heliostat") or name in wanted
    ]
    return asked


if __name__ == "__main__":
    measure(arguments())
