"""Text and image search by workers that have no kernel: what a file and a query cost, by each way, on 1 to 4 workers.

After Solros's evaluation (EuroSys'18, section 6.2): indexing of 10,000 texts, and nearest neighbours of images asked
over the network. CPU is that of workers and of what serves them, without the asking clients'. Every text must be
indexed and every query find something, else it is an error. COPROCESSOR=index,image,text picks parts. Draws
target/bench/coprocessor.png.
"""

from __future__ import annotations

import os

import kernel_view
from coprocessors.ways import HOST, LEAN, OWN_STACK, STAGED, WAYS, Corpus, Workers, cores, medians
from heliostat_run import Side
from measure import REPORT, Bench, Result
from pictures import coprocessor as picture

TEXTS, QUICK_TEXTS, TEXT_WORDS = 10_000, 2_000, 500
IMAGES, QUICK_IMAGES = 20_000, 5_000
COUNTS, QUICK_COUNTS = (1, 2, 4), (1, 4)
# Solros's image search grew nearly as its co-processors did.
SCALE_AIM, SCALE_CORES = 3.8, 8
NOTE = "workers are processes of this machine; nothing stands for PCIe but a copy into a message and out of it"


def index(bench: Bench, corpus: Corpus, counts: tuple[int, ...]) -> dict:
    """Seconds and CPU seconds of indexing, by way and number of workers."""

    def once(arm: tuple[str, int]) -> dict:
        way, count = arm
        corpus.empty_indexes(count)
        with Workers(bench, corpus, way, count, "index") as workers:
            seconds, cpu = workers.wait_end()
        print(f"  index   {way:<10} {count} workers {seconds:>8.2f} s {cpu:>8.2f} s of CPU", flush=True)
        return {"rate": corpus.texts / seconds, "cpu_us": cpu / corpus.texts * 1e6}

    arms = {(way, count): (way, count) for way in WAYS for count in counts}
    return bench.alternate(arms, once)


def queries(bench: Bench, corpus: Corpus, kind: str, counts: tuple[int, ...]) -> dict:
    """Queries a second, their latency, and CPU of each, by way and number of workers."""
    seconds = bench.seconds / 2

    def once(arm: tuple[str, int]) -> dict:
        way, count = arm
        address = f"127.0.0.1:{kernel_view.free_port()}"
        # Workers of the host have no balancer: each but the first would need a port of its own.
        with Workers(bench, corpus, way, count, f"search-{kind}s" if kind == "image" else "search-text", address) as workers:
            workers.wait_ready()
            before = workers.cpu_ns()
            words = [corpus.search, "ask", address, "--kind", kind, "--clients", 4 * count, "--seconds", seconds]
            asked = bench.harness.run(Side.PLAIN, words, seconds=60 + 10 * seconds)
            if asked.process.returncode != 0:
                raise RuntimeError(f"{way}: {asked.errors()[-500:]}")
            told = {name: float(value) for name, value in (line.split() for line in asked.output().splitlines())}
            told["cpu_us"] = (workers.cpu_ns() - before) / 1e3 / told["answers"]
        if kind == "image" and told["found"] != told["answers"]:
            raise RuntimeError(f"{way}: {told['answers'] - told['found']:.0f} images had no neighbours")
        print(f"  {kind:<7} {way:<10} {count} workers {told['rate']:>8.0f}/s {told['cpu_us']:>8.1f} us of CPU", flush=True)
        return told

    ways = [(way, count) for way in WAYS for count in counts if way != HOST or count == 1]
    return bench.alternate({arm: arm for arm in ways}, once)


def rows(bench: Bench, what: str, found: dict, counts: tuple[int, ...]) -> list[Result]:
    """Ours against each other way, and how ours grows with workers."""

    def values(way: str, count: int, key: str) -> list[float]:
        return [one[key] for one in found[way, count]]

    compared = []
    for other in (OWN_STACK, STAGED, HOST):
        for count in counts:
            if (other, count) not in found:
                continue
            name = f"{what}, {count} workers, lean vs {other}"
            compared.append(bench.compare(f"{name}: rate", values(LEAN, count, "rate"), values(other, count, "rate"), "/s", note=NOTE))
            cpu = values(LEAN, count, "cpu_us"), values(other, count, "cpu_us")
            compared.append(bench.compare(f"{name}: CPU of each", *cpu, "us", better="less", note=NOTE))
    most = counts[-1]
    aim = SCALE_AIM if most == 4 and cores() >= SCALE_CORES else None
    grown = bench.compare(f"{what}, lean, {most} workers vs 1: rate", values(LEAN, most, "rate"), values(LEAN, 1, "rate"), "/s", aim=aim)
    return [*compared, grown]


def measure(bench: Bench) -> list[Result]:
    """All parts, or those that COPROCESSOR names."""
    if bench.harness.plain:
        return []
    picked = os.environ.get("COPROCESSOR", "index,image,text").split(",")
    counts = QUICK_COUNTS if bench.quick else COUNTS
    corpus = Corpus(QUICK_TEXTS if bench.quick else TEXTS, TEXT_WORDS, QUICK_IMAGES if bench.quick else IMAGES)
    sampled: dict[str, dict] = {}
    found: list[Result] = []

    def add(what: str, samples: dict) -> None:
        sampled[what] = medians(samples)
        found.extend(rows(bench, what, samples, counts))

    if "index" in picked:
        add("text indexing", index(bench, corpus, counts))
    if "image" in picked:
        add("image search", queries(bench, corpus, "image", counts))
    if "text" in picked:
        corpus.empty_indexes(counts[-1])
        with Workers(bench, corpus, HOST, counts[-1], "index") as workers:
            workers.wait_end()
        add("text search", queries(bench, corpus, "text", counts))
    if sampled:
        picture.draw(sampled, REPORT / "coprocessor.png")
    return found
