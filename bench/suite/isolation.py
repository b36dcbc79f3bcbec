"""A reader of a word on another node, whose class is high, beside writers of a low class that come and go.

Two nodes on loopback, so that both ends share the machine's cores: what is shown is what waits in queues, not
a network's speed. Arms: no scheme, separate resources, back-off, both (docs/cluster.md, "Classes"). The writers
have 64 parts of 256 KiB on the way. Aim: the reader's median beside them is lower with a scheme than without.
"""

from __future__ import annotations

import json
import statistics
import time
from pathlib import Path

from measure import REPORT, Bench, Result, cargo_program
from nodes import Cluster

PACKAGE = "heliostat-bench-memory"
CLASSES = """
[[class]]
names = ["/memory/hot/*"]
class = "high"
[[class]]
names = ["/memory/bulk/*"]
class = "low"
[quality]
scheme = "{}"
"""
ARMS = ("none", "separate", "back-off", "both")
WRITERS, DEPTH = 2, 32


def one(path: Path, scheme: str, seconds: float) -> dict:
    """The reader alone, beside the writers, and alone again: its times, and what the writers wrote."""
    with Cluster(2, more=CLASSES.format(scheme)) as cluster:
        reader = cluster.start(1, [path, "reader", 2, "hot/word", 3 * seconds])
        time.sleep(seconds)
        writers = [cluster.start(1, [path, "writer", 2, f"bulk/{n}", DEPTH, seconds]) for n in range(WRITERS)]
        programs = [reader, *writers]
        for each in programs:
            if each.wait(60 + 4 * seconds) != 0:
                raise RuntimeError(f"{scheme}: {each.errors()[-500:]}")
        slices = json.loads(reader.output())["slices"]
        written = [json.loads(each.output())["bytes_per_second"] for each in writers]
        listed = json.loads(cluster.call(1, "status", "--json"))["cluster"]["quality"]
    return {"slices": slices, "written": sum(written), "way": (listed or {}).get("ways", {}).get("2", {})}


def between(found: dict, begin: float, end: float) -> list[list[float]]:
    """Slices of the reader's within a time, in seconds."""
    return [each for each in found["slices"] if begin * 1000 <= each[0] < end * 1000]


def measure(bench: Bench) -> list[Result]:
    """Each arm by turns; the picture is of the first round."""
    if bench.harness.plain:
        return []
    path, seconds = cargo_program(PACKAGE), 2 * bench.seconds
    rounds = {arm: [] for arm in ARMS}
    for _ in range(bench.repetitions):
        for arm in ARMS:
            rounds[arm].append(one(path, arm, seconds))
    REPORT.mkdir(parents=True, exist_ok=True)
    (REPORT / "isolation-slices.json").write_text(json.dumps({"seconds": seconds, "rounds": rounds}))
    draw(rounds, seconds)
    beside = {arm: [figures(found, seconds) for found in of] for arm, of in rounds.items()}
    return [row for arm in ARMS for row in rows(bench, arm, beside)]


def figures(found: dict, seconds: float) -> dict:
    """Of one run: medians in us, alone and beside the writers, and the largest of a slice in the middle."""
    # The writers begin and end at about the borders.
    alone = between(found, 0.2 * seconds, 0.9 * seconds)
    busy = between(found, 1.2 * seconds, 1.9 * seconds)
    if not alone or not busy:
        raise RuntimeError("the reader has read nothing")
    median = lambda of, at: statistics.median(each[at] for each in of) / 1000  # noqa: E731
    return {"alone": median(alone, 1), "p50": median(busy, 1), "worst": median(busy, 2), "written": found["written"]}


def rows(bench: Bench, arm: str, beside: dict) -> list[Result]:
    note = "two nodes on loopback share the cores with reader and writers: queues are what differs"
    of = lambda arm, key: [each[key] for each in beside[arm]]  # noqa: E731
    alone = bench.compare(f"median read: {arm} vs alone", of(arm, "p50"), of(arm, "alone"), "us", better="less", note=note)
    if arm == "none":
        return [alone]
    titles = {"p50": "median read beside low writers", "worst": "slowest of 20 ms, median"}
    found = [
        bench.compare(f"{title}: {arm} vs none", of(arm, key), of("none", key), "us", better="less", aim=1.0, note=note)
        for key, title in titles.items()
    ]
    mib = lambda arm: [written / (1 << 20) for written in of(arm, "written")]  # noqa: E731
    written = bench.compare(f"written by low writers: {arm} vs none", mib(arm), mib("none"), "MiB/s", better="more", note=note)
    return [*found, alone, written]


def draw(rounds: dict, seconds: float) -> None:
    """The reader's times over time, an arm a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    for arm in ARMS:
        slices = rounds[arm][0]["slices"]
        axes.plot([each[0] / 1000 for each in slices], [each[1] / 1000 for each in slices], label=arm, linewidth=1)
    axes.axvspan(seconds, 2 * seconds, alpha=0.1, color="black", label="low writers")
    axes.set(xlabel="seconds", ylabel="median of 20 ms, us", yscale="log", title="A high read on another node")
    axes.legend()
    figure.tight_layout()
    figure.savefig(REPORT / "isolation.png", dpi=120)
