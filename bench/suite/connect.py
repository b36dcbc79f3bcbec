"""Connection set-up, one byte each way, and close: not slower than the kernel's."""

from __future__ import annotations

from measure import Bench, Placement, Result, placements
from heliostat_run import Side


def at(bench: Bench, place: Placement) -> list[Result]:
    samples = bench.alternate(
        {side: side for side in bench.sides()},
        lambda side: bench.pair(side, place, "connections", [], [bench.seconds]),
    )
    rate = {s: [one["connections"] / one["seconds"] for one in r] for s, r in samples.items()}
    p99 = {s: [one["p99_ns"] / 1e3 for one in r] for s, r in samples.items()}
    ours = Side.HELIOSTAT
    return [
        bench.compare("connections", rate.get(ours, []), rate[Side.PLAIN], "/s", aim=1.0, cores=place.name),
        bench.compare("connection p99", p99.get(ours, []), p99[Side.PLAIN], "us", better="less", cores=place.name),
    ]  # fmt: skip


def measure(bench: Bench) -> list[Result]:
    return [result for place in placements() for result in at(bench, place)]
