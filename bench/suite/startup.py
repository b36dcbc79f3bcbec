"""What `heliostat run -- /bin/true` costs over `/bin/true`. Aim: below 20 ms more."""

from __future__ import annotations

import subprocess
import time

from measure import Bench, Result
from heliostat_run import Side

PROGRAM = ["/bin/true"]
STARTS_PER_SAMPLE = 20


def measure(bench: Bench) -> list[Result]:
    environment = bench.harness.environment()

    def sample(side: Side) -> float:
        started = time.monotonic()
        for _ in range(STARTS_PER_SAMPLE):
            subprocess.run(bench.harness.command(side, PROGRAM), check=True, env=environment)
        return (time.monotonic() - started) / STARTS_PER_SAMPLE * 1e3

    samples = bench.alternate({side: side for side in bench.sides()}, sample)
    ours, theirs = samples.get(Side.HELIOSTAT, []), samples[Side.PLAIN]
    added = [mine - other for mine, other in zip(ours, theirs)]
    return [
        bench.compare("start and end of /bin/true", ours, theirs, "ms", better="less", cores="any"),
        bench.compare(
            "added to a start", added, theirs, "ms",
            better="less", aim=20.0, aim_is="ours at most", cores="any",
        ),
    ]  # fmt: skip
