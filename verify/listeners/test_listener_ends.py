"""What becomes of accepted connections when a shared listener is removed, or its last worker leaves (docs/listeners.md)."""

from __future__ import annotations

import socket

import kernel_view
import pytest
import shared_port
from shared_port import shared, start_worker

pytestmark = pytest.mark.heliostat

# It takes nothing until it is told to, by a file.
LATE = shared_port.ANSWER + shared_port.LISTEN + """
import select
poll = select.poll()
poll.register(listener, select.POLLIN)
poll.poll()
while not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
while True:
    serve(listener.accept()[0])
"""


def test_a_listener_that_is_removed_loses_no_connection(harness, tmp_path):
    port = kernel_view.free_port()
    start_worker(harness, port, "round-robin", LATE, "-", tmp_path / "go")
    shared_port.wait_ready(harness, port, 1)
    clients = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(12)]
    kernel_view.wait_until(lambda: shared(harness, port)["accepted"] >= 8, 20, "a full queue")
    pid = shared(harness, port)["workers"][0]["pids"][0]
    harness.call("listener", "remove", f"127.0.0.1:{port}")
    (tmp_path / "go").touch()
    for client in clients:
        with client, client.makefile("rb") as lines:
            assert int(lines.readline()) == pid
            client.sendall(b"0\n")
            assert lines.readline() == b"done\n"


# It takes nothing, and executes one that takes its time until it first waits for a connection.
EXECUTES = shared_port.ANSWER + shared_port.LISTEN + """
import select
poll = select.poll()
poll.register(listener, select.POLLIN)
poll.poll()
while not os.path.exists(sys.argv[3]):
    time.sleep(0.05)
os.set_inheritable(listener.fileno(), True)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[4], str(port), str(listener.fileno())])
"""
SLOW = shared_port.ANSWER + """
time.sleep(4)
listener = socket.socket(fileno=int(sys.argv[2]))
while True:
    serve(listener.accept()[0])
"""


def test_what_the_only_worker_has_not_taken_waits_for_the_program_that_it_executes(harness, tmp_path):
    port = kernel_view.free_port()
    worker = start_worker(harness, port, "round-robin", EXECUTES, "-", str(tmp_path / "go"), SLOW)
    shared_port.wait_ready(harness, port, 1)
    clients = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(12)]
    kernel_view.wait_until(lambda: shared(harness, port)["accepted"] >= 8, 20, "a full queue")
    (tmp_path / "go").touch()
    for client in clients:
        with client, client.makefile("rb") as lines:
            assert int(lines.readline()) == worker.pid
            client.sendall(b"0\n")
            assert lines.readline() == b"done\n"
