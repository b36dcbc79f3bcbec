"""Redis SET with `appendfsync always`: plain Linux over TCP against Heliostat with output commit.

Both keep every acknowledged write through a crash; plain Redis waits for the device in each turn of
its loop, under `--durable '*.aof'` replies wait instead, and with `--log` a flush is one write of a log. Aims: 5 times
as many SETs with 50 connections, 1.3 times with one, 3 times at 15 us a flush; GET is not hurt while others write.
The files lie where HELIOSTAT_BENCH_DISK says (a real disk; /var/tmp otherwise).

Then the same over files in memory with a simulated flush of 15 us, 100 us and 1 ms: for plain Redis by
bench/programs/slowflush.c, under Heliostat by the stub's own (feature `flush-faults`); and a table as in Arrakis's
paper: reads and durable writes of plain Linux, of plain Linux with our log beneath Redis
(bench/log/src/aof.rs), and of Heliostat. And SQLite and PostgreSQL (bench/databases.py), which wait for each
flush themselves: 0.95 of plain Linux at least. DURABLE=disk,15,100,1000,table,sqlite,postgres picks parts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import databases
import redis_load
from heliostat_run import BUILT, ROOT, Side
from measure import IS_BUILT, P50, P99, RATE, SERVER_CPU, Bench, Result, compare_best, own_package, placements
from redis_load import HELIOSTAT, KEPT, TCP, Load, Transport

DISK, MEMORY = os.environ.get("HELIOSTAT_BENCH_DISK", "/var/tmp"), "/dev/shm"
LOADS = (Load(50), Load(1))
SETS_MIN = 1_000
# Waits for the device, over direct connections: what the streams alone are worth.
DIRECT = Transport("Heliostat, waiting", Side.HELIOSTAT)
# What is appended goes to a log instead of being flushed.
LOGGED = Transport("Heliostat, log", Side.HELIOSTAT)
# Plain Linux; the append-only file is a log of ours.
OUR_LOG = Transport("TCP, our log", Side.PLAIN)
FLUSHES_US = (15, 100, 1000)
DATABASES = {"sqlite": databases.sqlite, "postgres": databases.postgres}
PARTS = ["disk", *map(str, FLUSHES_US), "table", *DATABASES]
STUB = "libheliostat_posix.so"


def aim(load: Load, flush_us: int) -> float | None:
    """How many times as many SETs there should be."""
    return 5.0 if load.clients == 50 else {0: 1.3, 15: 3.0}.get(flush_us)


def slow_stub() -> Path:
    """The stub with a device that can be slower, built for release."""
    if IS_BUILT:
        return BUILT / "faults" / STUB
    target = ROOT / "target/faults"
    words = [os.environ.get("CARGO", "cargo"), "build", "--release", "--quiet", "--locked", "-p", "heliostat-posix"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    subprocess.run([*words, "--features", "flush-faults"], cwd=ROOT, env=environment, check=True)
    return target / "release" / STUB


def log_beneath() -> Path:
    """The library that makes Redis's append-only file a log."""
    program = own_package(ROOT / "bench/log", "heliostat-bench-log")
    if program is None:
        raise RuntimeError("bench/log cannot be built here")
    return program.with_name("libheliostat_bench_aof.so")


def environment(bench: Bench, transport: Transport, kept: Path, flush_us: int) -> dict[str, str]:
    """What makes a server one of this way, on a device of this kind."""
    if transport in (HELIOSTAT, LOGGED):
        slow = {"HELIOSTAT_STUB": str(slow_stub()), "HELIOSTAT_TEST_FLUSH_DELAY_US": str(flush_us)} if flush_us else {}
        log = {"HELIOSTAT_DURABLE_LOG": str(kept / "log")} if transport is LOGGED else {}
        return {"HELIOSTAT_DURABLE": "*.aof", **log, **slow}
    slow = {"HELIOSTAT_SLOW_FLUSH_US": str(flush_us)} if flush_us else {}
    if transport is OUR_LOG:
        return {"LD_PRELOAD": str(log_beneath()), "HELIOSTAT_BENCH_LOG": str(kept), **slow}
    return {"LD_PRELOAD": bench.library("slowflush"), **slow} if slow else {}


def servers(
    bench: Bench, folder: Path, transports: tuple = (TCP, DIRECT, HELIOSTAT, LOGGED), flush_us: int = 0
) -> dict:
    """One for each way and placement, with a folder each."""
    started = {}
    for transport in transports:
        if transport.side is Side.HELIOSTAT and bench.harness.plain:
            continue
        for place in placements():
            kept = folder / f"{len(started)}"
            kept.mkdir()
            env = environment(bench, transport, kept, flush_us)
            started[transport.name, place.name] = redis_load.start(bench.harness, transport, place, KEPT, kept, env)
    return started


