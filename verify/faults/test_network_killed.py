"""The control plane is killed while its loop carries connections to remote peers: each goes on where it was."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time

import kernel_view
import pytest
from heliostat_run import Harness
from network_peers import ALWAYS, BOTH_WAYS, EPOLL_ECHO, ask, connect, exchange_megabytes, sent_by_server, start_server

pytestmark = pytest.mark.heliostat

MEGABYTES = 40


@pytest.fixture
def harness():
    with Harness(configuration=ALWAYS) as one:
        yield one


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11, 0.23])
def test_a_transfer_both_ways_goes_on_byte_for_byte(harness, delay):
    reading, writing = os.pipe()
    port, server = start_server(harness, BOTH_WAYS, str(MEGABYTES), stdin=reading)
    with connect(port) as client:
        killer = threading.Timer(delay, os.kill, (harness.control_plane(), signal.SIGKILL))
        killer.start()
        sent, received = exchange_megabytes(client, MEGABYTES)
        killer.join()
        kernel_view.wait_until(lambda: server.output().strip(), 60, "the server's sum")
    os.close(writing)
    assert (server.output().strip(), received) == (sent, sent_by_server(MEGABYTES))


def test_connections_in_an_epoll_set_answer_after_it(harness):
    port, server = start_server(harness, EPOLL_ECHO)
    clients = [connect(port) for _ in range(30)]

    def all_answer(message: bytes) -> bool:
        for client in clients:
            client.sendall(message)
        return all(client.recv(len(message), socket.MSG_WAITALL) == message for client in clients)

    assert all_answer(b"before")
    assert {entry["path"] for entry in harness.explain(server.pid)} == {"delegated"}
    os.kill(harness.control_plane(), signal.SIGKILL)
    assert all_answer(b"after it")
    time.sleep(0.3)
    assert all_answer(b"and later")
    with connect(port) as new:
        assert ask(new, b"new") == b"new"


def test_a_program_that_is_started_after_it_reads_on_behind_what_was_unread(harness):
    """The loop is gone, what it has left lies in the ring, and the connection lives: all of it is the new program's."""
    program = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
assert connection.recv(1) == b"1"
while len(connection.recv(1 << 20, socket.MSG_PEEK)) < 50_000: pass
print("there", flush=True)
sys.stdin.readline()
connection.sendall(b"2")
os.dup2(connection.fileno(), 0); os.dup2(connection.fileno(), 1)
os.execv("/bin/cat", ["cat"])
"""
    reading, writing = os.pipe()
    port, server = start_server(harness, program, stdin=reading)
    unread = random.Random(3).randbytes(50_000)
    with connect(port) as client:
        client.sendall(b"1" + unread)
        kernel_view.wait_until(lambda: "there" in server.output(), 60, "the unread bytes")
        os.kill(harness.control_plane(), signal.SIGKILL)
        os.write(writing, b"\n")
        assert client.recv(1) == b"2"
        assert client.makefile("rb").read(len(unread)) == unread, server.errors()
        assert ask(client, b"what follows") == b"what follows"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    os.close(writing)
