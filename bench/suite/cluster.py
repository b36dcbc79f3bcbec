"""Regions, functions and locks of another node, by UCX and by our own TCP, beside raw UCX, Redis, gRPC, etcd, and
transfer engines where they are installed; all over loopback.

Aims: the time that an operation takes beyond raw UCX's messages there and back, and beyond the hop to the
server loop here, is at most 15 % of theirs, or 300 ns; faster than Redis at every size, and than gRPC; flat from one
region to 100,000 and from 1 MiB to 16 GiB, within 10 %. The hop is shown as a row of its own. Raw UCX is
`ucx_perftest`, which spins on both sides, while nodes sleep.
CLUSTER=latency,rate,flat,rpc,clients,locks,costs,log,engines picks parts.
"""

from __future__ import annotations

import os

from clusters import commits, costs, engines, functions, transfers
from clusters.arms import Arms, all_of
from measure import Bench, Result

PARTS = {
    "latency": transfers.latency,
    "rate": transfers.rate,
    "flat": transfers.flat,
    "rpc": functions.calls,
    "clients": functions.clients,
    "locks": costs.locks,
    "costs": costs.making,
    "log": commits.commits,
    "engines": engines.transfers,
}


def measure(bench: Bench) -> list[Result]:
    """All of it, or the parts that CLUSTER names."""
    if bench.harness.plain:
        return []
    wanted = os.environ.get("CLUSTER", ",".join(PARTS)).split(",")
    with all_of(bench) as arms:
        return [row for name in wanted for row in part(arms, name)]


def part(arms: Arms, name: str) -> list[Result]:
    """What one part finds; one that fails, which is said, does not take along what the others have found."""
    try:
        return PARTS[name](arms)
    except (RuntimeError, TimeoutError, OSError) as error:
        print(f"CLUSTER={name} FAILED: {error}", flush=True)
        return []
