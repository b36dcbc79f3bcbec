"""redis-server and redis-benchmark, unmodified, on one of three transports.

Holds what the benchmark and the demo share: starting a server, one timed load, and what the
load printed. The number of requests is chosen from a short trial, so that every arm runs for
about the same time.
"""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

import kernel_view
from heliostat_run import Harness, Program, Side
from measure import Placement

TRIAL_REQUESTS = 20_000
REQUESTS_MIN = 20_000
KEY = "key:__rand_int__"  # the literal key that redis-benchmark uses without -r


@dataclass(frozen=True)
class Transport:
    """How client and server talk: over TCP or a Unix socket, under Heliostat or not."""

    name: str
    side: Side
    unix: bool = False


TCP = Transport("TCP", Side.PLAIN)
UNIX = Transport("Unix socket", Side.PLAIN, unix=True)
HELIOSTAT = Transport("Heliostat", Side.HELIOSTAT)


@dataclass(frozen=True)
class Load:
    """What redis-benchmark is asked for."""

    clients: int
    pipeline: int = 1

    def __str__(self) -> str:
        plural = "connection" if self.clients == 1 else "connections"
        return f"{self.clients} {plural}" + (f", pipeline {self.pipeline}" if self.pipeline > 1 else "")


@dataclass
class Server:
    """A running redis-server and how its clients reach it."""

    program: Program
    transport: Transport
    place: Placement
    port: int
    socket: Path

    def target(self) -> list[str]:
        if self.transport.unix:
            return ["-s", str(self.socket)]
        return ["-h", "127.0.0.1", "-p", str(self.port)]


NOT_KEPT = ("--appendonly", "no")
KEPT = ("--appendonly", "yes", "--appendfsync", "always")


def start(
    harness: Harness,
    transport: Transport,
    place: Placement,
    keeps: tuple[str, ...] = NOT_KEPT,
    folder: Path | None = None,
    env: dict[str, str] | None = None,
) -> Server:
    """Starts a server on its core, with one key stored for GET; `env` is what it finds in its environment besides."""
    port = kernel_view.free_port()
    socket = harness.folder / f"redis-{port}.sock"
    program = harness.start(
        transport.side,
        ["redis-server", "--port", port, "--bind", "127.0.0.1", "--unixsocket", socket,
         "--save", "", *keeps, "--dir", folder or harness.folder, "--daemonize", "no"],
        core=place.server,
        env=env or {},
    )  # fmt: skip
    kernel_view.wait_listening(port, program.process)
    server = Server(program, transport, place, port, socket)
    harness.run(Side.PLAIN, ["redis-cli", "-s", socket, "set", KEY, "xxx"], seconds=20)
    return server


def command(server: Server, load: Load, tests: str, requests: int) -> list[str]:
    """The redis-benchmark command line."""
    return ["redis-benchmark", *server.target(), "--csv", "-t", tests, "-c", str(load.clients),
            "-P", str(load.pipeline), "-n", str(requests)]  # fmt: skip


def once(harness: Harness, server: Server, load: Load, tests: str, requests: int) -> dict[str, dict]:
    """Runs one load; {"GET": figures, ...} with server CPU shared out over the commands."""
    before = kernel_view.cpu_ns(server.program.pid)
    words = command(server, load, tests, requests)
    program = harness.run(server.transport.side, words, core=server.place.client, seconds=120)
    spent = kernel_view.cpu_ns(server.program.pid) - before
    rows = list(csv.DictReader(io.StringIO(csv_part(program))))
    if len(rows) != len(tests.split(",")):
        raise RuntimeError(f"redis-benchmark said: {program.output()[-500:]}{program.errors()[-500:]}")
    return {
        row["test"]: {
            "rate": float(row["rps"]),
            "p50_us": float(row["p50_latency_ms"]) * 1e3,
            "p99_us": float(row["p99_latency_ms"]) * 1e3,
            "cpu_ns": spent / (requests * len(rows)),
        }
        for row in rows
    }


def csv_part(program: Program) -> str:
    """The CSV lines of what redis-benchmark printed."""
    return "\n".join(line for line in program.output().splitlines() if line.startswith('"'))


def requests_for(
    harness: Harness, server: Server, load: Load, seconds: float, test: str = "GET", least: int = REQUESTS_MIN
) -> int:
    """How many requests take about `seconds` on this server."""
    trial = min(TRIAL_REQUESTS, least) * load.pipeline
    if load.clients == 1 and load.pipeline == 1:
        trial //= 4
    rate = once(harness, server, load, test.lower(), trial)[test]["rate"]
    return max(least, int(rate * seconds))


def paths(harness: Harness, server: Server) -> dict[str, int]:
    """How many of the server's connections are direct and native while a client is connected."""
    program = harness.start(
        server.transport.side, command(server, Load(8), "get", 50_000_000), core=server.place.client
    )
    count = {"direct": 0, "native": 0}

    def connected() -> bool:
        found = [one["path"] for one in harness.explain(server.program.pid)]
        count.update({path: found.count(path) for path in count})
        return sum(count.values()) >= 8

    try:
        kernel_view.wait_until(connected, 10, "8 connections in `heliostat explain`")
    except TimeoutError:
        pass
    finally:
        program.kill()
        program.process.wait()
    return count
