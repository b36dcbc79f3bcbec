"""What epoll, poll and select say, event by event."""

from __future__ import annotations

import os
import select
import socket
import threading
import time

from pair import Talk, read_all, read_exactly

MASKS = ["IN", "PRI", "OUT", "ERR", "HUP", "RDHUP"]
BRIEF = 0.1  # a wait that is expected to find nothing


def masks(mask: int) -> str:
    """EPOLLIN|EPOLLOUT as IN+OUT; poll's names have the same values."""
    return "+".join(name for name in MASKS if mask & getattr(select, f"EPOLL{name}")) or "none"


def said(events: list, names: dict) -> list[str]:
    """Events with descriptors replaced by names, in a fixed order."""
    return sorted(f"{names.get(fd, '?')}:{masks(mask)}" for fd, mask in events)


def fill(connection: socket.socket) -> int:
    """Writes until the stream is full; how much went in."""
    connection.setblocking(False)
    total = 0
    try:
        while True:
            total += connection.send(bytes(65536))
    except BlockingIOError:
        return total


class EpollLevel:
    """Level-triggered: silent, readable until read, peer's end, both ends."""

    def server(talk: Talk):
        connection = talk.accept()
        watch, names = select.epoll(), {connection.fileno(): "c"}
        watch.register(connection, select.EPOLLIN | select.EPOLLRDHUP)
        talk.say("silent", said(watch.poll(BRIEF), names))
        talk.mark("watching")
        talk.say("sent", said(watch.poll(20), names), said(watch.poll(20), names))
        connection.recv(2)
        talk.say("half read", said(watch.poll(20), names))
        connection.recv(2)
        talk.say("read", said(watch.poll(BRIEF), names))
        watch.modify(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)
        talk.say("writable", said(watch.poll(20), names))
        talk.mark("end it")
        talk.await_mark("ended")
        talk.say("peer's end", said(watch.poll(20), names))
        connection.shutdown(socket.SHUT_WR)
        talk.say("both ends", said(watch.poll(20), names))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("watching")
        connection.sendall(b"abcd")
        talk.await_mark("end it")
        connection.shutdown(socket.SHUT_WR)
        talk.mark("ended")
        talk.say("end", connection.recv(1))


class EpollEdge:
    """Edge-triggered: once per arrival, not again without one, again after more."""

    def server(talk: Talk):
        connection = talk.accept()
        watch, names = select.epoll(), {connection.fileno(): "c"}
        talk.await_mark("first")
        watch.register(connection, select.EPOLLIN | select.EPOLLET)
        talk.say("first", said(watch.poll(20), names), "again", said(watch.poll(BRIEF), names))
        talk.mark("took first")
        talk.say("second", said(watch.poll(20), names), "again", said(watch.poll(BRIEF), names))
        talk.say("read", connection.recv(100), said(watch.poll(BRIEF), names))
        watch.modify(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
        talk.say("rearmed", said(watch.poll(20), names), "again", said(watch.poll(BRIEF), names))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"one")
        talk.mark("first")
        talk.await_mark("took first")
        connection.sendall(b"two")
        talk.say("end", connection.recv(1))


class EpollEdgeWritable:
    """Edge-triggered OUT: after a full stream was drained, once."""

    def server(talk: Talk):
        connection = talk.accept()
        watch, names = select.epoll(), {connection.fileno(): "c"}
        watch.register(connection, select.EPOLLOUT | select.EPOLLET)
        talk.say("at first", said(watch.poll(20), names), said(watch.poll(BRIEF), names))
        total = fill(connection)
        talk.say("full", said(watch.poll(BRIEF), names))
        talk.mark("full")
        talk.say("drained", said(watch.poll(20), names))
        connection.setblocking(True)
        connection.shutdown(socket.SHUT_WR)
        connection.recv(1)
        talk.say("all of it", total == int((talk.folder / "drained").read_text()))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("full")
        (talk.folder / "drained").write_text(str(len(read_all(connection))))
        connection.close()


