"""The wait-free queue beside snapshots, a socket, a pipe and a lock, between two processes.

One program measures all arms (bench/snapshot/src/queue.rs): elements of 64 B to 64 MiB, written
and read whole, on two cores and on one.
"""

from __future__ import annotations

from measure import Bench, Result

from suite import snapshot


def measure(bench: Bench) -> list[Result]:
    """The rows of the program's part for queues."""
    return snapshot.measure(bench, "--part", "queue")