@contextmanager
def running(bench: Bench, transports: tuple, flush_us: int = 0) -> Iterator[dict]:
    """Servers over a device, which end with what they do."""
    folder = Path(tempfile.mkdtemp(prefix="heliostat-durable-", dir=MEMORY if flush_us else DISK))
    started: dict = {}
    try:
        started = servers(bench, folder, transports, flush_us)
        yield started
    finally:
        for server in started.values():
            server.program.kill()
            server.program.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def requests_for(bench: Bench, server: redis_load.Server, load: Load, test: str, least: int) -> int:
    """How many requests fill the time; of a fast way the first trial was mostly its beginning."""
    first = redis_load.requests_for(bench.harness, server, load, bench.seconds, test, least)
    if first == least:
        return first
    return redis_load.requests_for(bench.harness, server, load, bench.seconds, test, first)


def loaded(bench: Bench, started: dict, load: Load, test: str, least: int) -> dict:
    """Samples of one load on every server."""
    harness = bench.harness
    requests = {arm: requests_for(bench, server, load, test, least) for arm, server in started.items()}
    return bench.alternate(
        {arm: (arm, server) for arm, server in started.items()},
        lambda pair: redis_load.once(harness, pair[1], load, test.lower(), requests[pair[0]])[test],
    )


def where(flush_us: int) -> str:
    return f", flush of {flush_us} us" if flush_us else ""


def sets(bench: Bench, started: dict, load: Load, flush_us: int) -> list[Result]:
    """SET in every way, the better placement of each compared."""
    samples = loaded(bench, started, load, "SET", SETS_MIN)
    name, by_log = f"durable SET {load}{where(flush_us)}", f"durable SET by a log, {load}{where(flush_us)}"
    ways = [(name, HELIOSTAT)] + ([(by_log, LOGGED)] if any(way == LOGGED.name for way, _ in samples) else [])
    found = [
        compare_best(
            bench, f"{called} vs TCP", samples, value, (ours.name, TCP.name),
            aim(load, flush_us) if value is RATE else None,
        )  # fmt: skip
        for called, ours in ways
        for value in (RATE, P50, P99, SERVER_CPU)
    ]
    waiting = (HELIOSTAT.name, DIRECT.name)
    has_waiting = any(way == DIRECT.name for way, _ in samples)
    return found + ([compare_best(bench, f"{name} vs waiting streams", samples, RATE, waiting)] if has_waiting else [])


def gets_beside_sets(bench: Bench, started: dict, flush_us: int) -> list[Result]:
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
    pair = (HELIOSTAT.name, TCP.name)
    name = f"GET 50 connections beside 4 of durable SETs{where(flush_us)} vs TCP"
    return [compare_best(bench, name, samples, value, pair, aim) for value, aim in ((RATE, 1.0), (P99, None))]


def device(bench: Bench, flush_us: int) -> list[Result]:
    """SET and GET over one device."""
    transports = (TCP, HELIOSTAT, LOGGED) if flush_us else (TCP, DIRECT, HELIOSTAT, LOGGED)
    with running(bench, transports, flush_us) as started:
        found = [row for load in LOADS for row in sets(bench, started, load, flush_us)]
        return found + gets_beside_sets(bench, started, flush_us)


def table(bench: Bench, flush_us: int) -> list[Result]:
    """Reads and durable writes in three ways, as in Arrakis's paper; reads meet no device, so once is enough."""
    rows = []
    tests = ("SET",) if flush_us else ("GET", "SET")
    with running(bench, (TCP, OUR_LOG, HELIOSTAT, LOGGED), flush_us) as started:
        for test, load in ((test, load) for test in tests for load in LOADS):
            least = SETS_MIN if test == "SET" else redis_load.REQUESTS_MIN
            samples = loaded(bench, started, load, test, least)
            called = "read" if test == "GET" else f"durable write{where(flush_us)}"
            for ours in (OUR_LOG.name, HELIOSTAT.name, LOGGED.name):
                name = f"table: {called}, {load}, {ours} vs TCP"
                rows += [compare_best(bench, name, samples, value, (ours, TCP.name)) for value in (RATE, P50)]
    return rows


def measure(bench: Bench) -> list[Result]:
    parts = os.environ.get("DURABLE", ",".join(PARTS)).split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise RuntimeError(f"no part {', '.join(unknown)} of BENCH=durable; there are {', '.join(PARTS)}")
    found = device(bench, 0) if "disk" in parts else []
    for flush_us in FLUSHES_US:
        found += device(bench, flush_us) if str(flush_us) in parts else []
    if "table" in parts:
        found += table(bench, 0) + table(bench, FLUSHES_US[0])
    for name, of_database in DATABASES.items():
        found += of_database(bench, DISK) if name in parts else []
    return found
