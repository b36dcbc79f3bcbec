"""Servers under Heliostat whose peers are plain, and how the tests of the network service talk to them."""

from __future__ import annotations

import hashlib
import random
import socket
import sys
import threading

import kernel_view
from heliostat_run import Harness, Side

ALWAYS = '[network]\ndelegate = "always"\n'
ECHO = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=200)
while True:
    connection = listener.accept()[0]
    try:
        while part := connection.recv(65536): connection.sendall(part)
    except ConnectionError as error: print(type(error).__name__, flush=True)
    connection.close()
"""

# One thread for reading and one for writing: the two directions do not wait for each other.
BOTH_WAYS = """
import hashlib, random, socket, sys, threading
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
connection = listener.accept()[0]
def send():
    source = random.Random(7)
    for _ in range(int(sys.argv[2])): connection.sendall(source.randbytes(1 << 20))
    connection.shutdown(socket.SHUT_WR)
writer = threading.Thread(target=send); writer.start()
seen = hashlib.sha256()
while part := connection.recv(100000): seen.update(part)
writer.join()
print(seen.hexdigest(), flush=True)
sys.stdin.read()
"""

EPOLL_ECHO = """
import select, socket, sys
listener = socket.create_server(("", int(sys.argv[1])), backlog=4096)
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


def start_server(harness: Harness, program: str, *words: str, **more) -> tuple[int, object]:
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, [sys.executable, "-c", program, str(port), *words], **more)
    kernel_view.wait_listening(port, server.process)
    return port, server


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def ask(connection: socket.socket, message: bytes) -> bytes:
    connection.sendall(message)
    return connection.recv(len(message), socket.MSG_WAITALL)


def paths(harness: Harness, pid: int) -> list[str]:
    return [entry["path"] for entry in harness.explain(pid)]


class Receiver:
    """Reads all that comes on a connection, beside whoever writes to it."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection, self.seen = connection, hashlib.sha256()
        self.thread = threading.Thread(target=self._receive)
        self.thread.start()

    def _receive(self) -> None:
        while part := self.connection.recv(1 << 16):
            self.seen.update(part)

    def digest(self, seconds: float | None = None) -> bytes:
        """Waits for the end, or so long; the digest of what has come."""
        self.thread.join(seconds)
        return self.seen.digest()


def exchange_megabytes(connection: socket.socket, count: int) -> tuple[str, bytes]:
    """Sends so many to a server of BOTH_WAYS and reads to its end: the sums of what it should see, and came."""
    receiver, source, sent = Receiver(connection), random.Random(9), hashlib.sha256()
    for _ in range(count):
        part = source.randbytes(1 << 20)
        sent.update(part)
        connection.sendall(part)
    connection.shutdown(socket.SHUT_WR)
    return sent.hexdigest(), receiver.digest(60)


def sent_by_server(count: int) -> bytes:
    """The sum of so many megabytes as BOTH_WAYS sends them."""
    again, expected = random.Random(7), hashlib.sha256()
    for _ in range(count):
        expected.update(again.randbytes(1 << 20))
    return expected.digest()
