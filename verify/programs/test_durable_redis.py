"""redis-server with `appendfsync always` under `--durable`: every acknowledged write is there after kill -9.

A kill leaves the page cache as it is, so that alone says nothing of flushes. So the order is tested
too: with a device that takes DELAY longer no reply to a write comes sooner than that.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import durable_stub
import kernel_view
import pytest
from heliostat_run import Harness, Program, Side

DELAY = 0.005
CONNECTIONS = 20

pytestmark = pytest.mark.heliostat

# Writes numbered keys by many connections, for so many replies or until the server is gone; says of
# each reply its key and how long it took.
CLIENT = """
import selectors, socket, sys, time
port, connections, wanted = map(int, sys.argv[1:])
chosen, open_ones, number, told = selectors.DefaultSelector(), 0, 0, []
def send(connection):
    global number
    number += 1
    key = b"key:%d" % number
    connection.sendall(b"*3\\r\\n$3\\r\\nSET\\r\\n$%d\\r\\n%s\\r\\n$%d\\r\\n%s\\r\\n" % (len(key), key, len(key), key))
    return number, time.monotonic()
for _ in range(connections):
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    chosen.register(connection, selectors.EVENT_READ, [send(connection)])
    open_ones += 1
while open_ones and len(told) < wanted:
    for key, _ in chosen.select():
        try:
            answer = key.fileobj.recv(100)
        except ConnectionResetError:
            answer = b""
        if not answer:
            chosen.unregister(key.fileobj)
            open_ones -= 1
            continue
        assert answer == b"+OK\\r\\n", answer
        done, began = key.data[0]
        told.append(f"{done} {time.monotonic() - began}")
        try:
            key.data[0] = send(key.fileobj)
        except (ConnectionResetError, BrokenPipeError):
            pass
    if wanted > 10**8 and told:
        print("\\n".join(told), flush=True)
        told = []
print("\\n".join(told))
"""


@pytest.fixture(scope="module")
def stub() -> Path:
    return durable_stub.build()


def server(harness: Harness, side: Side, folder: Path, **environment) -> tuple[int, Program]:
    port = kernel_view.free_port()
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
             "--appendfsync", "always", "--dir", folder]  # fmt: skip
    program = harness.start(side, words, env={name: str(value) for name, value in environment.items()})
    kernel_view.wait_listening(port, program.process)
    return port, program


def acknowledged(output: str) -> dict[int, float]:
    """How long each reply took, by the number of its key."""
    pairs = (line.split() for line in output.splitlines() if line.count(" ") == 1 and not line.endswith(" "))
    return {int(number): float(took) for number, took in pairs}


def test_no_reply_comes_before_the_device_has_answered(harness, stub, tmp_path):
    port, program = server(
        harness, Side.HELIOSTAT, tmp_path, HELIOSTAT_STUB=stub, HELIOSTAT_DURABLE="*.aof",
        HELIOSTAT_TEST_FLUSH_DELAY_MS=int(DELAY * 1000),
    )  # fmt: skip
    words = [sys.executable, "-c", CLIENT, port, CONNECTIONS, 4000]
    client = harness.start(Side.HELIOSTAT, words)
    assert client.wait(120) == 0, client.errors()
    took = acknowledged(client.output())
    assert len(took) >= 4000 and min(took.values()) >= DELAY, sorted(took.values())[:5]
    [counters] = [one["counters"] for one in harness.status()["sessions"] if one["pid"] == program.pid]
    # The first replies of a connection may go before its ring is begun, and wait for the flush.
    assert counters["held_sends"] >= 3900 and 0 < counters["durable_flushes"] <= 4100, counters


def test_every_acknowledged_write_is_there_after_a_kill(harness, tmp_path):
    port, program = server(harness, Side.HELIOSTAT, tmp_path, HELIOSTAT_DURABLE="*.aof")
    client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", CLIENT, port, CONNECTIONS, 10**9])
    kernel_view.wait_until(lambda: client.output().count("\n") > 2000, 60, "two thousand replies")
    program.kill()
    assert client.wait(60) == 0, client.errors()
    keys = acknowledged(client.output())
    assert len(keys) > 2000
    port, _ = server(harness, Side.PLAIN, tmp_path)
    asked = "".join(f"GET key:{number}\n" for number in keys)
    answer = subprocess.run(["redis-cli", "-p", str(port)], input=asked, capture_output=True, text=True, timeout=60)
    assert answer.stdout.split() == [f"key:{number}" for number in keys]


def test_the_log_is_rewritten_and_read_as_any_other(harness, tmp_path):
    port, program = server(harness, Side.HELIOSTAT, tmp_path, HELIOSTAT_DURABLE="*.aof")
    load = ["redis-benchmark", "-p", port, "-t", "set", "-n", 3000, "-r", 100, "-q"]
    harness.run(Side.HELIOSTAT, load, seconds=120)
    ask = lambda *words: subprocess.run(  # noqa: E731
        ["redis-cli", "-p", str(port), *words], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    ask("bgrewriteaof")
    kernel_view.wait_until(lambda: "aof_rewrite_in_progress:0" in ask("info", "persistence"), 60, "the rewriting")
    harness.run(Side.HELIOSTAT, load, seconds=120)
    size = ask("dbsize")
    program.kill()
    [manifest] = tmp_path.glob("appendonlydir/*.manifest")
    checked = subprocess.run(["redis-check-aof", str(manifest)], capture_output=True, text=True, timeout=60)
    assert "is valid" in checked.stdout, checked.stdout
    port, _ = server(harness, Side.PLAIN, tmp_path)
    assert ask("dbsize") == size
