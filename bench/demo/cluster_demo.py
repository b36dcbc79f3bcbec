"""Word count on three nodes, of which one is killed in the middle: the right result, a table and a picture.

Each node has a network of its own where that is allowed, else a port of its own on loopback. The job runs twice,
once undisturbed, and once with `kill -9` of node 3, its control plane and its worker, when a third of the
tasks are done. Both results are compared, byte for byte, with those of one thread in plain Rust.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verify"), str(ROOT / "verify/applications")]

from cluster_picture import draw  # noqa: E402
from map_reduce import Job, plain, text_of  # noqa: E402
from nodes import Cluster, modes, registries  # noqa: E402

REPORT = Path(os.environ.get("HELIOSTAT_REPORT", ROOT / "target")) / "demo"
PHASES = ["plan", "start", "map", "reduce", "output"]
VICTIM = 3
UNDISTURBED, KILLED = "three nodes", f"three nodes, node {VICTIM} killed"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=int, default=200_000_000, help="length of the text")
    parser.add_argument("--split", type=int, default=4 << 20, help="bytes of a map task")
    parser.add_argument("--slow", type=int, default=0, help="milliseconds that each task takes at least")
    parser.add_argument("--mode", choices=modes(), default=modes()[-1], help="how nodes are kept apart")
    parser.add_argument("--registry", choices=registries(), default=registries()[-1], help="who says which nodes are members")
    parser.add_argument("--out", type=Path, default=REPORT, help="folder for text, figures and picture")
    return parser.parse_args()


def run(asked: argparse.Namespace, text: Path, output: Path, is_killed: bool) -> dict:
    """One job on a cluster of its own; what its master tells."""
    with Cluster(3, asked.mode, registry=asked.registry) as cluster:
        job = Job(cluster, "count", text, output, split=asked.split)
        for node in cluster.nodes:
            job.worker(node, slow=asked.slow)
        if is_killed:
            job.wait_working(VICTIM)
            job.wait_done(max(1, -(-asked.bytes // asked.split) // 3))
            cluster.kill(VICTIM)
        return job.result()


def print_table(seconds: float, runs: dict[str, dict]) -> None:
    """Seconds by phase, and what the death of a node has cost."""
    print(f"\n{'seconds':<34}" + "".join(f"{phase:>9}" for phase in [*PHASES, "all"]) + f"{'tasks again':>14}")
    print(f"{'one thread, plain Rust':<34}{'':>45}{seconds:>9.2f}")
    for name, told in runs.items():
        phases = "".join(f"{told['phases'][phase]:>9.3f}" for phase in PHASES)
        print(f"{name:<34}{phases}{told['seconds']:>9.2f}{told['again']:>14}")


def main() -> int:
    asked = arguments()
    out = asked.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    text = text_of(asked.bytes, out)
    right, runs = out / "one-thread.txt", {}
    seconds = plain("count", text, right)["seconds"]
    print(f"{asked.bytes:,} bytes of text; nodes by {asked.mode}, members by {asked.registry}", flush=True)
    for name, is_killed in ((UNDISTURBED, False), (KILLED, True)):
        output = out / "word-count.txt"
        runs[name] = run(asked, text, output, is_killed)
        if not filecmp.cmp(right, output, shallow=False):
            print(f"{name}: WRONG: {output} differs from {right}")
            return 1
        print(f"{name}: the result is that of one thread, {output.stat().st_size:,} bytes", flush=True)
    if [death["node"] for death in runs[KILLED]["deaths"]] != [VICTIM]:
        print(f"node {VICTIM} was killed too late to be missed: take a longer text")
        return 1
    print_table(seconds, runs)
    data, picture = out / "cluster.json", out / "cluster.png"
    data.write_text(json.dumps({"one_thread": seconds, "mode": asked.mode, "runs": runs}, indent=1) + "\n")
    draw(asked.bytes, seconds, runs, PHASES, picture)
    print(f"\npicture: {picture}\nfigures: {data}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
