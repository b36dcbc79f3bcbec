"""Calls of functions, on another node and on one, beside gRPC and raw UCX; and what a client costs.

A call carries its bytes there and 8 back. gRPC is tonic's, of one thread on each side, over loopback's TCP, also
where ours stays on one node.
"""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator

import kernel_view
from clusters.arms import Arms, CALLED, end, wait_ready
from clusters.perftest import there_and_back
from clusters.sizes import KIB, MIB, named
from heliostat_run import Program, Side
from measure import ROOT, Result, last_json, own_package

SIZES = (8, 64, KIB, 4 * KIB, 64 * KIB, MIB)
DEPTH = 16
NAME = "bench/echo"
CLIENTS, QUICK_CLIENTS = 64, 8
CALLS, QUICK_CALLS = 20_000, 4_000


class Served:
    """A server of each way, and how its clients are started."""

    def __init__(self, arms: Arms, servers: dict[str, Program], grpc: Path | None, port: int) -> None:
        self.arms, self.servers, self.grpc, self.port = arms, servers, grpc, port

    @property
    def ways(self) -> list[str]:
        return list(self.servers)

    def words(self, way: str, verb: str) -> list:
        """The beginning of a client's command."""
        if way == "grpc":
            return [self.grpc, verb, self.port]
        return [self.arms.program, verb, self.arms.place(way)[1], NAME]

    def start(self, way: str, words: list) -> Program:
        harness = self.arms.bench.harness if way == "grpc" else self.arms.place(way)[0]
        return harness.start(Side.PLAIN, [str(word) for word in words])

    def asked(self, way: str, verb: str, *more: object) -> dict:
        """What a client has measured."""
        program = self.start(way, [*self.words(way, verb), *more, self.arms.seconds])
        program.wait(600)
        return last_json(program)

    def staying(self, way: str, calls: int) -> Program:
        """A client that has called so many times, and is there."""
        last = [] if way == "grpc" else [0]
        return wait_ready(self.start(way, [*self.words(way, "stay"), calls, *last]))

    def others(self, way: str) -> list[int]:
        """Processes that a call passes beside its client's."""
        server = self.servers[way].pid
        if way == "grpc":
            return [server]
        harnesses = {id(it): it for it in (self.arms.place(way)[0], self.arms.holder(way))}
        return [server, *(harness.control_plane() for harness in harnesses.values())]


@contextmanager
def served(arms: Arms) -> Iterator[Served]:
    """A server of each way."""
    grpc, port = own_package(ROOT / "bench/grpc", "heliostat-bench-grpc"), kernel_view.free_port()
    servers = {}
    with ExitStack() as stack:
        for way in arms.ways:
            servers[way] = arms.serving(arms.holder(way), "serve", NAME, MIB, 0)
            stack.callback(end, servers[way])
        if grpc:
            servers["grpc"] = arms.bench.harness.start(Side.PLAIN, [str(grpc), "serve", str(port)])
            stack.callback(end, servers["grpc"])
            kernel_view.wait_listening(port, servers["grpc"].process)
        yield Served(arms, servers, grpc, port)


def calls(arms: Arms) -> list[Result]:
    """Calls of each size: one after the other, and many on their way."""
    with served(arms) as all_ways:
        return [row for size in SIZES for row in of_size(arms, all_ways, size)]


def of_size(arms: Arms, all_ways: Served, size: int) -> list[Result]:
    def sample(way: str) -> float:
        if way == "raw":
            return there_and_back(size)
        if way == "socket":
            return arms.asked(arms.bench.harness, "socket", "write", size)["ns"] / 1e3
        return all_ways.asked(way, "call", size)["ns"] / 1e3

    rows, what = [], f"call of {named(size)}"
    found = arms.bench.alternate({way: way for way in (*all_ways.ways, "raw", "socket")}, sample)
    compare = lambda name, ours, theirs, **more: rows.append(  # noqa: E731
        arms.bench.compare(f"{what}, {name}", found[ours], theirs, "us", better="less", **more)
    )
    beyond = [raw + here for raw, here in zip(found["raw"], found["here"])]
    compare("node by UCX vs raw UCX and a call on one node", "ucx", beyond, aim=1 / 1.15)
    compare("one node vs unix socket", "here", found["socket"], aim=1.0)
    if "grpc" in found:
        for way in arms.ways:
            compare(f"{CALLED[way]} vs gRPC", way, found["grpc"], aim=1.0)
    rates = arms.bench.alternate(
        {way: way for way in all_ways.ways}, lambda way: all_ways.asked(way, "calls", size, DEPTH)["rate"]
    )
    for way in arms.ways if "grpc" in rates else []:
        name = f"calls of {named(size)}, {DEPTH} on their way, {CALLED[way]} vs gRPC"
        rows.append(arms.bench.compare(name, rates[way], rates["grpc"], "/s", aim=1.0))
    return rows


def pss_bytes(*pids: int) -> int:
    """Memory of processes, where shared pages count in parts."""
    texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    return sum(int(line.split()[1]) << 10 for text in texts for line in text.splitlines() if line.startswith("Pss:"))


def client(arms: Arms, all_ways: Served, way: str) -> dict[str, float]:
    """What clients of a way cost: memory and CPU of one, and the CPU of a call."""
    quick = arms.bench.quick
    count, calls_made = (QUICK_CLIENTS, QUICK_CALLS) if quick else (CLIENTS, CALLS)
    others = all_ways.others(way)
    before = pss_bytes(*others)
    clients = [all_ways.staying(way, 1) for _ in range(count)]
    pids = [each.pid for each in clients]
    try:
        own, elsewhere = pss_bytes(*pids) / count, max(pss_bytes(*others) - before, 0) / count
        used = kernel_view.cpu_ns(*pids, *others)
        time.sleep(2 if quick else 10)
        idle = (kernel_view.cpu_ns(*pids, *others) - used) / (2 if quick else 10) / count
    finally:
        for each in clients:
            end(each)
    used = kernel_view.cpu_ns(*others)
    caller = all_ways.staying(way, calls_made)
    busy = (kernel_view.cpu_ns(*others) - used + kernel_view.cpu_ns(caller.pid)) / calls_made
    end(caller)
    return {"own": own / MIB, "elsewhere": elsewhere / KIB, "idle": idle / 1e3, "call": busy / 1e3}


def clients(arms: Arms) -> list[Result]:
    """What a client costs, ours against gRPC's."""
    values = {
        "own": ("memory of a client's process", "MiB"),
        "elsewhere": ("memory of a client outside its process", "KiB"),
        "idle": ("CPU of an idle client, of a second", "us"),
        "call": ("CPU of a call, in all processes", "us"),
    }
    with served(arms) as all_ways:
        found = arms.bench.alternate({way: way for way in all_ways.ways}, lambda way: client(arms, all_ways, way))
    of = lambda way, key: [one[key] for one in found[way]]  # noqa: E731
    if "grpc" not in found:
        return []
    return [
        arms.bench.compare(f"{title}, {CALLED[way]} vs gRPC", of(way, key), of("grpc", key), unit, better="less", aim=1.0 if key == "call" else None)
        for way in arms.ways
        for key, (title, unit) in values.items()
    ]
