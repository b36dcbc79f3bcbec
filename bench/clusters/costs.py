"""What it costs to make and find regions, and what locks and barriers cost; on another node and on one.

Beside Redis: a key that is made and deleted, a lock as its documentation has it (SET NX, DEL), a barrier by a counter
and a list. On one node a region is also compared with a file in memory that a program makes by itself.
"""

from __future__ import annotations

import secrets

from clusters.arms import Arms, CALLED
from clusters.perftest import there_and_back
from clusters.sizes import KIB, MIB, named
from measure import Result, last_json

SIZES = (4 * KIB, MIB)
ROUNDS, QUICK_ROUNDS = 5_000, 1_000
# Of a barrier: who does not come in this time never comes.
LONGEST_S = 30


def making(arms: Arms) -> list[Result]:
    """Regions made and given back, and found by their names."""
    rows = []
    for size in SIZES:
        found = arms.bench.alternate({way: way for way in (*arms.ways, "redis", "file")}, lambda way: made(arms, way, size))
        what = f"region of {named(size)} made and given back"
        for way in arms.ways:
            rows.append(arms.bench.compare(f"{what}, {CALLED[way]} vs Redis's key", found[way], found["redis"], "us", better="less", aim=1.0))
        rows.append(arms.bench.compare(f"{what}, one node vs a file in memory", found["here"], found["file"], "us", better="less"))
    found = arms.bench.alternate(
        {way: way for way in (*arms.ways, "raw")},
        lambda way: there_and_back(8) if way == "raw" else arms.us(way, "map", MIB),
    )
    return rows + [
        arms.bench.compare(f"region found by its name, {CALLED[way]} vs raw UCX there and back", found[way], found["raw"], "us", better="less")
        for way in arms.ways
    ]


def made(arms: Arms, way: str, size: int) -> float:
    if way == "redis":
        return arms.us(way, "key", size)
    if way == "file":
        return arms.asked(arms.bench.harness, "file", size)["ns"] / 1e3
    return arms.us(way, "allocate", size)


def locks(arms: Arms) -> list[Result]:
    """A lock for which nobody waits, and a barrier of two processes."""
    ways = {way: way for way in (*arms.ways, "redis")}
    rows = []
    for what, sample in (
        ("lock acquired and released", lambda way: arms.us(way, "lock")),
        ("barrier of two processes", lambda way: barrier(arms, way)),
    ):
        found = arms.bench.alternate(ways, sample)
        for way in arms.ways:
            rows.append(arms.bench.compare(f"{what}, {CALLED[way]} vs Redis", found[way], found["redis"], "us", better="less", aim=1.0))
    return rows


def barrier(arms: Arms, way: str) -> float:
    """Microseconds of a round: one process here, and one where the barrier is."""
    rounds, name = QUICK_ROUNDS if arms.bench.quick else ROUNDS, f"bench/{secrets.token_hex(4)}"
    if way == "redis":
        both = [(arms.bench.harness, ("redis-barrier", arms.redis, name, rounds, LONGEST_S))] * 2
    else:
        here, node = arms.place(way)
        both = [(harness, ("barrier", node, name, rounds, LONGEST_S)) for harness in (here, arms.holder(way))]
    programs = [arms.start(harness, *words) for harness, words in both]
    for program in programs:
        program.wait(600)
    return max(last_json(program)["ns"] for program in programs) / 1e3
