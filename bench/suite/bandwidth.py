"""One-way bandwidth with 1 MB writes (and 16 KB ones, without an aim). Aim: twice TCP's."""

from __future__ import annotations

from measure import Bench, Placement, Result, placements
from heliostat_run import Side

AIMS = {1 << 20: 2.0, 16 << 10: None}


def at(bench: Bench, place: Placement, chunk: int, aim: float | None) -> Result:
    def sample(side: Side) -> float:
        answer = bench.pair(side, place, "bandwidth", [chunk], [chunk, bench.seconds])
        return answer["bytes"] / answer["seconds"] / 1e9

    samples = bench.alternate({side: side for side in bench.sides()}, sample)
    return bench.compare(
        f"{chunk >> 10} KiB writes",
        samples.get(Side.HELIOSTAT, []),
        samples[Side.PLAIN],
        "GB/s",
        aim=aim,
        cores=place.name,
    )


def measure(bench: Bench) -> list[Result]:
    return [at(bench, place, chunk, aim) for chunk, aim in AIMS.items() for place in placements()]
