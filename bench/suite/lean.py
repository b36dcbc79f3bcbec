"""Lean workers beside the two other ways to serve a co-processor: reads of a file, and a TCP peer.

Ways: lean (the worker's stub, the host's server loops), staged (host-centric: a host thread reads and
copies into the worker's memory), relay (co-processor-centric: the worker has a stack of its own, a
TCP connection to a file server or a proxy on the host), plain (no co-processor: the process's own
calls). Nothing stands for PCIe: what differs is system calls, copies, stacks and wake-ups.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, ROOT, Side
from measure import REPORT, Bench, Result, last_json

HEADERS = ROOT / "bind/lean/include"
FILE_BYTES = 256 << 20
SIZES = [4 << 10, 64 << 10, 512 << 10, 4 << 20]
MESSAGES = [64, 4 << 10, 64 << 10]


def compiled() -> dict[str, Path]:
    """The measuring programs."""
    folder = REPORT / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    programs = {}
    for source in sorted((ROOT / "bench/lean").glob("*.c")):
        programs[source.stem] = folder / f"lean-{source.stem}"
        gcc = ["gcc", "-std=gnu17", "-O2", "-w", "-pthread", f"-I{HEADERS}", "-o", programs[source.stem], source]
        subprocess.run(gcc, check=True)
    return programs


def worker(*reach: str) -> list[str]:
    return [str(BINARY), "coprocessor", "run", *reach, "--"]


def label(size: int) -> str:
    return f"{size} B" if size < 1024 else f"{size >> 10} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def reads(bench: Bench, programs: dict[str, Path]) -> list[Result]:
    path = bench.harness.folder / "big"
    with open(path, "wb") as file:
        for block in range(FILE_BYTES >> 20):
            file.write(bytes([block & 255]) * (1 << 20))
    port = kernel_view.free_port()
    server = bench.harness.start(Side.PLAIN, [programs["relay"], "file", port, path])
    kernel_view.wait_until(lambda: "listens" in server.errors(), 30, "a relay")

    def sample(asked: tuple[str, int]) -> dict:
        way, size = asked
        words = [str(programs["reads"]), way, str(path), str(size), str(bench.seconds / 4), str(port)]
        before = worker("--root", str(path.parent), "--window", "64M") if way == "lean" else []
        done = bench.harness.run(Side.PLAIN, before + words, seconds=120)
        if done.process.returncode:
            raise RuntimeError(f"{way}: {done.process.returncode} {done.errors()}")
        return last_json(done)

    found = []
    for size in SIZES:
        arms = {way: (way, size) for way in ["lean", "staged", "relay", "plain"]}
        samples = bench.alternate(arms, sample)
        for other in ["staged", "relay", "plain"]:
            for key, unit, better in [("mb_per_s", "MB/s", "more"), ("p99_us", "us", "less"), ("worker_cpu_us", "us", "less")]:
                mine, theirs = ([one[key] for one in samples[way]] for way in ("lean", other))
                found.append(bench.compare(f"read {label(size)}, {key}, lean against {other}", mine, theirs, unit, better=better))
    server.kill()
    return found


def messages(bench: Bench, programs: dict[str, Path]) -> list[Result]:
    lean, plain, relayed, behind = (kernel_view.free_port() for _ in range(4))
    harness, echo = bench.harness, str(programs["echo"])
    started = [
        harness.start(Side.PLAIN, [*worker("--listen", f"127.0.0.1:{lean}"), echo, "lean", str(lean)], name="lean"),
        harness.start(Side.PLAIN, [echo, "plain", plain]),
        harness.start(Side.PLAIN, [echo, "plain", behind]),
        harness.start(Side.PLAIN, [programs["relay"], "connections", relayed, behind]),
    ]
    for program in started:
        kernel_view.wait_until(lambda program=program: "listens" in program.errors(), 30, program.name)

    def sample(asked: tuple[int, int]) -> dict:
        port, size = asked
        return last_json(harness.run(Side.PLAIN, [programs["client"], port, size, bench.seconds / 4], seconds=120))

    found = []
    for size in MESSAGES:
        samples = bench.alternate({"lean": (lean, size), "plain": (plain, size), "relay": (relayed, size)}, sample)
        for other in ["relay", "plain"]:
            for key in ["p50_us", "p99_us"]:
                mine, theirs = ([one[key] for one in samples[way]] for way in ("lean", other))
                found.append(bench.compare(f"echo {label(size)}, {key}, lean against {other}", mine, theirs, "us", better="less"))
    for program in started:
        program.kill()
    return found


def measure(bench: Bench) -> list[Result]:
    if bench.harness.plain:
        raise RuntimeError("a lean worker has no plain way")
    programs = compiled()
    return reads(bench, programs) + messages(bench, programs)
