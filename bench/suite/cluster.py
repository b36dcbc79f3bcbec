"""Regions of another node, by UCX and by our own TCP, beside raw UCX and Redis; all over loopback.

Aims: the time that an operation takes beyond raw UCX's messages there and back, and beyond the hop to the
server loop here, is at most 15 % of theirs, or 300 ns; faster than Redis at every size. The hop is shown as
a row of its own. Raw UCX is `ucx_perftest`, which spins on both sides, while nodes sleep.
CLUSTER=latency,rate picks parts.
"""

from __future__ import annotations

import csv
import os
import secrets
import subprocess
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import kernel_view
from heliostat_run import BINARY, ROOT, Harness, Side
from measure import Bench, Result, last_json

PACKAGE = "heliostat-bench-memory"
KIB, MIB = 1 << 10, 1 << 20
SIZES = (8, 64, KIB, 4 * KIB, 64 * KIB, MIB, 4 * MIB)
TRANSPORTS = ("ucx", "tcp")
# Operations on their way at once.
DEPTH = 16
UCX = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}
OTHER = 2


def named(size: int) -> str:
    return f"{size} B" if size < KIB else f"{size // KIB} KiB" if size < MIB else f"{size // MIB} MiB"


@contextmanager
def nodes(transport: str) -> Iterator[Harness]:
    """Two control planes that have joined each other; the first one's harness."""
    ports = {1: kernel_view.free_port(), OTHER: kernel_view.free_port()}
    address = {node: f"{transport}:127.0.0.1:{port}" for node, port in ports.items()}
    secret = secrets.token_hex(32)
    with ExitStack() as stack:
        harnesses = {}
        for node, other in ((1, OTHER), (OTHER, 1)):
            harness = Harness()
            path = harness.folder / "secret"
            path.write_text(secret)
            path.chmod(0o600)
            harness.configuration = (
                f'[cluster]\nnode = {node}\nlisten = "{address[node]}"\nsecret = "{path}"\n'
                f'[[cluster.peer]]\nnode = {other}\naddress = "{address[other]}"\n'
            )
            harnesses[node] = stack.enter_context(harness)

        def is_joined() -> bool:
            return '"joined"' in harnesses[1].call("cluster", "list", "--json")

        kernel_view.wait_until(is_joined, 20, "the nodes join")
        yield harnesses[1]


@dataclass
class Arms:
    """What is measured: the same operation by each way."""

    bench: Bench
    program: Path
    clusters: dict[str, Harness]
    redis: int

    @property
    def seconds(self) -> str:
        return str(self.bench.seconds / 4)

    def asked(self, harness: Harness, *words: object) -> dict:
        command = [str(word) for word in (self.program, *words, self.seconds)]
        return last_json(harness.run(Side.PLAIN, command, seconds=600))

    def latency(self, arm: tuple) -> float:
        """Microseconds of one operation."""
        way, kind, size = arm
        if way == "raw":
            # A request that carries the bytes or asks for them, and an answer the other way.
            small = one_way("ucp_am_lat", 8)
            return small + (small if kind == "add" else one_way("ucp_am_lat", size))
        if way == "redis":
            return self.asked(self.clusters["tcp"], "redis", self.redis, kind, size)["ns"] / 1e3
        if way == "hop":
            return self.hop(kind, size)
        return self.asked(self.clusters[way], "node", OTHER, kind, size)["ns"] / 1e3

    def hop(self, kind: str, size: int) -> float:
        """The same operation on a region of this node by the server loop."""
        words = (self.program, "region", kind, size, 1, 16 * MIB, self.seconds)
        sealed = [BINARY, "run", "--sealed", "--region", "bench/*:allocate", "--grant", self.program, "--"]
        command = [str(word) for word in (*sealed, *words)]
        return last_json(self.bench.harness.run(Side.PLAIN, command, seconds=600))["ns"] / 1e3

    def rate(self, arm: tuple) -> float:
        """MB/s with several on their way."""
        way, kind, size = arm
        if way == "raw":
            return bandwidth("ucp_am_bw", size)
        return self.asked(self.clusters[way], "rate", OTHER, kind, size, DEPTH)["rate"] * size / 1e6


