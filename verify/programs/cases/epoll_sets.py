"""One epoll set, several descriptors and processes."""

from __future__ import annotations

import errno
import fcntl
import os
import select
import socket
import threading
import time

from cases.readiness import BRIEF, said
from pair import Talk


def read_one(descriptor: int) -> bytes:
    """What is there to read, at most ten bytes."""
    return os.read(descriptor, 10)


class EpollCopies:
    """Copies of an epoll descriptor, made before the set holds anything, are the same set."""

    def server(talk: Talk):
        watch = select.epoll()
        free = os.open("/dev/null", os.O_RDONLY)
        numbers = [
            os.dup(watch.fileno()),
            os.dup2(watch.fileno(), free),
            fcntl.fcntl(watch.fileno(), fcntl.F_DUPFD_CLOEXEC, 0),
            fcntl.fcntl(watch.fileno(), fcntl.F_DUPFD, 100),
        ]
        copies = [select.epoll.fromfd(number) for number in numbers]
        listener = talk.listen()
        connections = [listener.accept()[0] for _ in copies]
        names = {one.fileno(): number for number, one in enumerate(connections)}
        for copy, connection in zip(copies, connections):
            copy.register(connection, select.EPOLLIN | select.EPOLLET)
        talk.say("twice", talk.outcome(watch.register, connections[0]))
        for number, connection in enumerate(connections):
            talk.mark(f"waiting-{number}")
            talk.say("by the original", said(watch.poll(20), names), read_one(connection.fileno()))
        watch.unregister(connections[1])
        talk.say("gone", talk.outcome(copies[0].modify, connections[1], select.EPOLLIN))
        watch.close()
        for copy in copies[:3]:
            copy.close()
        talk.mark("again")
        talk.say("by the last copy", said(copies[3].poll(20), names), read_one(connections[0].fileno()))

    def client(talk: Talk):
        connections = [talk.connect() for _ in range(4)]
        for number, connection in enumerate(connections):
            talk.await_mark(f"waiting-{number}")
            time.sleep(BRIEF)  # so that one wait in four at least has gone to sleep
            connection.sendall(b"%d" % number)
        talk.await_mark("again")
        connections[1].sendall(b"unseen")
        connections[0].sendall(b"again")
        talk.say("ends", [one.recv(1) in (b"", None) for one in connections[2:]])


class EpollPassed:
    """An epoll descriptor that was passed in a message is the set that was passed."""

    def server(talk: Talk):
        watch = select.epoll()
        listener = talk.listen()
        first, second = listener.accept()[0], listener.accept()[0]
        names = {first.fileno(): "first", second.fileno(): "second"}
        watch.register(first, select.EPOLLIN)
        near, far = socket.socketpair()
        socket.send_fds(near, [b"x"], [watch.fileno()])
        received = select.epoll.fromfd(socket.recv_fds(far, 1, 1)[1][0])
        received.register(second, select.EPOLLIN)
        talk.mark("watching")
        talk.await_mark("sent")
        time.sleep(BRIEF)  # a relay may stand between, when the client is not in a call meanwhile
        talk.say("by the original", said(watch.poll(20), names))
        talk.say("by the received", said(received.poll(20), names))
        talk.say("read", read_one(first.fileno()), read_one(second.fileno()))

    def client(talk: Talk):
        first, second = talk.connect(), talk.connect()
        talk.await_mark("watching")
        first.sendall(b"1")
        second.sendall(b"2")
        talk.mark("sent")
        talk.say("ends", [talk.outcome(one.recv, 1) for one in (first, second)])


class EpollForked:
    """A set that a forked child uses beside its parent: what one adds and deletes, both see."""

    def server(talk: Talk):
        watch = select.epoll()
        listener = talk.listen()
        first, second, third = (listener.accept()[0] for _ in range(3))
        names = {first.fileno(): "first", second.fileno(): "second", third.fileno(): "third"}
        watch.register(first, select.EPOLLIN)
        watch.register(third, select.EPOLLIN)
        talk.say("before", said(watch.poll(BRIEF), names))
        child = os.fork()
        if child == 0:
            watch.register(second, select.EPOLLIN)
            watch.unregister(third)
            talk.mark("added")
            talk.await_mark("sent")
            time.sleep(BRIEF)
            talk.say("in the child", said(watch.poll(20), names))
            os._exit(0)
        talk.await_mark("added")
        talk.await_mark("sent")
        os.waitpid(child, 0)
        talk.say("in the parent", said(watch.poll(20), names))
        talk.say("read", [read_one(one.fileno()) for one in (first, second, third)])

    def client(talk: Talk):
        connections = [talk.connect() for _ in range(3)]
        talk.await_mark("added")
        for number, connection in enumerate(connections):
            connection.sendall(b"%d" % number)
        talk.mark("sent")
        talk.say("ends", [talk.outcome(one.recv, 1) for one in connections])


