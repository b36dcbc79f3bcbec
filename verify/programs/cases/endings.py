"""Ends that one side prepares, or brings about beside a thread that is still at work."""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time

from pair import Talk, read_exactly

RESET = struct.pack("ii", 1, 0)
# futex(2) on x86-64.
FUTEX = "202"
# A sockaddr of no family.
NOWHERE = struct.pack("HHIQ", socket.AF_UNSPEC, 0, 0, 0)


def greet(connection: socket.socket) -> None:
    """One byte each way: both ends know what they have."""
    connection.sendall(b"g")
    assert read_exactly(connection, 1) == b"g"


def await_asleep(thread: threading.Thread) -> None:
    """Waits until a thread sleeps in its call, and not for Python's lock: that is a futex."""
    while True:
        with open(f"/proc/self/task/{thread.native_id}/syscall") as told:
            if told.read().split()[0] not in ("running", FUTEX):
                return
        time.sleep(0.001)


class ResetPreparedBeforeConnect:
    """SO_LINGER of zero seconds, set before connect(2), makes a close a reset."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection)
        talk.say("end", talk.outcome(connection.recv, 1))

    def client(talk: Talk):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.connect(("127.0.0.1", talk.port))
        greet(connection)
        talk.say("lingers", connection.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == RESET)


class ResetPreparedByListener:
    """Set on the listening socket, it holds for what is accepted."""

    def server(talk: Talk):
        with talk.listen() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            connection = listener.accept()[0]
        greet(connection)
        talk.say("lingers", connection.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8) == RESET)

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection)
        talk.say("end", talk.outcome(connection.recv, 1))


class TakenApart:
    """connect(2) to no address resets the connection, and the socket can be connected anew."""

    def server(talk: Talk):
        with talk.listen() as listener:
            first = listener.accept()[0]
            greet(first)
            talk.say("end", talk.outcome(first.recv, 5))
            talk.mark("seen")
            second = listener.accept()[0]
            talk.say("again", read_exactly(second, 5), second.recv(1))

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection)
        talk.say("apart", talk.libc("connect", connection.fileno(), NOWHERE, len(NOWHERE)))
        talk.say("lost", talk.outcome(connection.send, b"lost", socket.MSG_NOSIGNAL))
        talk.await_mark("seen")
        connection.connect(("127.0.0.1", talk.port))
        talk.say("sent", connection.send(b"again"))


class ReadingShutBesideReaders:
    """shutdown(SHUT_RD) wakes threads that wait for bytes in a read, in poll and in an epoll set."""

    def server(talk: Talk):
        connection = talk.accept()
        greet(connection)
        poll, watch = select.poll(), select.epoll()
        poll.register(connection, select.POLLIN)
        watch.register(connection, select.EPOLLIN)
        waits = {
            "read": lambda: connection.recv(1),
            "poll": lambda: [events for _, events in poll.poll(20_000)],
            "epoll": lambda: [events for _, events in watch.poll(20)],
        }
        woken, began = {}, time.monotonic()
        threads = [threading.Thread(target=lambda n=n, w=w: woken.update({n: w()})) for n, w in waits.items()]
        for thread in threads:
            thread.start()
        time.sleep(0.2)
        connection.shutdown(socket.SHUT_RD)
        for thread in threads:
            thread.join()
        talk.say("woken", sorted(woken.items()), time.monotonic() - began < 10)
        connection.sendall(b"still written")

    def client(talk: Talk):
        connection = talk.connect()
        greet(connection)
        talk.say("heard", read_exactly(connection, 13), connection.recv(1))


class ClosedBesideReader:
    """A descriptor is shut and closed beside a thread that reads, and is another connection at once:
    the thread is told of the end of the first, and nothing is taken from the second."""

    ROUNDS = 40

    def server(talk: Talk):
        with talk.listen() as listener:
            rounds = [ClosedBesideReader.one(talk, listener) for _ in range(ClosedBesideReader.ROUNDS)]
        talk.say("rounds", set(rounds))

    def one(talk: Talk, listener: socket.socket) -> tuple[str, str]:
        first, heard = listener.accept()[0], []
        greet(first)
        reader = threading.Thread(target=lambda: heard.append(talk.outcome(os.read, first.fileno(), 10)))
        reader.start()
        await_asleep(reader)
        number = first.fileno()
        talk.libc("shutdown", number, socket.SHUT_RDWR)
        talk.libc("close", number)
        with listener.accept()[0] as second:
            assert second.fileno() == number
            reader.join()
            first.detach()
            return heard[0], talk.outcome(second.recv, 10)

    def client(talk: Talk):
        for _ in range(ClosedBesideReader.ROUNDS):
            with talk.connect() as first:
                greet(first)
                with talk.connect() as second:
                    first.recv(1)
                    time.sleep(0.01)
                    second.sendall(b"second")
                    second.recv(1)
