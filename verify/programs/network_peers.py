"""Servers under Heliostat whose peers are plain, and how the tests of the network service talk to them."""

from __future__ import annotations

import socket
import sys

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
