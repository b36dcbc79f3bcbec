"""Ways in which workers without a kernel get at files and at the network, as the search programs take them.

| way | what stands for it |
|---|---|
| lean | sealed workers, files and connections by operations on rings: the host's one cache, its network |
| own stack | co-processor-centric: each worker has a file cache of its own and fetches blocks by messages |
| staged | host-centric: the host reads whole files and hands them over in messages |
| host | the host's own kernel, without a co-processor: what no other way can be cheaper than |

Nothing here is behind PCIe: the workers are processes of this machine, and a message is a copy into a socket and
out of it.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, ROOT, Program, Side
from measure import REPORT, Bench, own_package

LEAN, OWN_STACK, STAGED, HOST = "lean", "own stack", "staged", "host"
WAYS = (LEAN, OWN_STACK, STAGED, HOST)
WORDS = {LEAN: "lean", OWN_STACK: "blocks", STAGED: "staged", HOST: "plain"}
PACKAGE = "heliostat-coprocessor-search"


def program() -> Path:
    """The search programs, built where they are not."""
    found = own_package(ROOT / "applications/coprocessor", PACKAGE)
    if found is None:
        raise RuntimeError("the search programs cannot be built here")
    return found


@dataclass
class Corpus:
    """Texts and features of images, generated once for a size."""

    texts: int
    words: int
    images: int
    search: Path = field(default_factory=program)

    @property
    def folder(self) -> Path:
        return REPORT / f"corpus-{self.texts}-{self.words}-{self.images}"

    def __post_init__(self) -> None:
        if (self.folder / "features").exists():
            return
        counts = ["--texts", self.texts, "--words", self.words, "--images", self.images]
        subprocess.run([str(word) for word in (self.search, "generate", self.folder, *counts)], check=True)

    def empty_indexes(self, workers: int) -> None:
        for worker in range(workers):
            shutil.rmtree(self.folder / f"index{worker}", ignore_errors=True)
            (self.folder / f"index{worker}").mkdir()


@dataclass
class Workers:
    """Workers of one way, started and measured; `address` is where they answer queries, if they do."""

    bench: Bench
    corpus: Corpus
    way: str
    count: int
    what: str
    address: str = ""
    relay: Program | None = None
    started: list[Program] = field(default_factory=list)

    def __enter__(self) -> Workers:
        harness, at = self.bench.harness, self.corpus.folder
        if self.way in (OWN_STACK, STAGED):
            at = harness.folder / f"relay-{len(harness.programs)}"
            words = [self.corpus.search, "relay", at, self.corpus.folder]
            self.relay = harness.start(Side.PLAIN, [*words, *self.listen()])
            wait_ready(self.relay)
        self.before = children_seconds()
        if self.way == LEAN:
            # A control plane that nobody uses ends: this starts it where another arm took long.
            harness.call("run", "--", "/bin/true")
            self.control = [harness.control_plane()]
        else:
            self.control = []
        self.control_before = kernel_view.cpu_ns(*self.control, *self.relays())
        command = [self.corpus.search, self.what, "--way", WORDS[self.way], "--at", at, *self.listen()]
        if self.way == LEAN:
            grants = ["--root", f"{at}:rw", *(["--listen", self.address] if self.address else [])]
            # As the other ways, on any core.
            command = [BINARY, "coprocessor", "run", "--workers", self.count, "--cores", "none", *grants, "--", *command]
            self.started = [harness.start(Side.PLAIN, command)]
        else:
            parts = [["--worker", number, "--workers", self.count] for number in range(self.count)]
            self.started = [harness.start(Side.PLAIN, [*command, *part]) for part in parts]
        return self

    def __exit__(self, *_) -> None:
        for one in [*self.started, *([self.relay] if self.relay else [])]:
            one.kill()
            one.process.wait()

    def listen(self) -> list[str]:
        return ["--listen", self.address] if self.address else []

    def relays(self) -> list[int]:
        return [self.relay.pid] if self.relay else []

    def wait_end(self) -> tuple[float, float]:
        """Seconds of the slowest worker, and CPU seconds of all and of what served them."""
        for one in self.started:
            if one.wait(600) != 0:
                raise RuntimeError(f"{self.way}: {one.errors()[-1000:]}")
        told = "\n".join(one.output() for one in self.started)
        seconds = [float(line.split()[1]) for line in told.splitlines() if line.startswith("seconds ")]
        files = sum(int(line.split()[1]) for line in told.splitlines() if line.startswith("files "))
        if len(seconds) != self.count or files != self.corpus.texts:
            raise RuntimeError(f"{self.way}: {files} of {self.corpus.texts} texts by {len(seconds)} workers")
        served = kernel_view.cpu_ns(*self.control, *self.relays()) - self.control_before
        return max(seconds), children_seconds() - self.before + served / 1e9

    def wait_ready(self) -> None:
        for one in self.started:
            wait_ready(one, self.count if self.way == LEAN else 1)

    def cpu_ns(self) -> int:
        """What all have run until now."""
        pids = [pid for one in self.started for pid in (one.pid, *kernel_view.descendants(one.pid))]
        return kernel_view.cpu_ns(*pids, *self.control, *self.relays())


def children_seconds() -> float:
    """CPU seconds of ended children, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def wait_ready(program: Program, count: int = 1) -> None:
    """Waits until a program, or each of its workers, has said so."""

    def is_ready() -> bool:
        if program.process.poll() is not None:
            raise RuntimeError(f"{program.name} ended: {program.errors()[-1000:]}")
        return program.output().count("ready") >= count

    kernel_view.wait_until(is_ready, 120, f"{program.name} ready")


def medians(found: dict) -> dict[str, dict[int, dict[str, float]]]:
    """{way: {workers: {figure: median}}}"""
    told: dict[str, dict[int, dict[str, float]]] = {}
    for (way, count), samples in found.items():
        told.setdefault(way, {})[count] = {
            key: statistics.median(one[key] for one in samples) for key in ("rate", "cpu_us")
        }
    return told


def cores() -> int:
    return len(os.sched_getaffinity(0))
