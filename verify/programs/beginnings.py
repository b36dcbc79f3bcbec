"""One end of a case about a connection's first moments: `beginnings.py CASE server|client PORT FOLDER`.

As in `pair`: what the ends print must be what they print on plain Linux.
"""

from __future__ import annotations

import errno
import faulthandler
import os
import select
import signal
import socket
import struct
import sys
import time
from pathlib import Path

from pair import HANG_SECONDS, Talk, read_all

RESET = struct.pack("ii", 1, 0)
PATIENCE_MS = 60_000


def wait_by_poll(connection: socket.socket) -> bool:
    waiting = select.poll()
    waiting.register(connection, select.POLLIN | select.POLLRDHUP)
    return bool(waiting.poll(PATIENCE_MS))


def wait_by_epoll(connection: socket.socket) -> bool:
    with select.epoll() as waiting:
        waiting.register(connection, select.EPOLLIN | select.EPOLLRDHUP)
        return bool(waiting.poll(PATIENCE_MS / 1000))


def wait_by_edge(connection: socket.socket) -> bool:
    with select.epoll() as waiting:
        waiting.register(connection, select.EPOLLIN | select.EPOLLRDHUP | select.EPOLLET)
        return bool(waiting.poll(PATIENCE_MS / 1000))


def wait_by_reading(connection: socket.socket) -> bool:
    ends = time.monotonic() + PATIENCE_MS / 1000
    while time.monotonic() < ends:
        try:
            connection.recv(1, socket.MSG_PEEK)
            return True
        except BlockingIOError:
            time.sleep(0.01)
    return False


class Killed:
    """A server that has spoken first is killed; the client has never written."""

    wait = staticmethod(wait_by_poll)

    def server(talk: Talk, _case):
        connection = talk.accept()
        connection.send(b"hello")
        talk.await_mark("waits")
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

    def client(talk: Talk, case):
        connection = talk.connect()
        talk.say(connection.recv(5))
        connection.setblocking(False)
        talk.mark("waits")
        talk.say("woken", case.wait(connection), talk.outcome(connection.recv, 5))


class KilledPoll(Killed):
    pass


class KilledEpoll(Killed):
    wait = staticmethod(wait_by_epoll)


class KilledEdge(Killed):
    wait = staticmethod(wait_by_edge)


class KilledReading(Killed):
    wait = staticmethod(wait_by_reading)


class LeftToChild:
    """A child of the server takes its copy of the connection through exec; then the server writes."""

    is_closed = False

    def server(talk: Talk, case):
        connection = talk.accept()
        connection.set_inheritable(True)
        child = os.fork()
        if child == 0:
            os.execv("/bin/true", ["true"])
        os.waitpid(child, 0)
        talk.say(talk.outcome(connection.send, b"hello"))
        if case.is_closed:
            connection.close()
        else:
            connection.shutdown(socket.SHUT_WR)
        talk.await_mark("over")

    def client(talk: Talk, _case):
        talk.say(read_all(talk.connect()))
        talk.mark("over")


class LeftToChildThenClosed(LeftToChild):
    is_closed = True


class ShutAfterChild(LeftToChild):
    """As `LeftToChild`, but all that the server does is to shut its end."""

    def server(talk: Talk, _case):
        connection = talk.accept()
        connection.set_inheritable(True)
        child = os.fork()
        if child == 0:
            os.execv("/bin/true", ["true"])
        os.waitpid(child, 0)
        connection.shutdown(socket.SHUT_WR)
        talk.await_mark("over")


class CutShort:
    """The client resets while part of what it sent before the accept has not even left it."""

    def server(talk: Talk, _case):
        with talk.listen() as listener:
            talk.await_mark("full")
            connection = listener.accept()[0]
        talk.mark("accepted")
        talk.await_mark("gone")
        try:
            while connection.recv(1 << 16):
                pass
            talk.say("a clean end")
        except OSError as error:
            talk.say(errno.errorcode[error.errno])
        talk.say("then", talk.outcome(connection.recv, 5), talk.outcome(connection.recv, 5))

    def client(talk: Talk, _case):
        connection = talk.connect()
        connection.setblocking(False)
        try:
            while True:
                connection.send(bytes(1 << 16))
        except BlockingIOError:
            talk.mark("full")
        talk.await_mark("accepted")
        talk.outcome(connection.send, bytes(1000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.close()
        talk.mark("gone")


class BrokenPipe:
    """A client that only writes learns by SIGPIPE that the server, which never accepted, has gone."""

    def server(talk: Talk, _case):
        with talk.listen():
            talk.await_mark("connected")
        talk.mark("closed")

    def client(talk: Talk, _case):
        caught = []
        signal.signal(signal.SIGPIPE, lambda *_: caught.append("SIGPIPE"))
        connection = talk.connect()
        talk.mark("connected")
        talk.await_mark("closed")
        talk.say(talk.outcome(connection.send, b"x"), caught)
        time.sleep(0.2)
        talk.say(talk.outcome(connection.send, b"x"), caught)
        talk.say(talk.outcome(connection.send, b"x", socket.MSG_NOSIGNAL), caught)


class ErrorAsked:
    """SO_ERROR tells of a reset, once."""

    def server(talk: Talk, _case):
        with talk.listen():
            talk.await_mark("connected")
        talk.mark("closed")

    def client(talk: Talk, _case):
        connection = talk.connect()
        talk.mark("connected")
        talk.await_mark("closed")
        time.sleep(0.2)
        for _ in range(2):
            talk.say(errno.errorcode.get(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))
        talk.say(talk.outcome(connection.recv, 5))


class LookedAtWithoutCopy:
    """MSG_PEEK with MSG_TRUNC tells how much there is, and takes nothing."""

    def server(talk: Talk, _case):
        connection = talk.accept()
        talk.say(connection.recv(6, socket.MSG_WAITALL))
        connection.send(b"ready")
        talk.await_mark("sent")
        talk.say(len(connection.recv(100, socket.MSG_PEEK | socket.MSG_TRUNC)))
        talk.say(read_all(connection))

    def client(talk: Talk, _case):
        connection = talk.connect()
        connection.send(b"prefix")
        talk.say(connection.recv(5))
        connection.send(b"in the ring")
        talk.mark("sent")
        connection.close()


def main() -> None:
    name, role, port, folder = sys.argv[1:]
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    case = globals()[name]
    getattr(case, role)(Talk(role, int(port), Path(folder)), case)


if __name__ == "__main__":
    main()
