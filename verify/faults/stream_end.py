"""One end of a connection for the fault tests: `python stream_end.py accept|connect PORT HOW`.

After a byte each way the program prints "ready" and then does HOW until the peer's end:
waits in recv, epoll, poll or select, floods, drains, or exchanges short messages. It prints
how the connection ended and when (CLOCK_MONOTONIC, which all processes share).
"""

from __future__ import annotations

import errno
import select
import socket
import sys
import time

NEVER_S = 600


def wait_epoll(connection: socket.socket) -> None:
    watch = select.epoll()
    watch.register(connection, select.EPOLLIN | select.EPOLLRDHUP)
    watch.poll(NEVER_S)


def wait_poll(connection: socket.socket) -> None:
    watch = select.poll()
    watch.register(connection, select.POLLIN | select.POLLRDHUP)
    watch.poll(NEVER_S * 1000)


def wait_select(connection: socket.socket) -> None:
    select.select([connection], [], [], NEVER_S)


def wait_recv(_: socket.socket) -> None:
    """The receive that follows does the waiting."""


def end_by(connection: socket.socket, how: str) -> str:
    """Does `how` until the connection ends; "end" or the name of the error."""
    waits = {"recv": wait_recv, "epoll": wait_epoll, "poll": wait_poll, "select": wait_select}
    try:
        if how in waits:
            waits[how](connection)
            return "end" if connection.recv(1) == b"" else "bytes"
        while how == "flood":
            connection.send(bytes(65536), socket.MSG_NOSIGNAL)
        while how == "drain":
            if not connection.recv(65536):
                return "end"
        while how == "exchange":
            connection.send(bytes(64), socket.MSG_NOSIGNAL)
            if not connection.recv(64):
                return "end"
    except OSError as error:
        return errno.errorcode[error.errno]
    raise ValueError(how)


def open_end(role: str, port: int) -> socket.socket:
    """Accepts or connects, and exchanges one byte."""
    if role == "accept":
        with socket.create_server(("127.0.0.1", port)) as listener:
            connection = listener.accept()[0]
    else:
        connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(b"h")
    if connection.recv(1) != b"h":
        raise RuntimeError("no greeting")
    return connection


def main() -> None:
    role, port, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    connection = open_end(role, port)
    print("ready", flush=True)
    ended = end_by(connection, how)
    print(ended, time.clock_gettime_ns(time.CLOCK_MONOTONIC), flush=True)
    if how == "flood" and ended in ("ECONNRESET", "EPIPE"):
        return
    connection.close()


if __name__ == "__main__":
    main()
