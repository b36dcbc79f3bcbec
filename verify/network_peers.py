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
    port, side = kernel_view.free_port(), more.pop("side", Side.HELIOSTAT)
    server = harness.start(side, [sys.executable, "-c", program, str(port), *words], **more)
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
    """Reads all that comes on a connection, beside whoever writes to it, and compares it with what is expected."""

    def __init__(self, connection: socket.socket, expected: bytes | None = None) -> None:
        self.connection, self.expected, self.seen = connection, expected, hashlib.sha256()
        self.count, self.wrong_at, self.found_at, self.error = 0, None, -1, None
        self.thread = threading.Thread(target=self._receive)
        self.thread.start()

    def _receive(self) -> None:
        try:
            while part := self.connection.recv(1 << 16):
                self.seen.update(part)
                self._compare(part)
                self.count += len(part)
        except OSError as error:
            self.error = error

    def _compare(self, part: bytes) -> None:
        if self.expected is None or self.wrong_at is not None:
            return
        wanted = self.expected[self.count : self.count + len(part)]
        if part != wanted:
            pairs = enumerate(zip(part, wanted, strict=False))
            at = next((at for at, (came, due) in pairs if came != due), len(wanted))
            self.wrong_at = self.count + at
            # Bytes that were lost, or came twice, are found again elsewhere.
            self.found_at = self.expected.find(part[at : at + 32])

    def digest(self, seconds: float | None = None) -> bytes:
        """Waits for the end, or so long; the digest of what has come."""
        self.thread.join(seconds)
        return self.seen.digest()

    def difference(self, seconds: float) -> str:
        """Waits for the end, however slow, unless nothing comes for so long: how what came differs, or nothing."""
        seen = -1
        while self.thread.is_alive() and seen != self.count:
            seen = self.count
            self.thread.join(seconds)
        told = f"{self.count} bytes of {len(self.expected)} came"
        if self.wrong_at is not None:
            return f"{told}; the one at {self.wrong_at} is wrong: what is there is that from {self.found_at} on"
        if self.error is not None:
            return f"{told}, then {self.error!r}"
        if self.thread.is_alive():
            return f"{told}, then nothing for {seconds} s"
        return "" if self.count == len(self.expected) else f"{told}, then the end"


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
