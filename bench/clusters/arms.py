"""Two nodes of each transport, Redis, and the measuring program: what all parts of BENCH=cluster share."""

from __future__ import annotations

import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import kernel_view
from heliostat_run import Harness, Program, Side
from measure import Bench, cargo_program, last_json

PACKAGE = "heliostat-bench-memory"
TRANSPORTS = ("ucx", "tcp")
HERE, OTHER = 1, 2
# What a way is called in the rows.
CALLED = {"ucx": "node by UCX", "tcp": "node by TCP", "here": "one node"}


@contextmanager
def nodes(transport: str) -> Iterator[dict[int, Harness]]:
    """Two control planes that have joined each other, by their numbers."""
    ports = {1: kernel_view.free_port(), OTHER: kernel_view.free_port()}
    address = {node: f"{transport}:127.0.0.1:{port}" for node, port in ports.items()}
    secret = secrets.token_hex(32)
    with ExitStack() as stack:
        harnesses = {}
        for node, other in ((HERE, OTHER), (OTHER, HERE)):
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
            return '"joined"' in harnesses[HERE].call("cluster", "list", "--json")

        kernel_view.wait_until(is_joined, 20, "the nodes join")
        yield harnesses


@dataclass
class Arms:
    """Where an operation is measured: on nodes by transport, on this node, and of Redis."""

    bench: Bench
    clusters: dict[str, dict[int, Harness]]
    redis: int
    program: Path = field(default_factory=lambda: cargo_program(PACKAGE))

    @property
    def seconds(self) -> str:
        return str(self.bench.seconds / 4)

    @property
    def ways(self) -> list[str]:
        """All of ours: by each transport, and on one node."""
        return [*self.clusters, "here"]

    def place(self, way: str) -> tuple[Harness, int]:
        """Where a client of a way runs, and the number of the node that it asks; 0 for its own."""
        return (self.bench.harness, 0) if way == "here" else (self.clusters[way][HERE], OTHER)

    def holder(self, way: str) -> Harness:
        """Where what is asked for lies."""
        return self.bench.harness if way == "here" else self.clusters[way][OTHER]

    def asked(self, harness: Harness, *words: object, seconds: object = None) -> dict:
        """What the measuring program says."""
        command = [str(word) for word in (self.program, *words, self.seconds if seconds is None else seconds)]
        return last_json(harness.run(Side.PLAIN, command, seconds=600))

    def us(self, way: str, verb: str, *words: object) -> float:
        """Microseconds of an operation whose second word is the node; or of Redis, or of this program alone."""
        harness, node = self.place("here" if way not in self.clusters else way)
        if way == "redis":
            return self.asked(harness, f"redis-{verb}", self.redis, *words)["ns"] / 1e3
        return self.asked(harness, verb, node, *words)["ns"] / 1e3

    def start(self, harness: Harness, *words: object) -> Program:
        """Starts the measuring program."""
        return harness.start(Side.PLAIN, [str(word) for word in (self.program, *words)])

    def serving(self, harness: Harness, *words: object) -> Program:
        """The same, and waits until it says that it is ready."""
        return wait_ready(self.start(harness, *words))


def wait_ready(program: Program) -> Program:
    """Waits until a program has said `ready`."""

    def is_ready() -> bool:
        if program.process.poll() is not None:
            raise RuntimeError(f"{program.name} has ended: {program.errors()[-500:]}")
        return program.output().startswith("ready")

    kernel_view.wait_until(is_ready, 300, f"{program.name} is ready")
    return program


def end(program: Program) -> None:
    """Ends a program that would not end by itself."""
    program.kill()
    program.process.wait()


@contextmanager
def all_of(bench: Bench) -> Iterator[Arms]:
    """Everything started."""
    with ExitStack() as stack:
        program = cargo_program(PACKAGE)
        port, folder = kernel_view.free_port(), bench.harness.folder
        words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder]
        redis = bench.harness.start(Side.PLAIN, words)
        kernel_view.wait_listening(port, redis.process)
        clusters = {transport: stack.enter_context(nodes(transport)) for transport in TRANSPORTS}
        arms = Arms(bench, clusters, port, program)
        # It may have ended: building takes its time, and nobody used it.
        bench.harness.call("run", "--", "/bin/true")
        # A session, so that this node's control plane stays while the others are asked.
        stack.callback(end, arms.serving(bench.harness, "serve", "bench/keeper", 8, 0))
        yield arms
