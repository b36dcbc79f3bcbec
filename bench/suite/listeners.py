"""One port, eight workers, skewed requests: the slowest of a hundred by each rule (docs/listeners.md)."""

from __future__ import annotations

import asyncio
import random
import sys

import kernel_view
from heliostat_run import BINARY, Side
from measure import Bench, Result

WORKERS = 8
LIGHT_MS, HEAVY_MS = 1, 400
# Of all requests: less than one in a hundred, so that the 99th percentile is not theirs.
HEAVY_SHARE = 0.008
PER_SECOND = 200
WORKER = """
import socket, sys, time
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if sys.argv[2] == "reuseport":
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", int(sys.argv[1])))
listener.listen(1024)
while True:
    connection, _ = listener.accept()
    request = connection.recv(4096)
    if request:
        time.sleep(int(request.split()[1][1:]) / 1000)
        connection.sendall(b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\nContent-Length: 2\\r\\n\\r\\nok")
    connection.close()
"""


def requests(count: int) -> list[int]:
    """How long each request takes: the same for every arm, in an order at random."""
    heavy = round(count * HEAVY_SHARE)
    all_ms = [HEAVY_MS] * heavy + [LIGHT_MS] * (count - heavy)
    random.Random(7).shuffle(all_ms)
    return all_ms


async def one(port: int, at: float, work_ms: int) -> float:
    """Milliseconds from when a request was due until its answer was whole."""
    clock = asyncio.get_running_loop()
    await asyncio.sleep(at - clock.time())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % work_ms)
    answer = await reader.read()
    writer.close()
    if not answer.endswith(b"ok"):
        raise ConnectionError(f"a request of {work_ms} ms was answered {answer!r}")
    return (clock.time() - at) * 1000


async def load(port: int, all_ms: list[int]) -> list[float]:
    """Sends each request when it is due, whatever became of those before."""
    arrivals, at = random.Random(8), asyncio.get_running_loop().time() + 0.2
    due = []
    for _ in all_ms:
        at += arrivals.expovariate(PER_SECOND)
        due.append(at)
    return await asyncio.gather(*(one(port, at, work_ms) for at, work_ms in zip(due, all_ms)))


def sample(bench: Bench, rule: str, count: int) -> float:
    """The 99th percentile under one rule, in ms."""
    port = kernel_view.free_port()
    run = [] if rule == "reuseport" else [BINARY, "run", "--share", f"{port}:{rule}", "--"]
    words = [*run, sys.executable, "-c", WORKER, port, "reuseport" if rule == "reuseport" else "-"]
    workers = [bench.harness.start(Side.PLAIN, words, name="worker") for _ in range(WORKERS)]
    kernel_view.wait_listening(port)

    def are_ready() -> bool:
        found = [it for it in bench.harness.status()["listeners"] if it["address"].endswith(f":{port}")]
        return bool(found) and sum(it["state"] == "ready" for it in found[0]["workers"]) == WORKERS

    if run:
        kernel_view.wait_until(are_ready, 60, "workers")
    taken = sorted(asyncio.run(load(port, requests(count))))
    for worker in workers:
        worker.kill()
        worker.process.wait()
    return taken[int(len(taken) * 0.99)]


def measure(bench: Bench) -> list[Result]:
    count = 1000 if bench.quick else 3000
    rules = ["reuseport"] if bench.harness.plain else ["reuseport", "round-robin", "least-load"]
    found = bench.alternate({rule: rule for rule in rules}, lambda rule: sample(bench, rule, count))
    note = f"{WORKERS} workers, {count} requests at {PER_SECOND}/s, one in {round(1 / HEAVY_SHARE)} takes {HEAVY_MS} ms"
    ours = found.get("least-load", [])
    compare = lambda name, theirs, **more: bench.compare(name, ours, theirs, "ms", better="less", note=note, **more)  # noqa: E731
    results = [compare("least load, p99 against SO_REUSEPORT", found["reuseport"])]
    if ours:
        results.insert(0, compare("least load, p99 against round robin", found["round-robin"], aim=2.0))
    return results
