"""64 B blocking ping-pong between two unmodified C programs: latency by percentile.

Aims: with a core each the median is 40 times lower than TCP's, on one core 3 times.
"""

from __future__ import annotations

from measure import Bench, Placement, Result, placements
from heliostat_run import Side

BYTES = 64
AIM_P50 = {"one core": 3.0, "two cores": 40.0}


def at(bench: Bench, place: Placement) -> list[Result]:
    """All percentiles for one placement."""
    arms = {side: side for side in bench.sides()}
    samples = bench.alternate(
        arms, lambda side: bench.pair(side, place, "pingpong", [BYTES], [BYTES, bench.seconds])
    )
    found = []
    for percentile in ("p50_ns", "p99_ns", "p999_ns"):
        series = {side: [one[percentile] for one in rounds] for side, rounds in samples.items()}
        found.append(
            bench.compare(
                f"64 B round trip {percentile.removesuffix('_ns')}",
                series.get(Side.HELIOSTAT, []),
                series[Side.PLAIN],
                "ns",
                better="less",
                aim=AIM_P50[place.name] if percentile == "p50_ns" else None,
                cores=place.name,
            )
        )
    return found


def measure(bench: Bench) -> list[Result]:
    return [result for place in placements() for result in at(bench, place)]
