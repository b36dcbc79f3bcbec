"""nginx and wrk, unmodified: a fixed answer, a small file, and a 1 MB file by sendfile."""

from __future__ import annotations

import re

import kernel_view
from heliostat_run import Side
from measure import RATE, SERVER_CPU, Bench, Placement, Result, compare_best, placements
from nginx_server import start_nginx

PATHS = {"fixed answer": "/fixed", "24 B file": "/small.txt", "1 MB file": "/large.bin"}
CONNECTIONS = [1, 50]


def start(bench: Bench, side: Side, place: Placement) -> tuple:
    folder = bench.harness.folder / f"nginx-{side.value}-{place.name.replace(' ', '-')}"
    port, program = start_nginx(bench.harness, side, folder, workers=1, core=place.server)
    return side, place, port, program


def sample(bench: Bench, server: tuple, path: str, connections: int) -> dict:
    """One wrk run; requests per second, and the workers' CPU per request."""
    side, place, port, program = server
    seconds = max(1, round(bench.seconds))
    url = f"http://127.0.0.1:{port}{path}"
    words = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", url]
    pids = [program.pid, *kernel_view.descendants(program.pid)]
    before = kernel_view.cpu_ns(*pids)
    said = bench.harness.run(side, words, core=place.client).output()
    spent = kernel_view.cpu_ns(*pids) - before
    requests = re.search(r"(\d+) requests in", said)
    rate = re.search(r"Requests/sec:\s*([\d.]+)", said)
    if not rate or not requests or int(requests[1]) == 0 or re.search(r"Socket errors|Non-2xx", said):
        raise RuntimeError(f"wrk said: {said}")
    return {"rate": float(rate[1]), "cpu_ns": spent / int(requests[1])}


def measure(bench: Bench) -> list[Result]:
    servers = {
        (side, place.name): start(bench, side, place) for side in bench.sides() for place in placements()
    }
    pair, found = (Side.HELIOSTAT, Side.PLAIN), []
    for what, path in PATHS.items():
        for connections in CONNECTIONS:
            samples = bench.alternate(servers, lambda server: sample(bench, server, path, connections))
            name = f"{what}, {connections} connections"
            found += [compare_best(bench, name, samples, value, pair) for value in (RATE, SERVER_CPU)]
    return found