class EpollOneShot:
    """One-shot: silent after one event until it is armed again."""

    def server(talk: Talk):
        connection = talk.accept()
        watch, names = select.epoll(), {connection.fileno(): "c"}
        watch.register(connection, select.EPOLLIN | select.EPOLLONESHOT)
        talk.say("first", said(watch.poll(20), names), "again", said(watch.poll(BRIEF), names))
        watch.modify(connection, select.EPOLLIN | select.EPOLLONESHOT)
        talk.say("armed", said(watch.poll(20), names), "again", said(watch.poll(BRIEF), names))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"x")
        talk.say("end", talk.outcome(connection.recv, 1) in ("b''", "ECONNRESET"))


class EpollMixed:
    """Two connections, a pipe, a listener and an event counter in one set."""

    def server(talk: Talk):
        listener = talk.listen()
        first, second = listener.accept()[0], listener.accept()[0]
        out, into = os.pipe()
        counter = os.eventfd(0)
        watch = select.epoll()
        names = {first.fileno(): "first", second.fileno(): "second", out: "pipe"}
        names |= {listener.fileno(): "listener", counter: "counter"}
        for descriptor in names:
            watch.register(descriptor, select.EPOLLIN)
        for mark in ("nothing", "second", "both"):
            talk.await_mark(mark)
            talk.say(mark, said(watch.poll(BRIEF), names))
            talk.mark(f"saw-{mark}")
        os.write(into, b"x")
        os.eventfd_write(counter, 1)
        talk.say("with pipe", said(watch.poll(20), names))
        talk.mark("saw-pipe")
        talk.await_mark("third")
        talk.say("with listener", said(watch.poll(20), names))
        talk.say("at most two", len(watch.poll(20, 2)))
        watch.unregister(first)
        second.recv(10)
        talk.say("less", said(watch.poll(20), names))

    def client(talk: Talk):
        first = talk.connect()
        second = talk.connect()
        talk.mark("nothing")
        talk.await_mark("saw-nothing")
        second.sendall(b"2")
        talk.mark("second")
        talk.await_mark("saw-second")
        first.sendall(b"1")
        talk.mark("both")
        talk.await_mark("saw-pipe")
        third = talk.connect()
        talk.mark("third")
        talk.say("ends", talk.outcome(second.recv, 1), third is not None)


class EpollNested:
    """A set inside a set."""

    def server(talk: Talk):
        connection = talk.accept()
        inner, outer = select.epoll(), select.epoll()
        inner.register(connection, select.EPOLLIN)
        outer.register(inner.fileno(), select.EPOLLIN)
        names = {inner.fileno(): "inner", connection.fileno(): "c"}
        talk.say("silent", said(outer.poll(BRIEF), names))
        talk.mark("watching")
        talk.say("sent", said(outer.poll(20), names), said(inner.poll(20), names))
        talk.say("polled", bool(select.select([inner], [], [], 20)[0]))
        connection.recv(10)
        talk.say("read", said(outer.poll(BRIEF), names), said(inner.poll(BRIEF), names))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("watching")
        connection.sendall(b"x")
        talk.say("end", connection.recv(1))


class EpollForgetsClosed:
    """Closing a descriptor takes it out of the set; a new one of the same number is not in it."""

    def server(talk: Talk):
        listener = talk.listen()
        first = listener.accept()[0]
        watch = select.epoll()
        watch.register(first, select.EPOLLIN)
        number = first.fileno()
        first.close()
        second = listener.accept()[0]
        talk.say("same number", second.fileno() == number)
        talk.await_mark("sent")
        talk.say("not in the set", watch.poll(BRIEF))
        watch.register(second, select.EPOLLIN)
        talk.say("in the set", said(watch.poll(20), {second.fileno(): "second"}))
        talk.say("twice", talk.outcome(watch.register, second))

    def client(talk: Talk):
        first = talk.connect()
        talk.say("end", first.recv(1))
        second = talk.connect()
        second.sendall(b"x")
        talk.mark("sent")
        talk.outcome(second.recv, 1)


class EpollDuplicate:
    """A duplicate keeps a registration alive after the original was closed."""

    def server(talk: Talk):
        connection = talk.accept()
        watch = select.epoll()
        duplicate = os.dup(connection.fileno())
        names = {connection.fileno(): "original", duplicate: "duplicate"}
        watch.register(connection, select.EPOLLIN)
        watch.register(duplicate, select.EPOLLIN)
        talk.await_mark("sent")
        talk.say("both", said(watch.poll(20), names))
        os.close(duplicate)
        talk.say("read", os.read(connection.fileno(), 10))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"x")
        talk.mark("sent")
        talk.say("end", connection.recv(1))