class EpollForkedAndClosed:
    """A forked child that closes what it inherited takes nothing out of its parent's set."""

    def server(talk: Talk):
        watch = select.epoll()
        connection = talk.accept()
        watch.register(connection, select.EPOLLIN | select.EPOLLET)
        talk.say("before", said(watch.poll(BRIEF), {}))
        child = os.fork()
        if child == 0:
            connection.close()
            os._exit(0)
        os.waitpid(child, 0)
        talk.mark("closed")
        for turn in range(3):
            talk.say("in the parent", said(watch.poll(20), {connection.fileno(): "c"}), connection.recv(10))
            talk.mark(f"took-{turn}")

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("closed")
        for turn in range(3):
            time.sleep(2 * BRIEF)  # so that the parent's wait has gone to sleep
            connection.sendall(b"%d" % turn)
            talk.await_mark(f"took-{turn}")
        talk.say("end", connection.recv(1))


class EpollOfDaemon:
    """A set that was made before its process became a daemon is the daemon's."""

    def server(talk: Talk):
        watch = select.epoll()
        connection = talk.accept()
        watch.register(connection, select.EPOLLIN)
        talk.say("before", said(watch.poll(BRIEF), {}))
        gone, leaving = os.pipe()
        child = os.fork()
        if child != 0:
            # What stays for the child's transcript is a process that does nothing more with the set.
            watch.close()
            connection.close()
            os.close(leaving)
            os.close(gone)
            os.waitpid(child, 0)
            return
        os.close(leaving)
        os.read(gone, 1)
        talk.mark("alone")
        talk.say("in the daemon", said(watch.poll(20), {connection.fileno(): "c"}), connection.recv(10))
        os._exit(0)

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("alone")
        connection.sendall(b"hello")
        talk.say("end", connection.recv(1))


EVERY = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP
KINDS = {"edge": select.EPOLLET, "level": 0, "one-shot": select.EPOLLONESHOT}


def tell_code(number: int) -> str:
    """The name of what connect_ex or SO_ERROR gave."""
    return errno.errorcode.get(number, "none")


class EpollBeforeConnect:
    """A socket that is put into a set before it is connected, looked at before that or not."""

    def server(talk: Talk):
        with talk.listen() as listener:
            for _ in range(2 * len(KINDS)):
                connection = listener.accept()[0]
                connection.sendall(connection.recv(10))
                talk.say("end", connection.recv(10))

    def client(talk: Talk):
        for kind, flags in KINDS.items():
            for is_looked_at in (True, False):
                connection, watch = socket.socket(), select.epoll()
                connection.setblocking(False)
                names = {connection.fileno(): kind}
                watch.register(connection, EVERY | flags)
                if is_looked_at:
                    talk.say("unconnected", said(watch.poll(20), names))
                talk.say("connect", tell_code(connection.connect_ex(("127.0.0.1", talk.port))))
                if is_looked_at and kind == "one-shot":
                    talk.say("spent", said(watch.poll(BRIEF), names))
                    watch.modify(connection, EVERY | flags)
                talk.say("connected", said(watch.poll(20), names), "again", said(watch.poll(BRIEF), names))
                talk.say("error", connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
                connection.send(b"hello")
                watch.modify(connection, select.EPOLLIN | flags)
                talk.say("answered", said(watch.poll(20), names), connection.recv(10))
                connection.close()


class EpollBeforeRefusedConnect:
    """A socket in a set whose connect is refused, by an address that took one before."""

    def server(talk: Talk):
        with talk.listen() as listener:
            connection = listener.accept()[0]
        talk.mark("closed")
        talk.say("end", connection.recv(10))

    def client(talk: Talk):
        first = talk.connect()
        talk.await_mark("closed")
        for kind, flags in KINDS.items():
            connection, watch = socket.socket(), select.epoll()
            connection.setblocking(False)
            watch.register(connection, EVERY | flags)
            talk.say("connect", tell_code(connection.connect_ex(("127.0.0.1", talk.port))))
            talk.say("refused", said(watch.poll(20), {connection.fileno(): kind}))
            talk.say("error", tell_code(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))
        first.close()


class EpollBeforeConnectOfOthers:
    """Threads that wait while another connects: they hear that the socket is connected."""

    def server(talk: Talk):
        with talk.listen() as listener:
            connections = []
            for _ in range(20):
                connections.append(listener.accept()[0])
                connections[-1].sendall(connections[-1].recv(10))
            talk.say("ends", {talk.outcome(one.recv, 10) for one in connections})

    def client(talk: Talk):
        watch, alone, answers = select.epoll(), threading.Lock(), []
        connections: dict[int, socket.socket] = {}
        greeted: set[socket.socket] = set()
        answered: set[socket.socket] = set()

        def serve(number: int, mask: int):
            connection = connections[number]
            if connection in answered:
                return  # another thread was told as well
            if mask & select.EPOLLIN and connection in greeted:
                answered.add(connection)
                answers.append(connection.recv(10))
                watch.unregister(connection)
            elif mask & select.EPOLLHUP == 0 and connection not in greeted:
                greeted.add(connection)
                connection.send(b"hello")
                watch.modify(connection, select.EPOLLIN)

        def wait():
            while len(answers) < 20:
                for event in watch.poll(BRIEF):
                    with alone:
                        serve(*event)

        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        for turn in range(20):
            connection = socket.socket()
            connection.setblocking(False)
            with alone:
                connections[connection.fileno()] = connection
            watch.register(connection, select.EPOLLOUT | select.EPOLLET)
            connection.connect_ex(("127.0.0.1", talk.port))
            while len(answers) == turn:
                time.sleep(0.001)
        for thread in threads:
            thread.join()
        talk.say("answers", set(answers), len(answers))
