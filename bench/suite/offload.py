"""What `--offload` costs programs that gain nothing by it: processor time of starts, `find`, and loops of a shell and Python.

Each runs plainly, under `heliostat run`, and with `--offload`, where the measured rule decides; by turns. Processor
time is that of all processes, `heliostat run` among them. What `heliostat run` takes is to be 0.95 of it at least; what
plain Linux takes stands beside it (a start costs some ms more, BENCH=startup).
"""

from __future__ import annotations

import dataclasses
import os
import resource
import shutil
import subprocess
import sys

from heliostat_run import BINARY
from measure import REPORT, Bench, Result

AIM = 0.95
FOLDERS, FILES = 100, 30
STARTS, STARTS_QUICK = 20, 10
# Samples are short, and differ by more than what is looked for: so many times as many rounds.
ROUNDS = 3
PLAIN, COVERED, OFFLOADED = "plain", "heliostat run", "--offload"
WORDS = {PLAIN: [], COVERED: [BINARY, "run", "--"], OFFLOADED: [BINARY, "run", "--offload", "--"]}
SHELL = "for i in $(seq 50); do ls {tree}/1 > /dev/null; cat {tree}/1/2 > /dev/null; done"
PYTHON = """
import os
for _ in range(40000):
    os.stat("{tree}/1/2")
    with open("{tree}/1/3", "rb", buffering=0) as file:
        file.read(64)
"""


def tree() -> str:
    """A folder of folders of small files, made once."""
    place = REPORT / f"tree-{FOLDERS}-{FILES}"
    if not place.exists():
        unready = place.with_suffix(".new")
        shutil.rmtree(unready, ignore_errors=True)
        for folder in range(FOLDERS):
            (unready / str(folder)).mkdir(parents=True)
            for name in range(FILES):
                (unready / str(folder) / str(name)).write_bytes(bytes(64))
        unready.rename(place)
    return str(place)


def cpu_ms() -> float:
    """Processor time of ended children, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e3


def programs(bench: Bench) -> dict[str, tuple[list[str], int]]:
    """Words of each, and how often it is started for a sample."""
    place, starts = tree(), STARTS_QUICK if bench.quick else STARTS
    return {
        "start of true": (["/bin/true"], starts),
        "find over a tree": (["find", place, "-size", "+1"], starts),
        "shell's loop of ls and cat": (["sh", "-c", SHELL.format(tree=place)], 1),
        "Python's loop of stat and read": ([sys.executable, "-S", "-c", PYTHON.format(tree=place)], 1),
    }


def measure(bench: Bench) -> list[Result]:
    bench = dataclasses.replace(bench, repetitions=ROUNDS * bench.repetitions)
    environment = bench.harness.environment()
    cores = f"{len(os.sched_getaffinity(0))} cores"
    results = []
    for name, (words, times) in programs(bench).items():

        def sample(way: str) -> float:
            before = cpu_ms()
            for _ in range(times):
                subprocess.run([*WORDS[way], *words], check=True, env=environment, stdout=subprocess.DEVNULL)
            return (cpu_ms() - before) / times

        ways = [PLAIN] if bench.harness.plain else [PLAIN, COVERED, OFFLOADED]
        found = bench.alternate({way: way for way in ways}, sample)
        ours = found.get(OFFLOADED, [])
        for other, aim in ((COVERED, AIM), (PLAIN, None)):
            if other in found:
                called = f"{name}: CPU with --offload, against {other}"
                results.append(bench.compare(called, ours, found[other], "ms", better="less", aim=aim, cores=cores))
    return results
