"""Redis GET and SET, unmodified server and redis-benchmark: rate, latency and server CPU.

Compared with the better of TCP's two placements (client and server on one core, or a core
each), because the kernel may choose either. Aims: GET with 50 connections 8 times, with one
connection 5 times (10 times a core each against a core each), pipelined 1.5 times; server
CPU per GET at most a sixth.
"""

from __future__ import annotations

import statistics

import redis_load
from measure import P50, P99, RATE, SERVER_CPU, Bench, Result, compare_best, placements
from redis_load import HELIOSTAT, TCP, UNIX, Load

LOADS = [Load(50), Load(1), Load(50, 16)]
AIM_GET = {Load(50): 8.0, Load(1): 5.0, Load(50, 16): 1.5}
AIM_CPU = {Load(50): 6.0}
AIM_TWO_CORES_ONE_CLIENT = 10.0


def sample_arms(bench: Bench, servers: dict, load: Load, test: str) -> dict:
    """{arm: [figures, ...]} with the arms in turn."""
    harness = bench.harness
    requests = {arm: redis_load.requests_for(harness, s, load, bench.seconds) for arm, s in servers.items()}
    return bench.alternate(
        {arm: (arm, server) for arm, server in servers.items()},
        lambda pair: redis_load.once(harness, pair[1], load, test.lower(), requests[pair[0]])[test],
    )


def compare(bench: Bench, samples: dict, load: Load, test: str) -> list[Result]:
    """Rate, latencies and server CPU against TCP, the rate against the Unix socket too."""
    aims = {RATE: AIM_GET.get(load), SERVER_CPU: AIM_CPU.get(load)} if test == "GET" else {}
    ours = HELIOSTAT.name
    found = [
        compare_best(bench, f"{test} {load} vs TCP", samples, value, (ours, TCP.name), aims.get(value))
        for value in (RATE, P50, P99, SERVER_CPU)
    ]
    unix = (ours, UNIX.name)
    return found + [compare_best(bench, f"{test} {load} vs Unix socket", samples, RATE, unix)]


def core_each(bench: Bench, samples: dict, load: Load, test: str) -> list[Result]:
    """One connection, a core each against a core each."""
    apart = {arm: rounds for arm, rounds in samples.items() if arm[1] == "two cores"}
    if load != Load(1) or test != "GET" or not apart:
        return []
    name, pair = f"{test} {load} vs TCP, a core each", (HELIOSTAT.name, TCP.name)
    return [compare_best(bench, name, apart, RATE, pair, AIM_TWO_CORES_ONE_CLIENT)]


def measure(bench: Bench) -> list[Result]:
    transports = [TCP, UNIX] + ([] if bench.harness.plain else [HELIOSTAT])
    servers = {
        (transport.name, place.name): redis_load.start(bench.harness, transport, place)
        for transport in transports
        for place in placements()
    }
    found = []
    for load in LOADS:
        for test in ("GET", "SET"):
            samples = sample_arms(bench, servers, load, test)
            found += compare(bench, samples, load, test) + core_each(bench, samples, load, test)
            rates = {arm: statistics.median(one["rate"] for one in r) for arm, r in samples.items()}
            shown = (f"{name} {place} {rate:,.0f}/s" for (name, place), rate in rates.items())
            print(f"  {test} {load}: " + ", ".join(shown), flush=True)
    return found
