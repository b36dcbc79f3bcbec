"""ucx_perftest between two processes over loopback's TCP: what UCX's own messages take."""

from __future__ import annotations

import csv
import os
import subprocess

import kernel_view
from clusters.sizes import KIB, MIB

UCX = {"UCX_LOG_LEVEL": "error", "UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}


def perftest(test: str, size: int, count: int) -> dict[str, str]:
    """One run."""
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
    # UCX warns on its standard output too, in lines that begin with the time in brackets.
    lines = [line for line in done.stdout.splitlines() if not line.startswith("[")]
    return next(csv.DictReader(lines))


def one_way(test: str, size: int) -> float:
    """Microseconds that a message takes."""
    return float(perftest(test, size, 5_000 if size <= 4 * KIB else 1_000 if size < MIB else 100)["50.0_percentile_lat"])


def there_and_back(size: int) -> float:
    """Microseconds of a message of so many bytes, and a short one the other way."""
    small = one_way("ucp_am_lat", 8)
    return small + (small if size == 8 else one_way("ucp_am_lat", size))


def bandwidth(test: str, size: int) -> float:
    """MB/s of messages one after the other."""
    count = 100_000 if size <= 4 * KIB else 10_000 if size < MIB else 400
    return float(perftest(test, size, count)["overall_bw"]) * MIB / 1e6
