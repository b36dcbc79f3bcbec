"""The benchmarks by name: `python bench/run.py all|NAME[,NAME] [--quick] [--plain] [--full]`.

Each benchmark is a module in bench/suite with one function, measure(bench) -> results. A
table is printed and target/bench/NAME.json written; a missed aim is shown, not an error,
because a figure belongs to a machine and a minute.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parent
sys.path[:0] = [str(BENCH), str(BENCH.parent / "verify")]

import measure  # noqa: E402
from heliostat_run import Harness  # noqa: E402

NAMES = [
    "pingpong", "bandwidth", "redis", "memcached", "nginx", "connect", "control", "idle", "startup", "files", "sealed", "sealed_starts", "snapshot", "queue",
    "network", "delegated", "memory", "cluster", "isolation", "contended", "contention", "ring", "log", "wordcount", "durable",
    "peers", "cores", "offload", "listeners", "coprocessor", "solros",
    "sweep", "sweep_numpy", "store", "checkpoint", "outside",
]  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?", default="all", help="all, or names with commas between")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter repetitions")
    parser.add_argument("--plain", action="store_true", help="plain Linux only")
    parser.add_argument("--full", action="store_true", help="also what takes minutes (snapshot: 1 GiB)")
    parser.add_argument("--repetitions", type=int, help="rounds of each comparison")
    return parser.parse_args()


def run_one(name: str, asked: argparse.Namespace) -> None:
    """Measures one benchmark in a harness of its own, prints and writes it."""
    suite = importlib.import_module(f"suite.{name}")
    repetitions = asked.repetitions or (3 if asked.quick else 5)
    with Harness(plain=asked.plain) as harness:
        bench = measure.Bench(harness, repetitions, 0.5 if asked.quick else 2.0, full=asked.full, quick=asked.quick)
        results = suite.measure(bench)
    path = measure.write(name, results)
    print(f"\n== {name} ==\n{measure.table(results)}")
    notes = sorted({result.note for result in results if result.note})
    print("\n".join(notes + [f"written to {path}"]), flush=True)


def main() -> int:
    asked = arguments()
    names = NAMES if asked.names == "all" else asked.names.split(",")
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
        return 2
    failed = []
    for name in names:
        try:
            run_one(name, asked)
        except (RuntimeError, TimeoutError, OSError) as error:
            print(f"\n== {name} ==\nFAILED: {error}", flush=True)
            failed.append(name)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
