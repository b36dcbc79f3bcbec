"""Redis under Heliostat, its clients plain: with a loop of the network service, and without it.

redis-benchmark stands for remote clients: it is not under Heliostat, so every connection is one that
the service may carry. "carried" is forced (`[network] delegate = "always"`), since on two cores the
rule says no; the loop shares the cores with everybody. The aim, 1.6 times plain Linux for GET with 50
connections, is one for sixteen cores, where the loop has a core that nobody else needs.
"""

from __future__ import annotations

import os
import shutil

import redis_load
from heliostat_run import Harness, Side
from measure import P50, P99, RATE, SERVER_CPU, Bench, Placement, Result, compare_best
from redis_load import Load, Transport

LOADS = [Load(50), Load(1), Load(50, 16)]
AIM_CORES, AIM_GET = 16, 1.6
PLAIN = Transport("plain", Side.PLAIN)
CARRIED = Transport("carried", Side.HELIOSTAT)
FREE = Placement("any cores", None, None)


def once(harness: Harness, server: redis_load.Server, load: Load, requests: int) -> dict[str, float]:
    """As `redis_load.once` of GET, from a client that is plain."""
    plain = redis_load.Server(server.program, PLAIN, server.place, server.port, server.socket)
    return redis_load.once(harness, plain, load, "get", requests)["GET"]


def measure(bench: Bench) -> list[Result]:
    missing = [name for name in ("redis-server", "redis-benchmark") if not shutil.which(name)]
    if missing:
        print(f"  redis is skipped: {', '.join(missing)} is not installed", flush=True)
        return []
    servers = {"plain": redis_load.start(bench.harness, PLAIN, FREE)}
    if bench.harness.plain:
        return rows(bench, servers, bench.harness)
    with Harness(configuration='[network]\ndelegate = "always"\n') as harness:
        servers["carried"] = redis_load.start(harness, CARRIED, FREE)
        found = rows(bench, servers, harness)
        loops = harness.status()["network"]["loops"]
        print(f"  loops: {loops}", flush=True)
        if not sum(loop["handed"] for loop in loops):
            raise RuntimeError("no connection was carried")
        return found


def rows(bench: Bench, servers: dict, harness: Harness) -> list[Result]:
    found = []
    cores = len(os.sched_getaffinity(0))
    for load in LOADS:
        plain = redis_load.Server(servers["plain"].program, PLAIN, FREE, servers["plain"].port, servers["plain"].socket)
        requests = redis_load.requests_for(bench.harness, plain, load, bench.seconds)
        arms = {(name, FREE.name): (name, server) for name, server in servers.items()}
        samples = bench.alternate(arms, lambda pair, load=load, n=requests: once(harness, pair[1], load, n))
        for value in (RATE, P50, P99, SERVER_CPU):
            aim = AIM_GET if value is RATE and load == Load(50) and cores >= AIM_CORES else None
            found.append(compare_best(bench, f"GET {load}, plain clients", samples, value, ("carried", "plain"), aim))
    return found
