"""memcached GET of 32 bytes, unmodified server, an epoll client of our own; one server thread."""

from __future__ import annotations

import kernel_view
from heliostat_run import Side
from measure import (
    P50,
    P99,
    RATE,
    SERVER_CPU,
    Bench,
    Placement,
    Result,
    compare_best,
    last_json,
    placements,
)

CONNECTIONS = [1, 50]


def start(bench: Bench, side: Side, place: Placement) -> tuple:
    port = kernel_view.free_port()
    words = ["memcached", "-l", "127.0.0.1", "-p", port, "-U", "0", "-t", "1", "-u", "root"]
    program = bench.harness.start(side, words, core=place.server)
    kernel_view.wait_listening(port, program.process)
    return side, place, port, program


def sample(bench: Bench, server: tuple, connections: int) -> dict:
    """One load; adds the server's CPU per request to what the client printed."""
    side, place, port, program = server
    words = [bench.program("memcached_load"), port, connections, bench.seconds]
    before = kernel_view.cpu_ns(program.pid)
    answer = last_json(bench.harness.run(side, words, core=place.client))
    spent = kernel_view.cpu_ns(program.pid) - before
    return {
        "rate": answer["requests"] / answer["seconds"],
        "p99_us": answer["p99_ns"] / 1e3,
        "p50_us": answer["p50_ns"] / 1e3,
        "cpu_ns": spent / answer["requests"],
    }


def measure(bench: Bench) -> list[Result]:
    servers = {
        (side, place.name): start(bench, side, place) for side in bench.sides() for place in placements()
    }
    pair, found = (Side.HELIOSTAT, Side.PLAIN), []
    for connections in CONNECTIONS:
        samples = bench.alternate(servers, lambda server: sample(bench, server, connections))
        name = f"GET, {connections} connections"
        found += [
            compare_best(bench, name, samples, value, pair) for value in (RATE, P50, P99, SERVER_CPU)
        ]
    return found
