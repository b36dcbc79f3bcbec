"""A MapReduce job on a cluster: its text, its master and its workers, and what one thread says is right."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, Program
from nodes import Cluster

PROGRAM = BINARY.with_name("heliostat-mapreduce")
SEED = 42
DONE = re.compile(r"(\d+) of (\d+) tasks are done")


def plain(job: str, text: Path, output: Path) -> dict:
    """Does a job by one thread, without a cluster; what it says."""
    return json.loads(_call("plain", job, text, output))


def _call(*words) -> str:
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, timeout=600, check=True)
    return done.stdout


def text_of(size: int, folder: Path) -> Path:
    """The text of so many bytes, made once."""
    path = folder / f"text-{size}-{SEED}"
    if not path.exists():
        part = path.with_suffix(".part")
        _call("generate", size, SEED, part)
        part.rename(path)
    return path


def start_worker(cluster: Cluster, node: int, name: str = "job", **options) -> Program:
    """Starts a worker on a node; it waits for the job of the name, if there is none yet."""
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    return cluster.start(node, [PROGRAM, "work", "--master", 1, "--name", name, *words])


class Job:
    """A job under way: a master on node 1, and workers where they are started."""

    def __init__(self, cluster: Cluster, job: str, text: Path, output: Path, name: str = "job", **options) -> None:
        self.cluster, self.name, self.output = cluster, name, output
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        self.master = cluster.start(1, [PROGRAM, "run", job, text, output, "--name", name, *words])

    def worker(self, node: int, **options) -> Program:
        """Starts a worker on a node."""
        return start_worker(self.cluster, node, self.name, **options)

    def done(self) -> int:
        """How many tasks are done, as the master has said last."""
        said = DONE.findall(self.master.errors())
        return int(said[-1][0]) if said else 0

    def wait_done(self, count: int) -> None:
        """Waits until so many tasks are done, in the middle of the job."""

        def are_done() -> bool:
            if self.master.process.poll() is not None:
                raise RuntimeError(f"the job is over: {self.master.errors()[-2000:]}")
            return self.done() >= count

        kernel_view.wait_until(are_done, 60, f"{count} tasks are done")

    def wait_working(self, node: int) -> None:
        """Waits until a worker of a node has taken a task."""
        works = lambda: f"node {node} works\n" in self.master.errors() or self.master.process.poll() is not None  # noqa: E731
        kernel_view.wait_until(works, 60, f"node {node} works")

    def result(self, seconds: float = 120) -> dict:
        """Waits for the job's end; what the master tells of it."""
        status = self.master.wait(seconds)
        if status != 0:
            raise RuntimeError(f"the job ended with {status}: {self.master.errors()[-2000:]}")
        return json.loads(self.master.output())
