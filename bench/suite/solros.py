"""Solros's figures 11 to 15: random reads and writes of files, and messages over TCP, by workers without a kernel.

Each load goes by the lean interface, by a small stack of the worker's own (co-processor-centric: 4 KiB blocks, or
messages, through a relay), staged (host-centric: whole blocks through a relay) and by the host's own kernel. Sizes are
swept at the most threads or connections, and these at one size. CPU is parted into the worker's and that of whoever
serves it (figure 13). Draws one page of all of Solros's figures, with those of `BENCH=ring` (4, 8 to 10) and
`BENCH=coprocessor` (16 to 20) that were recorded, or run here: target/bench/solros.png.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import kernel_view
from coprocessors.ways import HOST, LEAN, OWN_STACK, STAGED, WAYS, program, wait_ready
from heliostat_run import BINARY, ROOT, Program, Side
from measure import REPORT, Bench, Result, last_json
from pictures import solros as picture
from records import solros

KIB, MIB = 1024, 1 << 20
NAME, BYTES = "blocks", 256 * MIB
WORDS = {LEAN: "lean", OWN_STACK: "own", STAGED: "staged", HOST: "host"}
BLOCKS, QUICK_BLOCKS = (32 * KIB, 128 * KIB, 512 * KIB, 4 * MIB), (32 * KIB, 512 * KIB)
THREADS, QUICK_THREADS = (1, 4, 8), (1, 4)
# By threads at one size, which is what Solros's aim is about.
ONE_BLOCK = 512 * KIB
SIZES, QUICK_SIZES = (64, KIB, 16 * KIB, 256 * KIB), (64, 16 * KIB)
CONNECTIONS, QUICK_CONNECTIONS = (1, 8, 61), (1, 8)
# Solros against the co-processor's own stack: files 14 (NFS) to 19 (virtio) times, messages of 64 bytes 7.
FILES_AIM, MESSAGES_AIM = 14.0, 7.0
HEADERS = ROOT / "bind/lean/include"
NOTE = "workers are processes of this machine; a message through a relay stands for what crosses PCIe"


def crossed(swept: tuple, one: int, counts: tuple) -> list[tuple[int, int]]:
    """All that are swept at the last count, and one of them at the others."""
    return [(one, count) for count in counts[:-1]] + [(size, counts[-1]) for size in swept]


class Loads:
    """The measuring program, its file and its relay."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.harness = bench, bench.harness
        self.program = bench.program("worker_io", ("-pthread", f"-I{HEADERS}"))
        self.seconds = bench.seconds / 4
        self.folder = REPORT / "solros"
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / NAME
        if not file.exists() or file.stat().st_size != BYTES:
            file.write_bytes(bytes(range(256)) * (BYTES // 256))
        file.read_bytes()
        self.relay_program = program()

    def relay(self, port: int | None = None) -> tuple[Program, Path]:
        at = self.harness.folder / f"relay-{len(self.harness.programs)}"
        listen = ["--listen", f"127.0.0.1:{port}"] if port else []
        relay = self.harness.start(Side.PLAIN, [self.relay_program, "relay", at, self.folder, *listen])
        wait_ready(relay)
        return relay, at

    def worker(self, way: str, words: list, *grants: object) -> Program:
        """Starts the program as one worker; `words` without the program's name."""
        command = [self.program, *words]
        if way == LEAN:
            self.harness.call("run", "--", "/bin/true")
            # As the other ways, on any core: a worker of many threads stands for many lean cores.
            command = [BINARY, "coprocessor", "run", "--cores", "none", *grants, "--", *command]
        return self.harness.start(Side.PLAIN, command)

    def served_by(self, way: str, relay: Program | None) -> list[int]:
        """Whose CPU is the host's part."""
        if way == LEAN:
            return [self.harness.control_plane()]
        return [relay.pid] if relay else []

    def files(self, arm: tuple[str, str, int, int]) -> dict:
        """Bytes a second of one load, and CPU of the host's part for each block."""
        way, kind, block, threads = arm
        relay, at = self.relay() if way in (OWN_STACK, STAGED) else (None, self.folder)
        words = ["files", WORDS[way], at, NAME, kind, block, threads, self.seconds]
        worker = self.worker(way, words, "--root", f"{self.folder}:rw")
        served = self.served_by(way, relay)
        before = kernel_view.cpu_ns(*served)
        worker.wait(60)
        told = last_json(worker)
        told["host_us"] = (kernel_view.cpu_ns(*served) - before) / 1e3 / max(1.0, told["rate"] * self.seconds)
        if relay:
            relay.kill()
        return told

    def messages(self, arm: tuple[str, int, int]) -> dict:
        """Latency and rate of echoed messages, and CPU of both parts for each."""
        way, size, connections = arm
        port = kernel_view.free_port()
        relay, at = self.relay(port) if way in (OWN_STACK, STAGED) else (None, "-")
        worker = self.worker(way, ["echo", WORDS[way], at, port], "--listen", f"127.0.0.1:{port}")
        wait_ready(worker)
        served = self.served_by(way, relay)
        workers = [worker.pid, *kernel_view.descendants(worker.pid)]
        before = kernel_view.cpu_ns(*served), kernel_view.cpu_ns(*workers)
        asked = self.harness.run(Side.PLAIN, [self.program, "ask", port, size, connections, self.seconds])
        told = last_json(asked)
        count = max(1.0, told["rate"] * self.seconds)
        told["host_us"] = (kernel_view.cpu_ns(*served) - before[0]) / 1e3 / count
        told["worker_us"] = (kernel_view.cpu_ns(*workers) - before[1]) / 1e3 / count
        for one in (worker, *([relay] if relay else [])):
            one.kill()
        return told


def file_rows(bench: Bench, found: dict) -> list[Result]:
    """Ours against each other way."""
    rows = []
    for (way, kind, block, threads), ours in found.items():
        for other in (OWN_STACK, STAGED, HOST) if way == LEAN else ():
            theirs = found[other, kind, block, threads]
            name = f"random {kind} of {block // KIB} KiB, {threads} threads, lean vs {other}"
            aim = FILES_AIM if other == OWN_STACK and block >= 512 * KIB and kind == "read" else None
            values = [[one["bytes_s"] / 1e6 for one in samples] for samples in (ours, theirs)]
            rows.append(bench.compare(name, *values, "MB/s", aim=aim, note=NOTE))
            if other != HOST:
                cpu = [[one["host_us"] for one in samples] for samples in (ours, theirs)]
                rows.append(bench.compare(f"{name}: CPU of the host", *cpu, "us", better="less", note=NOTE))
    return rows


def message_rows(bench: Bench, found: dict) -> list[Result]:
    rows = []
    for (way, size, connections), ours in found.items():
        for other in (OWN_STACK, HOST) if way == LEAN else ():
            theirs = found[other, size, connections]
            name = f"echo of {size} B, {connections} connections, lean vs {other}"
            aim = MESSAGES_AIM if other == OWN_STACK and size == 64 else None
            values = [[one["p99_us"] for one in samples] for samples in (ours, theirs)]
            rows.append(bench.compare(f"{name}: p99", *values, "us", better="less", aim=aim, note=NOTE))
            rates = [[one["rate"] for one in samples] for samples in (ours, theirs)]
            rows.append(bench.compare(f"{name}: rate", *rates, "/s", note=NOTE))
            for part, key in (("worker", "worker_us"), *((("host", "host_us"),) if other != HOST else ())):
                cpu = [[one[key] for one in samples] for samples in (ours, theirs)]
                rows.append(bench.compare(f"{name}: CPU of the {part}", *cpu, "us", better="less", note=NOTE))
    return rows


def measure(bench: Bench) -> list[Result]:
    """All loads by all ways, then the page."""
    if bench.harness.plain:
        return []
    loads = Loads(bench)
    blocks, threads = (QUICK_BLOCKS, QUICK_THREADS) if bench.quick else (BLOCKS, THREADS)
    sizes, connections = (QUICK_SIZES, QUICK_CONNECTIONS) if bench.quick else (SIZES, CONNECTIONS)
    arms = [(way, kind, *load) for kind in ("read", "write") for load in crossed(blocks, ONE_BLOCK, threads) for way in WAYS]
    files = bench.alternate({arm: arm for arm in arms}, loads.files)
    asked = [(way, *load) for load in crossed(sizes, sizes[0], connections) for way in WAYS if way != STAGED]
    messages = bench.alternate({arm: arm for arm in asked}, loads.messages)
    rows = file_rows(bench, files) + message_rows(bench, messages)
    picture.draw(solros.with_run([asdict(row) for row in rows]), REPORT / "solros.png")
    return rows