class EpollTimes:
    """A wait with a limit lasts at least that long; zero returns at once."""

    def server(talk: Talk):
        connection = talk.accept()
        watch = select.epoll()
        watch.register(connection, select.EPOLLIN)
        for seconds in (0, 0.02, 0.2):
            started = time.monotonic()
            events = watch.poll(seconds)
            talk.say(seconds, events, time.monotonic() - started >= seconds * 0.99)

    def client(talk: Talk):
        talk.say("end", talk.connect().recv(1))


class EpollFromAnotherThread:
    """A set that a thread waits on: additions and bytes by other threads wake it."""

    def server(talk: Talk):
        listener = talk.listen()
        watch, woken = select.epoll(), []

        def wait():
            woken.append([masks(mask) for _, mask in watch.poll(20)])

        waiter = threading.Thread(target=wait)
        waiter.start()
        connection = listener.accept()[0]
        talk.await_mark("sent")
        watch.register(connection, select.EPOLLIN)
        waiter.join()
        talk.say("woken", woken)

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"x")
        talk.mark("sent")
        talk.say("end", talk.outcome(connection.recv, 1) in ("b''", "ECONNRESET"))


class Poll:
    """poll: silent, readable, writable or not, peer's end, both ends, a bad descriptor."""

    def server(talk: Talk):
        connection = talk.accept()
        watch, names = select.poll(), {connection.fileno(): "c"}
        every = select.POLLIN | select.POLLOUT | select.POLLRDHUP
        watch.register(connection, select.POLLIN)
        talk.say("silent", said(watch.poll(100), names))
        talk.mark("watching")
        talk.say("sent", said(watch.poll(20000), names))
        watch.register(connection, every)
        talk.say("all", said(watch.poll(20000), names))
        connection.recv(10)
        (talk.folder / "filled").write_text(str(fill(connection)))
        talk.say("full", said(watch.poll(100), names))
        talk.mark("full")
        talk.await_mark("ended")
        talk.say("peer's end", said(watch.poll(20000), names))
        connection.setblocking(True)
        connection.shutdown(socket.SHUT_WR)
        talk.say("both ends", said(watch.poll(20000), names))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("watching")
        connection.sendall(b"x")
        talk.await_mark("full")
        talk.say("only zeros", set(read_exactly(connection, int((talk.folder / "filled").read_text()))) == {0})
        connection.shutdown(socket.SHUT_WR)
        talk.mark("ended")
        talk.say("end", connection.recv(1))


class Select:
    """select: silent, readable, writable or not, and with a pipe beside."""

    def server(talk: Talk):
        connection = talk.accept()
        out, into = os.pipe()

        def look(seconds: float) -> list[int]:
            return [len(ready) for ready in select.select([connection, out], [connection], [connection], seconds)]

        talk.say("writable", look(20))
        fill(connection)
        talk.say("full", look(BRIEF))
        os.write(into, b"x")
        talk.say("pipe", look(20))
        talk.mark("full")
        talk.await_mark("sent")
        talk.say("bytes", [len(ready) for ready in select.select([connection, out], [], [], 20)])

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("full")
        connection.sendall(b"x")
        talk.mark("sent")
        talk.say("end", talk.outcome(read_all, connection) != "")


class PollHundred:
    """poll over 100 connections of which three have bytes."""

    def server(talk: Talk):
        with talk.listen(backlog=200) as listener:
            connections = [listener.accept()[0] for _ in range(100)]
        watch = select.poll()
        names = {one.fileno(): f"{number:03}" for number, one in enumerate(connections)}
        for one in connections:
            watch.register(one, select.POLLIN)
        talk.await_mark("sent")
        talk.say(said(watch.poll(20000), names))

    def client(talk: Talk):
        connections = [talk.connect() for _ in range(100)]
        for number in (7, 42, 99):
            connections[number].sendall(b"x")
        talk.mark("sent")
        talk.say("end", connections[0].recv(1))
