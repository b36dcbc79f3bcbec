"""Bytes that are held back: MSG_MORE and TCP_CORK, and all that pushes them.

The kernel pushes by itself after 200 ms. A look that may have come later than that says nothing: the
round is done again, and only what a look in time saw is told.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import tempfile
import time

from pair import Talk, read_all, read_exactly

IN_TIME = 0.15
LOOK = 0.02


def look_by_poll(connection: socket.socket, seconds: float | None) -> bool:
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def look_by_select(connection: socket.socket, seconds: float | None) -> bool:
    return bool(select.select([connection], [], [], seconds)[0])


def look_by_epoll(connection: socket.socket, seconds: float | None) -> bool:
    with select.epoll() as epoll:
        epoll.register(connection, select.EPOLLIN | select.EPOLLET)
        return bool(epoll.poll(seconds))


def look_by_recv(connection: socket.socket, seconds: float | None) -> bool:
    limit = struct.pack("ll", 0, int((seconds or 0) * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bytes(16))


LOOKS = (look_by_poll, look_by_select, look_by_epoll, look_by_recv)


def cork(connection: socket.socket, on: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, on)


def hold_by_flag(connection: socket.socket) -> None:
    connection.send(b"held ", socket.MSG_MORE)


def hold_by_cork(connection: socket.socket) -> None:
    cork(connection, 1)
    connection.send(b"held ")


def push_by_more(connection: socket.socket) -> None:
    connection.send(b"and ", socket.MSG_MORE)
    connection.send(b"more ", socket.MSG_MORE)
    cork(connection, 0)


def push_by_delay(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 0)


ROUNDS = [
    (hold_by_flag, lambda connection: connection.send(b"sent ")),
    (hold_by_flag, lambda connection: cork(connection, 0)),
    (hold_by_flag, push_by_more),
    (hold_by_flag, push_by_delay),
    (hold_by_cork, lambda connection: cork(connection, 0)),
    (hold_by_cork, push_by_more),
    (hold_by_cork, push_by_delay),
]


def greet(connection: socket.socket, is_client: bool) -> None:
    """A word each way, so that the connection is on its path and nothing is under way."""
    if is_client:
        connection.send(b"hello")
        read_exactly(connection, 5)
        return
    read_exactly(connection, 5)
    connection.send(b"hello")


def watched(talk: Talk, connection: socket.socket, name: str, hold) -> None:
    """Holds, and lets the other end look; again until it has looked in time."""
    for attempt in range(100):
        began = time.monotonic()
        hold(connection)
        talk.mark(f"{name}-{attempt}-held")
        talk.await_mark(f"{name}-{attempt}-looked")
        in_time = time.monotonic() - began < IN_TIME
        (talk.folder / f"{name}-{attempt}-verdict").write_text("counts" if in_time else "late")
        talk.mark(f"{name}-{attempt}-judged")
        if in_time:
            return
        cork(connection, 0)
        connection.send(b".")
        talk.await_mark(f"{name}-{attempt}-emptied")


def watch(talk: Talk, connection: socket.socket, name: str, look):
    """The other end's look, of the round that counts; what else came is read."""
    for attempt in range(100):
        talk.await_mark(f"{name}-{attempt}-held")
        seen = look(connection)
        talk.mark(f"{name}-{attempt}-looked")
        talk.await_mark(f"{name}-{attempt}-judged")
        if (talk.folder / f"{name}-{attempt}-verdict").read_text() == "counts":
            return seen
        while not connection.recv(1 << 20).endswith(b"."):
            pass
        talk.mark(f"{name}-{attempt}-emptied")
    return None


