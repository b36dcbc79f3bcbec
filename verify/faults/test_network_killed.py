"""The control plane is killed while its loop carries connections to remote peers: each goes on where it was."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import socket
import sys
import threading
import time

import kernel_view
import pytest
from heliostat_run import Harness, Side

pytestmark = pytest.mark.heliostat

MEGABYTES = 40
TRANSFER = """
import hashlib, random, socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
def send():
    source = random.Random(5)
    for _ in range(int(sys.argv[2])): connection.sendall(source.randbytes(1 << 20))
    connection.shutdown(socket.SHUT_WR)
writer = threading.Thread(target=send); writer.start()
seen = hashlib.sha256()
while part := connection.recv(50000): seen.update(part)
writer.join()
print(seen.hexdigest(), flush=True)
sys.stdin.read()
"""
ECHO = """
import select, socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=100)
epoll = select.epoll(); epoll.register(listener, select.EPOLLIN)
open_ones = {}
while True:
    for fd, _ in epoll.poll():
        if fd == listener.fileno():
            connection = listener.accept()[0]
            open_ones[connection.fileno()] = connection
            epoll.register(connection, select.EPOLLIN)
            continue
        part = open_ones[fd].recv(65536)
        if part: open_ones[fd].sendall(part)
        else: epoll.unregister(fd); open_ones.pop(fd).close()
"""


@pytest.fixture
def harness():
    with Harness(configuration='[network]\ndelegate = "always"\n') as one:
        yield one


def start(harness: Harness, program: str, *words: str, **more):
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, [sys.executable, "-c", program, str(port), *words], **more)
    kernel_view.wait_listening(port, server.process)
    return port, server


@pytest.mark.parametrize("delay", [0.02, 0.05, 0.11, 0.23])
def test_a_transfer_both_ways_goes_on_byte_for_byte(harness, delay):
    reading, writing = os.pipe()
    port, server = start(harness, TRANSFER, str(MEGABYTES), stdin=reading)
    received, sent = hashlib.sha256(), hashlib.sha256()
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:

        def receive():
            while part := client.recv(1 << 16):
                received.update(part)

        reader = threading.Thread(target=receive)
        reader.start()
        killer = threading.Timer(delay, os.kill, (harness.control_plane(), signal.SIGKILL))
        killer.start()
        source = random.Random(6)
        for _ in range(MEGABYTES):
            part = source.randbytes(1 << 20)
            sent.update(part)
            client.sendall(part)
        client.shutdown(socket.SHUT_WR)
        reader.join(60)
        killer.join()
        kernel_view.wait_until(lambda: server.output().strip(), 60, "the server's sum")
    os.close(writing)
    again, expected = random.Random(5), hashlib.sha256()
    for _ in range(MEGABYTES):
        expected.update(again.randbytes(1 << 20))
    assert (server.output().strip(), received.hexdigest()) == (sent.hexdigest(), expected.hexdigest())


def test_connections_in_an_epoll_set_answer_after_it(harness):
    port, server = start(harness, ECHO)
    clients = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(30)]

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
    with socket.create_connection(("127.0.0.1", port), timeout=60) as new:
        new.sendall(b"new")
        assert new.recv(3, socket.MSG_WAITALL) == b"new"
