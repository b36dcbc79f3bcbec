"""Redis, unmodified, over TCP, a Unix socket and Heliostat: one table and one picture.

GET and SET with 1 and 50 connections and pipelined, both placements (client and server on
one core, or a core each), the better one of each transport compared. The data path is
checked first: when Redis' connections are not direct, the demo says so and fails.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parent / "verify")]

import redis_load  # noqa: E402
from heliostat_run import Harness  # noqa: E402
from measure import ROOT, Bench, best, figure, placements  # noqa: E402
from picture import draw  # noqa: E402
from redis_load import HELIOSTAT, TCP, UNIX, Load  # noqa: E402

REPORT = Path(os.environ.get("HELIOSTAT_REPORT", ROOT / "target")) / "demo"
LOADS = [Load(1), Load(50), Load(50, 16)]
COMMANDS = ["GET", "SET"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plain", action="store_true", help="without Heliostat, to try the demo itself")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each load")
    parser.add_argument("--seconds", type=float, default=0.8, help="length of one load")
    return parser.parse_args()


def require_direct(harness: Harness, server: redis_load.Server) -> None:
    """Ends the demo unless every connection of the server takes the direct path."""
    count = redis_load.paths(harness, server)
    print(f"path of redis-server's connections: {count['direct']} direct, {count['native']} native")
    if count["direct"] == 0 or count["native"] > 0:
        sys.exit("not direct: `heliostat explain PID` says why; nothing was measured")


def sample_load(bench: Bench, servers: dict, load: Load) -> dict:
    """{(transport, placement): [{"GET": figures, "SET": figures}, ...]}, arms in turn."""
    seconds, requests = bench.seconds, {}
    for arm, server in servers.items():
        requests[arm] = redis_load.requests_for(bench.harness, server, load, seconds)
    asked = ",".join(COMMANDS).lower()

    def sample(arm: tuple) -> dict:
        figures = redis_load.once(bench.harness, servers[arm], load, asked, requests[arm])
        said = ", ".join(f"{name} {one['rate']:>11,.0f}/s" for name, one in figures.items())
        print(f"  {load!s:>30}  {arm[0]:<11} {arm[1]:<9}  {said}", flush=True)
        return figures

    return bench.alternate({arm: arm for arm in servers}, sample)


def summarise(samples: dict, load: Load) -> list[dict]:
    """For each command the better placement of each transport: median, spread, p99."""
    found = []
    for command in COMMANDS:
        entry = {"command": command, "load": str(load), "transports": {}}
        for transport in dict.fromkeys(name for name, _ in samples):
            rates = {p: [s[command]["rate"] for s in r] for (t, p), r in samples.items() if t == transport}
            place, rate = best(rates)
            p99 = statistics.median(s[command]["p99_us"] for s in samples[transport, place])
            cpu = statistics.median(s[command]["cpu_ns"] for s in samples[transport, place])
            entry["transports"][transport] = {
                "per_second": statistics.median(rate), "lowest": min(rate), "highest": max(rate),
                "placement": place, "p99_us": p99, "server_cpu_ns_per_request": cpu,
            }  # fmt: skip
        found.append(entry)
    return found


def print_table(entries: list[dict]) -> None:
    """The summary, one line per command, load and transport, with the ratio to TCP."""
    print(f"\n{'':36}{'requests/s':>12}{'lowest..highest':>24}{'p99':>10}   placement   against TCP")
    for entry in entries:
        base = entry["transports"][TCP.name]["per_second"]
        print(f"{entry['command']}, {entry['load']}")
        for name, one in entry["transports"].items():
            spread = f"{one['lowest']:,.0f}..{one['highest']:,.0f}"
            ratio = one["per_second"] / base
            print(
                f"    {name:<32}{one['per_second']:>12,.0f}{spread:>24}"
                f"{figure(one['p99_us']):>7} us   {one['placement']:<9}   {ratio:.2f} x"
            )


def write(entries: list[dict], bench: Bench) -> None:
    """target/demo/redis.json and redis.png."""
    REPORT.mkdir(parents=True, exist_ok=True)
    picture, data = REPORT / "redis.png", REPORT / "redis.json"
    data.write_text(json.dumps({"cacheline_ns": bench.cacheline_ns(), "results": entries}, indent=1) + "\n")
    draw(entries, "Unmodified redis-server and redis-benchmark on one machine", picture)
    print(f"\npicture: {picture}\nfigures: {data}")
    print("\nYour own programs, both ends, unmodified:\n    heliostat run -- PROGRAM [ARGUMENTS]")


def main() -> int:
    asked, started = arguments(), time.monotonic()
    transports = [TCP, UNIX] + ([] if asked.plain else [HELIOSTAT])
    with Harness(plain=asked.plain) as harness:
        bench = Bench(harness, asked.rounds, asked.seconds)
        print("starting redis-server once per transport and placement; nothing is recompiled or configured")
        servers = {
            (transport.name, place.name): redis_load.start(harness, transport, place)
            for transport in transports
            for place in placements()
        }
        if not asked.plain:
            require_direct(harness, servers[HELIOSTAT.name, placements()[0].name])
        entries = [entry for load in LOADS for entry in summarise(sample_load(bench, servers, load), load)]
        print_table(entries)
        write(entries, bench)
    print(f"took {time.monotonic() - started:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
