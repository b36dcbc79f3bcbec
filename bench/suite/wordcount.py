"""Word count of 200 MB: workers on nodes of a cluster against one thread, timely dataflow and Spark.

Every run counts the same text and writes the same sorted file, which is compared with the one thread's: one
that differs is an error, not a figure. A time is from the start of the engine's own program to its written
output: of ours from the master's start, with the workers waiting; of timely in its process; of Spark
within a session that runs, the first job left out. Needs no control plane of the harness: nodes have their own.
"""

from __future__ import annotations

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from environments import python_of
from heliostat_run import ROOT
from measure import REPORT, Bench, Result, own_package

sys.path.insert(0, str(ROOT / "verify/applications"))
from map_reduce import Job, plain, start_worker, text_of  # noqa: E402
from nodes import Cluster  # noqa: E402

BYTES, QUICK_BYTES = 200_000_000, 50_000_000
SPLIT, NODES = 16 << 20, 2
OURS, THREAD, SPARK = "two nodes, a worker each", "one thread", "Spark, local[2]"
TABLE, MAP = "timely, two workers, our table", "timely, two workers, HashMap"
# What LITE's authors found against Hadoop, taken as the aim against its successor.
SPARK_AIM = 4.3
NOTE = "seconds for the whole job, output written; each result is compared with the one thread's"


def spark_python() -> Path | None:
    """The interpreter that has Spark; None where Spark or its Java is missing, which is said."""
    python = python_of("spark") if shutil.which("java") else None
    runs = python and subprocess.run([python, "-c", "import pyspark"], capture_output=True, check=False).returncode == 0
    if not runs:
        print("Spark is left out: it needs pyspark and Java", flush=True)
    return python if runs else None


class Contest:
    """The text, what is right, and each engine's way to count."""

    def __init__(self, bench: Bench) -> None:
        self.folder = REPORT / "wordcount"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.text = text_of(QUICK_BYTES if bench.quick else BYTES, self.folder)
        self.right, self.output = self.folder / "right", self.folder / "output"
        plain("count", self.text, self.right)
        self.timely = own_package(ROOT / "bench/timely", "heliostat-bench-timely")
        self.spark_python = spark_python()

    def sample(self, engine: str) -> float:
        """Seconds of one run, whose result is right."""
        self.output.unlink(missing_ok=True)
        seconds = self.run(engine)
        if not filecmp.cmp(self.right, self.output, shallow=False):
            raise RuntimeError(f"{engine}: {self.output} differs from {self.right}")
        print(f"  {engine:<34}{seconds:>8.3f} s", flush=True)
        return seconds

    def run(self, engine: str) -> float:
        if engine == THREAD:
            return plain("count", self.text, self.output)["seconds"]
        if engine == OURS:
            return self.cluster()
        if engine == SPARK:
            return self.spark()
        way = "table" if engine == TABLE else "map"
        words = [self.timely, way, "2", str(self.text), str(self.output)]
        return json.loads(subprocess.run(words, capture_output=True, check=True).stdout)["seconds"]

    def cluster(self) -> float:
        """A master on node 1, and a worker on each node, which waits for it."""
        with Cluster(NODES) as cluster:
            for node in cluster.nodes:
                start_worker(cluster, node, patience=60)
            return Job(cluster, "count", self.text, self.output, split=SPLIT).result()["seconds"]

    def spark(self) -> float:
        """The second job of a session: Java has compiled by then what it will."""
        script = ROOT / "bench/python/spark_words.py"
        words = [str(self.spark_python), str(script), str(self.text), str(self.output)]
        done = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"})
        return json.loads(done.stdout.splitlines()[-1])["seconds"]


def engines(contest: Contest) -> list[str]:
    found = [OURS, THREAD]
    found += [TABLE, MAP] if contest.timely else []
    return found + ([SPARK] if contest.spark_python else [])


def measure(bench: Bench) -> list[Result]:
    """All engines in turns; ours against each of the others."""
    if bench.harness.plain:
        return []
    contest = Contest(bench)
    found = bench.alternate({engine: engine for engine in engines(contest)}, contest.sample)
    aims = {TABLE: 1.0, MAP: 1.0, SPARK: SPARK_AIM}
    return [
        bench.compare(f"word count, {OURS} vs {engine}", found[OURS], found[engine], "s", better="less", aim=aims.get(engine), note=NOTE)
        for engine in found
        if engine != OURS
    ]
