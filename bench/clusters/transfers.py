"""Reads, writes and additions: one after the other, many at once, and in many or long regions."""

from __future__ import annotations

import json

from clusters.arms import Arms, OTHER, end, wait_ready
from clusters.perftest import bandwidth, there_and_back
from clusters.sizes import GIB, KIB, MIB, SPARE, named
from heliostat_run import BINARY, Harness, Side
from kernel_view import available_bytes, wait_available, wait_until
from measure import Result, last_json

SIZES = (8, 64, KIB, 4 * KIB, 64 * KIB, MIB, 4 * MIB)
# Operations on their way at once.
DEPTH = 16
# A promise: with many regions, or long ones, at most so many times as long as with one of 1 MiB.
FLAT = 1.1
COUNTS, QUICK_COUNTS = (1, 1_000, 100_000), (1, 100_000)
LENGTHS, QUICK_LENGTHS = (MIB, GIB, 16 * GIB), (MIB, 16 * GIB)
PARTS, SMALL = (64, KIB), 4 * KIB
# A session has at most 16,384 handles on other nodes.
SESSION_REGIONS = 16_000


def latency_of(arms: Arms, arm: tuple) -> float:
    """Microseconds of one operation."""
    way, kind, size = arm
    if way == "raw":
        # A request that carries the bytes or asks for them, and an answer the other way.
        return there_and_back(8 if kind == "add" else size)
    if way == "redis":
        return arms.asked(arms.bench.harness, "redis", arms.redis, kind, size)["ns"] / 1e3
    if way == "hop":
        return hop(arms, kind, size)
    return arms.asked(arms.place(way)[0], "node", OTHER, kind, size)["ns"] / 1e3


def hop(arms: Arms, kind: str, size: int) -> float:
    """The same operation on a region of this node by the server loop."""
    words = (arms.program, "region", kind, size, 1, 16 * MIB, arms.seconds)
    sealed = [BINARY, "run", "--sealed", "--region", "bench/*:allocate", "--grant", arms.program, "--"]
    command = [str(word) for word in (*sealed, *words)]
    return last_json(arms.bench.harness.run(Side.PLAIN, command, seconds=600))["ns"] / 1e3


def latency(arms: Arms) -> list[Result]:
    """One operation after the other."""
    rows = []
    for kind, size in [("add", 8), *((kind, size) for kind in ("read", "write") for size in SIZES)]:
        ways = (*arms.clusters, "hop", "raw", "redis")
        found = arms.bench.alternate({way: (way, kind, size) for way in ways}, lambda arm: latency_of(arms, arm))
        what = "fetch_add" if kind == "add" else f"{kind} of {named(size)}"
        compare = lambda name, ours, theirs, **more: rows.append(  # noqa: E731
            arms.bench.compare(f"{what}, {name}", found[ours], theirs, "us", better="less", **more)
        )
        beyond = [raw + hop for raw, hop in zip(found["raw"], found["hop"])]
        compare("node by UCX vs raw UCX and the hop", "ucx", beyond, aim=1 / 1.15)
        compare("node by UCX vs Redis", "ucx", found["redis"], aim=1.0)
        compare("node by TCP vs Redis", "tcp", found["redis"], aim=1.0)
        compare("the hop alone vs raw UCX", "hop", found["raw"])
    return rows


def rate(arms: Arms) -> list[Result]:
    """Many operations on their way: MB/s."""

    def sample(arm: tuple) -> float:
        way, kind, size = arm
        if way == "raw":
            return bandwidth("ucp_am_bw", size)
        return arms.asked(arms.place(way)[0], "rate", OTHER, kind, size, DEPTH)["rate"] * size / 1e6

    rows = []
    for kind in ("read", "write"):
        for size in SIZES:
            found = arms.bench.alternate({way: (way, kind, size) for way in (*arms.clusters, "raw")}, sample)
            for way in arms.clusters:
                name = f"{kind}s of {named(size)}, {DEPTH} on their way, node by {way.upper()} vs raw UCX's messages"
                rows.append(arms.bench.compare(name, found[way], found["raw"], "MB/s"))
    return rows


def read_us(arms: Arms, way: str, part: int, count: int, length: int) -> float:
    """Microseconds of a read in one of so many regions. Beyond what one session has, others hold the rest."""
    here, node = arms.place(way)
    mine, rest = min(count, SESSION_REGIONS), count - min(count, SESSION_REGIONS)
    shares = [min(SESSION_REGIONS, rest - at) for at in range(0, rest, SESSION_REGIONS)]
    # All at once: each takes as long as its own take.
    holders = [arms.start(here, "hold", node, share, length, 0) for share in shares]
    try:
        for holder in holders:
            wait_ready(holder)
        wait_available(mine * length + SPARE)
        return arms.us(way, "node", "read", part, mine, length)
    finally:
        for holder in holders:
            end(holder)
        # What ended gives its regions back one after the other; the next case is not to run beside that.
        wait_until(lambda: is_given_back(here), 120, "the regions of the last case are given back")


def is_given_back(harness: Harness) -> bool:
    """Whether a node has nothing left to give back to others."""
    return json.loads(harness.call("status", "--json"))["memory"]["nodes"]["handles_to_give_back"] == 0


def flat(arms: Arms) -> list[Result]:
    """Many regions against one, and long ones against one of 1 MiB, all of them on the other node.

    Of 100,000 regions the reader itself has as many as a session may; other programs have the others."""
    quick = arms.bench.quick
    counts = QUICK_COUNTS if quick else COUNTS
    lengths = [length for length in (QUICK_LENGTHS if quick else LENGTHS) if length + SPARE <= available_bytes()]
    rows = []
    # It takes a while until so many regions are made.
    for way in ["ucx"] if quick else arms.clusters:
        for part in PARTS:
            ask = lambda case, way=way, part=part: read_us(arms, way, part, *case)  # noqa: E731
            for cases, what in (
                ({count: (count, SMALL) for count in counts}, "{:,} regions vs one"),
                ({length: (1, length) for length in lengths}, "a region of {} vs 1 MiB"),
            ):
                first, *others = cases
                found = arms.bench.alternate(cases, ask)
                for case in others:
                    shown = case if first == 1 else named(case)
                    name = f"read of {part} B, node by {way.upper()}: {what.format(shown)}"
                    rows.append(arms.bench.compare(name, found[case], found[first], "us", better="less", aim=1 / FLAT))
    return rows