class HeldUntilPushed:
    """Nothing is seen of what is held, in whatever way one looks; all of it after a push."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)
        for number in range(len(ROUNDS)):
            for look in LOOKS:
                name = f"{number}-{look.__name__}"
                seen = watch(talk, connection, name, lambda one, look=look: look(one, LOOK))
                talk.mark(f"{name}-over")
                talk.await_mark(f"{name}-pushed")
                talk.say(name, "seen" if seen else "nothing", connection.recv(100))
                talk.mark(f"{name}-read")

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)
        for number, (hold, push) in enumerate(ROUNDS):
            for look in LOOKS:
                name = f"{number}-{look.__name__}"
                watched(talk, connection, name, hold)
                talk.await_mark(f"{name}-over")
                push(connection)
                cork(connection, 0)
                talk.mark(f"{name}-pushed")
                talk.await_mark(f"{name}-read")


class HeldFromTheBeginning:
    """TCP_CORK was set on the listening socket, and before connect: it holds from the first byte."""

    def server(talk: Talk):
        with talk.listen() as listener:
            cork(listener, 1)
            connection = listener.accept()[0]
        watched(talk, connection, "server", lambda one: (cork(one, 1), one.send(b"held "))[1])
        talk.await_mark("server-over")
        cork(connection, 0)
        talk.say("nothing" if not watch(talk, connection, "client", lambda one: look_by_poll(one, LOOK)) else "seen")
        talk.mark("client-over")
        talk.say(read_exactly(connection, 5))

    def client(talk: Talk):
        connection = socket.socket()
        cork(connection, 1)
        connection.connect(("127.0.0.1", talk.port))
        talk.say("nothing" if not watch(talk, connection, "server", lambda one: look_by_poll(one, LOOK)) else "seen")
        talk.mark("server-over")
        talk.say(read_exactly(connection, 5))
        watched(talk, connection, "client", lambda one: (cork(one, 1), one.send(b"held "))[1])
        talk.await_mark("client-over")
        cork(connection, 0)


class HeldUntilTheTime:
    """A reader that sleeps gets what is held while its writer does something else."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)
        for number in range(2):
            for look in LOOKS:
                name = f"{number}-{look.__name__}"
                talk.mark(f"{name}-sleeps")
                seen = look(connection, None)
                talk.say(name, seen, connection.recv(100))
                talk.mark(f"{name}-got")

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)
        for number, hold in enumerate((hold_by_flag, hold_by_cork)):
            for look in LOOKS:
                name = f"{number}-{look.__name__}"
                talk.await_mark(f"{name}-sleeps")
                hold(connection)
                talk.await_mark(f"{name}-got")
            cork(connection, 0)


class HeldSegments:
    """Full segments go out, and what is behind them stays."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)

        def part(one: socket.socket) -> int:
            look_by_poll(one, LOOK)
            time.sleep(LOOK)
            return len(one.recv(1 << 20, socket.MSG_PEEK | socket.MSG_DONTWAIT))

        count = watch(talk, connection, "segments", part)
        talk.say("a part", 0 < count < 50000)
        talk.mark("looked")
        talk.say("all", len(read_all(connection)))

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)

        def hold(one: socket.socket) -> None:
            cork(one, 1)
            one.sendall(bytes(50000))

        watched(talk, connection, "segments", hold)
        talk.await_mark("looked")


class HeldFile:
    """A header and a file under TCP_CORK are one, as servers send them."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)
        seen = watch(talk, connection, "file", lambda one: look_by_poll(one, LOOK))
        talk.mark("looked")
        talk.say("seen" if seen else "nothing", read_all(connection))

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)
        with tempfile.TemporaryFile() as file:
            file.write(b"the file")
            file.flush()

            def hold(one: socket.socket) -> None:
                cork(one, 1)
                one.send(b"header ")
                os.sendfile(one.fileno(), file.fileno(), 0, 8)

            watched(talk, connection, "file", hold)
        talk.await_mark("looked")
        cork(connection, 0)


class HeldAtShutdown:
    """What is held goes out before the end of this direction."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)
        talk.say("seen" if watch(talk, connection, "end", lambda one: look_by_poll(one, LOOK)) else "nothing")
        talk.mark("looked")
        talk.say(read_all(connection))
        connection.send(b"bye")

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)
        watched(talk, connection, "end", hold_by_flag)
        talk.await_mark("looked")
        connection.shutdown(socket.SHUT_WR)
        talk.say(read_all(connection))


class HeldByTheKilled:
    """What is held by a program that is killed arrives."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)
        talk.mark("sleeps")
        talk.say(read_all(connection))

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)
        talk.await_mark("sleeps")
        hold_by_cork(connection)
        os.kill(os.getpid(), signal.SIGKILL)


class HeldAcrossFork:
    """What is held before a fork arrives before what the child sends."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)
        talk.say(read_all(connection))

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)
        hold_by_cork(connection)
        child = os.fork()
        if child == 0:
            connection.send(b"child ")
            os._exit(0)
        os.waitpid(child, 0)
        connection.send(b"parent ")
        connection.close()


class HeldInALargeStream:
    """A stream of many pieces, each continued, comes whole and in order."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection, False)
        content = read_all(connection)
        talk.say(len(content), content == b"".join(bytes([number % 251]) * number for number in range(1, 1500)))

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection, True)
        for number in range(1, 1500):
            connection.sendall(bytes([number % 251]) * number, socket.MSG_MORE if number % 7 else 0)
        cork(connection, 1)
        connection.close()
