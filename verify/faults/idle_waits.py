"""A wait that has nothing to tell: `python idle_waits.py wait|peer PORT FOLDER WHICH`.

Both ends exchange a byte; the peer then does what WHICH says, and the other end waits for what
never comes, by the kernel's rules. What it prints, if anything, is what the wait gave.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import time
from pathlib import Path


def fill(connection: socket.socket) -> None:
    """Writes until nothing more is taken."""
    connection.setblocking(False)
    try:
        while True:
            connection.send(bytes(65536))
    except BlockingIOError:
        pass


def poll_for_nothing(connection: socket.socket) -> None:
    watch = select.poll()
    watch.register(connection, 0)
    print(watch.poll())


def poll_for_end(connection: socket.socket) -> None:
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    print(watch.poll())


def poll_for_room(connection: socket.socket) -> None:
    fill(connection)
    watch = select.poll()
    watch.register(connection, select.POLLOUT)
    print(watch.poll())


def epoll_for_room(connection: socket.socket) -> None:
    fill(connection)
    watch = select.epoll()
    watch.register(connection, select.EPOLLOUT)
    print(watch.poll())


def epoll_for_nothing(connection: socket.socket) -> None:
    watch = select.epoll()
    watch.register(connection, 0)
    print(watch.poll())


def epoll_for_more(connection: socket.socket) -> None:
    """What came is read; there is room all the while."""
    watch = select.epoll()
    watch.register(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    connection.recv(100)
    connection.setblocking(False)
    while True:
        watch.poll()
        try:
            print(connection.recv(100))
        except BlockingIOError:
            pass


def poll_on_epoll(connection: socket.socket) -> None:
    """After a bell whose bytes have been read."""
    inner = select.epoll()
    inner.register(connection, select.EPOLLIN)
    while not inner.poll():
        pass
    connection.recv(100)
    watch = select.poll()
    watch.register(inner, select.POLLIN)
    print(watch.poll())


def poll_on_epoll_after_delete(connection: socket.socket) -> None:
    """The set has been slept in with a connection that is then taken out."""
    inner = select.epoll()
    inner.register(connection, select.EPOLLIN)
    while not inner.poll():
        pass
    connection.recv(100)
    inner.poll(0.2)
    inner.unregister(connection)
    other, _ = socket.socketpair()
    inner.register(other, select.EPOLLIN)
    watch = select.poll()
    watch.register(inner, select.POLLIN)
    print(watch.poll())


def poll_on_epoll_only(connection: socket.socket) -> None:
    """The set says that something is there, and is never asked what."""
    inner = select.epoll()
    inner.register(connection, select.EPOLLIN)
    watch = select.poll()
    watch.register(inner, select.POLLIN)
    watch.poll()
    connection.recv(100)
    print(watch.poll())


def splice_to_full_pipe(connection: socket.socket) -> None:
    """The pipe is full, and nobody reads it any more, or only later."""
    out, into = os.pipe()
    os.set_blocking(into, False)
    try:
        while True:
            os.write(into, bytes(4096))
    except BlockingIOError:
        os.set_blocking(into, True)
    os.splice(connection.fileno(), into, 100)
    print("spliced", out)


# What the waiting end does, and the peer.
WAITS = {
    "poll nothing, peer closes": (poll_for_nothing, "close"),
    "poll nothing, peer half-closes": (poll_for_nothing, "half"),
    "poll nothing, peer writes": (poll_for_nothing, "write"),
    "poll room, peer half-closes": (poll_for_room, "half"),
    "poll room, peer writes": (poll_for_room, "write"),
    "epoll nothing, peer closes": (epoll_for_nothing, "close"),
    "epoll room, peer half-closes": (epoll_for_room, "half"),
    "epoll room, peer writes": (epoll_for_room, "write"),
    "poll on epoll, bell read": (poll_on_epoll, "write"),
    "poll on epoll, deleted, peer writes": (poll_on_epoll_after_delete, "write twice"),
    "poll on epoll, deleted, peer closes": (poll_on_epoll_after_delete, "write, close"),
    "poll on epoll, never asked": (poll_on_epoll_only, "write"),
    "splice to full pipe": (splice_to_full_pipe, "write"),
    "poll nothing, unread from before the accept": (poll_for_nothing, "write"),
    "poll end, unread from before the accept": (poll_for_end, "write"),
    "epoll more, nothing since before the accept": (epoll_for_more, "nothing"),
    "epoll nothing, unread from before the accept": (epoll_for_nothing, "write"),
}
EARLY = "before the accept"


def main() -> None:
    role, port, folder, which = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    if role == "wait":
        with socket.create_server(("127.0.0.1", port)) as listener:
            while EARLY in which and not (folder / "sent").exists():
                time.sleep(0.005)
            connection = listener.accept()[0]
        if EARLY not in which:
            connection.recv(1)
        connection.send(b"x")
        print("ready", flush=True)
        WAITS[which][0](connection)
        return
    connection = socket.create_connection(("127.0.0.1", port))
    connection.send(b"x")
    (folder / "sent").touch()
    connection.recv(1)
    time.sleep(0.2)
    for what in WAITS[which][1].split(", "):
        if what == "half":
            connection.shutdown(socket.SHUT_WR)
        if what == "close":
            connection.close()
        for _ in range({"write": 1, "write twice": 2}.get(what, 0)):
            connection.send(b"abc")
            time.sleep(0.5)
    print("through", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
