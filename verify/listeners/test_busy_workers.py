"""Workers that are busy, killed or drained: whose connections are touched, who waits, and what `explain` tells."""

from __future__ import annotations

import collections
import socket
from dataclasses import dataclass

import kernel_view
import pytest
from shared_port import KINDS, Load, ask, shared, start_worker, start_workers, wait_ready

pytestmark = pytest.mark.heliostat
HOUR_MS = 3_600_000


@dataclass
class Client:
    """One connection, and the process that took it."""

    socket: socket.socket
    pid: int = 0

    def take(self) -> int:
        """Waits until somebody has taken it."""
        self.lines = self.socket.makefile("rb")
        self.pid = int(self.lines.readline())
        return self.pid

    def finish(self, work_ms: int = 0) -> bool:
        """Asks for an answer; false where its worker is gone."""
        try:
            self.socket.sendall(b"%d\n" % work_ms)
            return self.lines.readline() == b"done\n"
        except OSError:
            return False


def connected(port: int) -> Client:
    return Client(socket.create_connection(("127.0.0.1", port), 60))


def taken(port: int, work_ms: int | None = None) -> Client:
    """A connection that somebody has taken; with `work_ms` its worker is busy for so long."""
    client = connected(port)
    client.take()
    if work_ms is not None:
        client.socket.sendall(b"%d\n" % work_ms)
    return client


def untaken(harness, port: int) -> list[int]:
    return [worker["untaken"] for worker in shared(harness, port)["workers"]]


def test_with_least_load_nobody_waits_behind_a_long_request(harness):
    port, _ = start_workers(harness, 8, rule="least-load")
    busy = [taken(port, HOUR_MS) for _ in range(4)]
    # A worker takes one connection at a time: these would wait for an hour behind one that is busy.
    served = collections.Counter(ask(port) for _ in range(80))
    assert len({it.pid for it in busy}) == 4 and not served.keys() & {it.pid for it in busy}
    assert len(served) == 4 and sum(served.values()) == 80
    assert shared(harness, port)["taken_back"] == 0, "each was given to who was free at that moment"


def test_with_round_robin_they_do_wait_and_are_then_taken_back(harness):
    port, _ = start_workers(harness, 8, rule="round-robin")
    busy = [taken(port, HOUR_MS) for _ in range(4)]
    served = collections.Counter(ask(port) for _ in range(16))
    assert not served.keys() & {it.pid for it in busy}
    assert shared(harness, port)["taken_back"] > 0


def test_what_a_killed_worker_had_not_taken_is_served_by_another(harness):
    port, workers = start_workers(harness, 2, rule="round-robin")
    first, second = taken(port), taken(port)
    assert first.pid != second.pid
    # Both serve one connection each, and three more lie in the queue of each.
    waiting = [connected(port) for _ in range(6)]
    for client in waiting:
        client.socket.sendall(b"0\n")
    kernel_view.wait_until(lambda: untaken(harness, port) == [3, 3], 20, "connections in both queues")
    victim = next(it for it in workers if first.pid in {it.pid, *kernel_view.descendants(it.pid)})
    victim.kill()
    victim.process.wait()
    kernel_view.wait_until(lambda: len(untaken(harness, port)) == 1, 20, "the end of a worker")
    assert not first.finish() and second.finish(), "its own connection ends with it, the other's does not"
    for client in waiting:
        assert client.take() == second.pid and client.lines.readline() == b"done\n"
    told = shared(harness, port)
    assert told["accepted"] == 8 and told["taken_back"] >= 3


def test_open_connections_of_others_are_untouched_by_kills_and_drains_under_load(harness):
    port, workers = start_workers(harness, 4, rule="least-load", kind="asyncio")
    clients = [taken(port) for _ in range(200)]
    by_pid = collections.Counter(client.pid for client in clients)
    assert len(by_pid) == 4, by_pid
    with Load(port) as load:
        load.go_on(100)
        drained = shared(harness, port)["workers"][0]
        harness.call("listener", "drain", drained["id"])
        load.go_on(50)
        victim = next(it for it in workers if it.pid not in drained["pids"] and it.pid in by_pid)
        victim.kill()
        victim.process.wait()
        load.go_on(100)
    # What the killed one served at that moment, 8 clients' at most, ends with it; nothing else does.
    assert len(load.failed) <= load.threads, load.failed
    finished = collections.Counter(client.pid for client in clients if client.finish())
    assert finished == {pid: count for pid, count in by_pid.items() if pid != victim.pid}
    assert shared(harness, port)["accepted"] == len(clients) + load.served.total() + len(load.failed)


def test_explain_tells_the_part_of_a_worker_and_that_of_the_others(harness):
    port, _ = start_workers(harness, 3, rule="least-load")
    busy = taken(port, HOUR_MS)
    for _ in range(8):
        ask(port)
    own = next(it for it in shared(harness, port)["workers"] if busy.pid in it["pids"])
    told = harness.call("explain", str(busy.pid))
    assert f"shared listener 127.0.0.1:{port} by least-load, of 3 workers" in told, told
    assert f"this process: place {own['place']}, ready; got 1 connections, 0 of them not taken yet; load 1" in told, told
    assert "the others got 8 connections: place " in told, told
    harness.call("listener", "drain", own["id"])
    assert f"place {own['place']}, draining" in harness.call("explain", str(busy.pid))


def test_explain_of_a_program_that_shares_nothing_tells_of_no_listener(harness):
    port, _ = start_workers(harness, 1)
    alone = start_worker(harness, kernel_view.free_port(), "round-robin", KINDS["blocking"][0])
    wait_ready(harness, port, 1)
    kernel_view.wait_until(lambda: "shared listener" in explained(harness, alone.pid), 20, "a listener of its own")
    assert f":{port} " not in explained(harness, alone.pid)


def explained(harness, pid: int) -> str:
    try:
        return harness.call("explain", str(pid))
    except RuntimeError:
        return ""
