"""Redis SET with `appendfsync always`: plain Linux over TCP against Heliostat with output commit.

Both keep every acknowledged write through a crash; plain Redis waits for the device in each turn of
its loop, under `--durable '*.aof'` replies wait instead, and with `--log` the flush is one write of a log. Aims: 5 times as many SETs with 50
connections, 1.3 times with one; GET is not hurt while others write. The files lie where
HELIOSTAT_BENCH_DISK says (a real disk; /var/tmp otherwise).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import redis_load
from heliostat_run import Side
from measure import P50, P99, RATE, SERVER_CPU, Bench, Result, compare_best, placements
from redis_load import HELIOSTAT, KEPT, TCP, Load, Transport

DISK = os.environ.get("HELIOSTAT_BENCH_DISK", "/var/tmp")
LOADS = {Load(50): 5.0, Load(1): 1.3}
SETS_MIN = 2_000
# Waits for the device, over direct connections: what the streams alone are worth.
DIRECT = Transport("Heliostat, waiting", Side.HELIOSTAT)
LOGGED = Transport("Heliostat, log", Side.HELIOSTAT)
DURABLE = "*.aof"


def servers(bench: Bench, folder: Path) -> dict:
    """One for each way and placement, with a folder each."""
    started = {}
    for transport in [TCP] + ([] if bench.harness.plain else [DIRECT, HELIOSTAT, LOGGED]):
        for place in placements():
            kept = folder / f"{len(started)}"
            kept.mkdir()
            durable = DURABLE if transport in (HELIOSTAT, LOGGED) else ""
            log = kept / "log" if transport is LOGGED else None
            started[transport.name, place.name] = redis_load.start(
                bench.harness, transport, place, KEPT, kept, durable, log
            )
    return started


def sets(bench: Bench, started: dict, load: Load, aim: float) -> list[Result]:
    """SET in every way, the better placement of each compared."""
    harness = bench.harness
    requests = {
        arm: redis_load.requests_for(harness, server, load, bench.seconds, "SET", SETS_MIN)
        for arm, server in started.items()
    }
    samples = bench.alternate(
        {arm: (arm, server) for arm, server in started.items()},
        lambda pair: redis_load.once(harness, pair[1], load, "set", requests[pair[0]])["SET"],
    )
    found = [
        compare_best(bench, f"{what} {load} vs TCP", samples, value, (ours.name, TCP.name), aim if value is RATE else None)
        for what, ours in (("durable SET", HELIOSTAT), ("durable SET by a log", LOGGED))
        for value in (RATE, P50, P99, SERVER_CPU)
    ]
    waiting = (HELIOSTAT.name, DIRECT.name)
    return found + [compare_best(bench, f"durable SET {load} vs waiting streams", samples, RATE, waiting)]


def gets_beside_sets(bench: Bench, started: dict) -> list[Result]:
    """GET with 50 connections while four others SET without a pause."""
    harness, load = bench.harness, Load(50)

    def sample(server: redis_load.Server) -> dict:
        words = redis_load.command(server, Load(4), "set", 10**9)
        writer = harness.start(server.transport.side, words, core=server.place.client)
        try:
            return redis_load.once(harness, server, load, "get", redis_load.REQUESTS_MIN)["GET"]
        finally:
            writer.kill()
            writer.process.wait()

    samples = bench.alternate(started, sample)
    pair = (LOGGED.name, TCP.name)
    return [
        compare_best(bench, "GET 50 connections beside 4 of durable SETs vs TCP", samples, value, pair, aim)
        for value, aim in ((RATE, 1.0), (P99, None))
    ]


def measure(bench: Bench) -> list[Result]:
    folder = Path(tempfile.mkdtemp(prefix="heliostat-durable-", dir=DISK))
    try:
        started = servers(bench, folder)
        found = [row for load, aim in LOADS.items() for row in sets(bench, started, load, aim)]
        found += gets_beside_sets(bench, started)
        for server in started.values():
            server.program.kill()
            server.program.process.wait()
        return found
    finally:
        shutil.rmtree(folder, ignore_errors=True)