def perftest(test: str, size: int, count: int) -> dict[str, str]:
    """One run of ucx_perftest between two processes over loopback's TCP."""
    port, environment = kernel_view.free_port(), {**os.environ, **UCX}
    words = ["ucx_perftest", "-p", str(port)]
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            kernel_view.wait_listening(port, server)
            more = ["-t", test, "-s", str(size), "-n", str(count), "-w", str(max(count // 10, 1)), "-f", "-v"]
            # The address comes first: it has no options after it in the tool's own examples.
            client = [words[0], "127.0.0.1", *words[1:], *more]
            done = subprocess.run(client, env=environment, capture_output=True, text=True, timeout=120, check=True)
        finally:
            server.kill()
    return next(csv.DictReader(done.stdout.splitlines()))


def one_way(test: str, size: int) -> float:
    """Microseconds that a message takes."""
    return float(perftest(test, size, 20_000 if size <= 4 * KIB else 2_000 if size < MIB else 200)["50.0_percentile_lat"])


def bandwidth(test: str, size: int) -> float:
    """MB/s of messages one after the other."""
    count = 100_000 if size <= 4 * KIB else 10_000 if size < MIB else 400
    return float(perftest(test, size, count)["overall_bw"]) * MIB / 1e6


def latency(arms: Arms) -> list[Result]:
    """One operation after the other."""
    rows = []
    for kind, size in [("add", 8), *((kind, size) for kind in ("read", "write") for size in SIZES)]:
        ways = (*arms.clusters, "hop", "raw", "redis")
        found = arms.bench.alternate({way: (way, kind, size) for way in ways}, arms.latency)
        what = "fetch_add" if kind == "add" else f"{kind} of {named(size)}"
        compare = lambda name, ours, theirs, **more: rows.append(  # noqa: E731
            arms.bench.compare(f"{what}, {name}", found[ours], theirs, "us", better="less", **more)
        )
        beyond = [raw + hop for raw, hop in zip(found["raw"], found["hop"])]
        compare("node by UCX vs raw UCX and the hop", "ucx", beyond, aim=1 / 1.15)
        compare("node by UCX vs Redis", "ucx", found["redis"], aim=1.0)
        compare("node by TCP vs Redis", "tcp", found["redis"], aim=1.0)
        compare("the hop alone vs raw UCX", "hop", found["raw"])
    return rows


def rate(arms: Arms) -> list[Result]:
    """Many operations on their way."""
    rows = []
    for kind in ("read", "write"):
        for size in SIZES:
            found = arms.bench.alternate({way: (way, kind, size) for way in (*arms.clusters, "raw")}, arms.rate)
            for way in arms.clusters:
                name = f"{kind}s of {named(size)}, {DEPTH} on their way, node by {way.upper()} vs raw UCX's messages"
                rows.append(arms.bench.compare(name, found[way], found["raw"], "MB/s"))
    return rows


PARTS = {"latency": latency, "rate": rate}


def measure(bench: Bench) -> list[Result]:
    """All of it, or the parts that CLUSTER names."""
    if bench.harness.plain:
        return []
    cargo = os.environ.get("CARGO", "cargo")
    subprocess.run([cargo, "build", "--release", "--quiet", "--package", PACKAGE], cwd=ROOT, check=True)
    program = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / PACKAGE
    port, harness = kernel_view.free_port(), bench.harness
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", harness.folder]
    with ExitStack() as stack:
        # Building took its time, and a control plane that nobody uses ends.
        harness.call("run", "--", "/bin/true")
        redis = harness.start(Side.PLAIN, words)
        kernel_view.wait_listening(port, redis.process)
        clusters = {transport: stack.enter_context(nodes(transport)) for transport in TRANSPORTS}
        arms = Arms(bench, program, clusters, port)
        wanted = os.environ.get("CLUSTER", ",".join(PARTS)).split(",")
        return [row for name in wanted for row in PARTS[name](arms)]
