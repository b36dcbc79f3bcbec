"""GenerOS's contention experiment: 1 to 1,024 threads with metadata and descriptors in one folder and one table.

Ways, by turns: plain Linux on all cores; `--offload=always:metadata` with so many kernel cores, packed (the last
ones) or spread, the program on the others; and the measured rule, `--offload=metadata`. As GenerOS's authors define
them:

    probability = contentions / acquisitions         efficiency = hold / (hold + wait)

Contentions and waits are the kernel's own (bench/lock_trace.py: trace points of all locks, for this process), in a
run of their own. The kernel does not count acquisitions, nor how long locks are held. Proxies: one acquisition a
call, and a hold as long as a whole call takes one plain thread (median). Both make every way look alike, so ways
can be compared with each other, but not with the paper's percentages. Without root there are only rates and
latencies. Draws target/bench/contention.png.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import kernel_view
import lock_trace
from heliostat_run import BINARY, Side
from measure import REPORT, Bench, Result, last_json
from pictures import contention as picture

THREADS = (1, 4, 16, 64, 256, 1024)
THREADS_QUICK = (1, 16, 256)
PLAIN, RULE = "plain", "by the rule"
# The rule may cost so much of plain Linux's rate at most.
AIM_RULE = 0.95


@dataclass(frozen=True)
class Way:
    """How the program is run: its cores, the kernel cores, and what is asked for."""

    name: str
    cores: tuple[int, ...]
    kernel: tuple[int, ...] = ()
    groups: str = ""

    def words(self) -> list[str]:
        pinned = ["taskset", "-c", ",".join(map(str, self.cores))]
        if not self.groups:
            return pinned
        kernel = ",".join(map(str, self.kernel))
        return [*pinned, str(BINARY), "run", f"--offload={self.groups}", f"--offload-cores={kernel}", "--"]


def spread(cores: list[int], count: int) -> tuple[int, ...]:
    """So many cores, as far apart as may be."""
    step = len(cores) / count
    return tuple(cores[int((place + 1) * step) - 1] for place in range(count))


def partitions(cores: list[int]) -> list[tuple[str, tuple[int, ...]]]:
    """Kernel cores: 1 and up to a quarter of them, packed, and spread where that is another choice."""
    found = []
    for count in sorted({1, *(n for n in (2, 3, 4) if n <= len(cores) // 4)}):
        packed = tuple(cores[-count:])
        found.append((f"{count} packed" if count > 1 else "1 kernel core", packed))
        if count > 1 and spread(cores, count) != packed:
            found.append((f"{count} spread", spread(cores, count)))
    return found


def ways(bench: Bench) -> list[Way]:
    cores = sorted(os.sched_getaffinity(0))
    every = [Way(PLAIN, tuple(cores))]
    if bench.harness.plain or len(cores) < 2:
        return every
    for name, kernel in partitions(cores):
        rest = tuple(core for core in cores if core not in kernel)
        every.append(Way(name, rest, kernel, "always:metadata"))
    last = (cores[-1],)
    return [*every, Way(RULE, tuple(cores), last, "metadata")]


def once(bench: Bench, way: Way, threads: int, is_traced: bool) -> dict:
    """One run; with `is_traced` also contentions and waits of the kernel's locks."""
    folder = tempfile.mkdtemp(prefix="heliostat-contention-")
    words = [*way.words(), bench.program("contention"), f"{folder}/files", threads, bench.seconds]
    started = bench.harness.start(Side.PLAIN, words, name="contention", stdin=subprocess.PIPE)
    try:
        wait_ready(started)
        if is_traced:
            with lock_trace.LockTrace(started.pid) as trace:
                finish(started)
            return {**last_json(started), "waits": trace.waits, "waited_ns": trace.waited_ns}
        finish(started)
        return last_json(started)
    finally:
        started.kill()
        shutil.rmtree(folder, ignore_errors=True)


def wait_ready(started) -> None:
    kernel_view.wait_until(lambda: "ready" in started.output(), 60, "a program that is ready")


def finish(started) -> None:
    started.process.stdin.write(b"\n")
    started.process.stdin.close()
    started.wait(180)


def judged(run: dict, hold_ns: float) -> dict:
    """A run's figures, with probability and efficiency where locks were traced."""
    found = {**run, "rate": run["calls"] / run["seconds"]}
    if "waits" in run:
        hold = run["calls"] * hold_ns
        found["probability"] = 100 * run["waits"] / run["calls"]
        found["efficiency"] = 100 * hold / (hold + run["waited_ns"])
    return found


VALUES = (
    ("rate", "calls", "calls/s", "more"),
    ("p99_ns", "p99 of a call", "ns", "less"),
    ("probability", "contention probability", "%", "less"),
    ("efficiency", "contention efficiency", "%", "more"),
)


def compare(bench: Bench, threads: int, samples: dict) -> list[Result]:
    found = []
    for way, runs in samples.items():
        if way == PLAIN:
            continue
        for key, called, unit, better in VALUES:
            ours = [run[key] for run in runs if key in run]
            theirs = [run[key] for run in samples[PLAIN] if key in run]
            if ours and theirs and (better == "more" or min(ours) > 0 or key == "probability"):
                name = f"{threads} threads, {way}: {called}"
                aim = AIM_RULE if (way, key) == (RULE, "rate") else None
                found.append(compare_one(bench, name, ours, theirs, unit, better, aim))
    return found


def compare_one(bench: Bench, name: str, ours: list, theirs: list, unit: str, better: str, aim: float | None) -> Result:
    """As `Bench.compare`; a share that is none has no ratio."""
    if not any(theirs):
        better = "more"
        theirs = [1e-9 if it == 0 else it for it in theirs]
        row = bench.compare(name, ours, theirs, unit, better=better)
        row.ratio, row.theirs = None, 0.0
        return row
    return bench.compare(name, ours, theirs, unit, better=better, aim=aim)


def measure(bench: Bench) -> list[Result]:
    every = {way.name: way for way in ways(bench)}
    is_traced = lock_trace.is_possible()
    hold_ns = once(bench, every[PLAIN], 1, False)["p50_ns"]
    found, drawn = [], {}
    for threads in THREADS_QUICK if bench.quick else THREADS:
        samples = bench.alternate(every, lambda way: judged(once(bench, way, threads, False), hold_ns))
        if is_traced:
            for name, way in every.items():
                # Rates are of runs that nothing traced.
                traced = judged(once(bench, way, threads, True), hold_ns)
                share = {key: traced[key] for key in ("probability", "efficiency")}
                samples[name] = [{**run, **share} for run in samples[name]]
        drawn[threads] = samples
        show(threads, samples)
        found += compare(bench, threads, samples)
    REPORT.mkdir(parents=True, exist_ok=True)
    (REPORT / "contention-runs.json").write_text(json.dumps(drawn))
    picture.draw(drawn, Path(REPORT / "contention.png"))
    return found


def show(threads: int, samples: dict) -> None:
    for way, runs in samples.items():
        run = runs[len(runs) // 2]
        shares = f", probability {run['probability']:.2f} %, efficiency {run['efficiency']:.1f} %" if "efficiency" in run else ""
        print(f"  {threads} threads, {way}: {run['rate']:,.0f} calls/s, p50 {run['p50_ns']:,.0f} ns{shares}", flush=True)
