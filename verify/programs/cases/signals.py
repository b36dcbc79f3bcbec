"""Signals that arrive while a program waits for, reads from or writes to a connection."""

from __future__ import annotations

import os
import select
import signal
import socket
import time

from pair import Talk, read_all, read_exactly


class Interrupted(Exception):
    """Raised by a signal handler to leave a blocking call."""


def interrupt_after(seconds: float) -> None:
    """SIGALRM after a while, whose handler raises Interrupted."""

    def leave(*_):
        raise Interrupted

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, seconds)


class Signals:
    """A signal ends a blocking receive, accept, epoll, poll, select and send; nothing is lost."""

    def server(talk: Talk):
        connection = talk.accept()
        watch, poll = select.epoll(), select.poll()
        watch.register(connection, select.EPOLLIN)
        poll.register(connection, select.POLLIN)
        calls = {
            "recv": lambda: connection.recv(10),
            "epoll": lambda: watch.poll(20),
            "poll": lambda: poll.poll(20000),
            "select": lambda: select.select([connection], [], [], 20),
            "send": lambda: connection.sendall(bytes(100 << 20)),
        }
        for name, call in calls.items():
            interrupt_after(0.1)
            try:
                call()
                talk.say(name, "returned")
            except Interrupted:
                talk.say(name, "interrupted")
        talk.mark("done")
        talk.say("got", connection.recv(10))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("done")
        connection.sendall(b"still fine")
        talk.say("only zeros", set(read_all(connection)) <= {0})


class SignalHandlerReturns:
    """A handler that returns: the call goes on (SA_RESTART semantics seen through Python)."""

    def server(talk: Talk):
        connection, seen = talk.accept(), []
        signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
        signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
        got = connection.recv(1)
        while len(seen) < 5:
            got += connection.recv(1)
        talk.mark("enough")
        talk.say("got", set(got + read_all(connection)), "signals", len(seen) >= 5)
        signal.setitimer(signal.ITIMER_REAL, 0)

    def client(talk: Talk):
        with talk.connect() as connection:
            while not (talk.folder / "mark-enough").exists():
                time.sleep(0.05)
                connection.sendall(b".")


class HandlerUsesTheConnection:
    """A signal handler that writes to the very connection the program is reading."""

    def server(talk: Talk):
        connection = talk.accept()
        signal.signal(signal.SIGUSR1, lambda *_: os.write(connection.fileno(), b"!"))
        (talk.folder / "pid").write_text(str(os.getpid()))
        talk.mark("ready")
        talk.say("got", read_all(connection))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("ready")
        for _ in range(20):
            os.kill(int((talk.folder / "pid").read_text()), signal.SIGUSR1)
            talk.say(read_exactly(connection, 1))
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
