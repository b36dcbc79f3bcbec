"""Connections that are shared, inherited, passed on or left behind by processes and threads."""

from __future__ import annotations

import array
import multiprocessing
import os
import socket
import subprocess
import sys

from pair import Talk, digest, pattern, read_all, read_exactly


def in_child(work) -> int:
    """Runs `work` in a forked child and returns how it ended."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


class ChildServes:
    """The parent accepts and forks; the child speaks, the parent closes."""

    def server(talk: Talk):
        listener = talk.listen()
        for _ in range(3):
            connection = listener.accept()[0]
            child = os.fork()
            if child == 0:
                connection.sendall(read_exactly(connection, 5)[::-1])
                connection.close()
                os._exit(0)
            connection.close()
            talk.say("child", os.waitpid(child, 0)[1])

    def client(talk: Talk):
        for word in (b"alpha", b"bravo", b"delta"):
            with talk.connect() as connection:
                connection.sendall(word)
                talk.say(read_all(connection))


class ParentAndChildTakeTurns:
    """Bytes already exchanged, then a fork: child and parent write and read in turn."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.sendall(b"parent " + read_exactly(connection, 1))

        def turn():
            connection.sendall(b"child " + read_exactly(connection, 1))

        talk.say("child", in_child(turn))
        connection.sendall(b"parent " + read_exactly(connection, 1))
        talk.say("child", in_child(turn))

    def client(talk: Talk):
        connection = talk.connect()
        for turn, size in enumerate((8, 7, 8, 7)):
            connection.sendall(b"%d" % turn)
            talk.say(read_exactly(connection, size))
        talk.say("end", connection.recv(1))


class EndOnlyWhenBothClosed:
    """The peer sees the end when the last holder is gone, not the first."""

    def server(talk: Talk):
        connection = talk.accept()
        if os.fork() == 0:
            talk.await_mark("checked")
            connection.sendall(b"from the child")
            os._exit(0)
        connection.close()
        talk.mark("parent closed")
        os.wait()
        talk.say("over")

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("parent closed")
        connection.settimeout(0.1)
        try:
            talk.say(connection.recv(1))
        except TimeoutError:
            talk.say("no end yet")
        connection.settimeout(None)
        talk.mark("checked")
        talk.say(read_all(connection))


class ForkedClient:
    """A connected client forks; the child goes on with the connection after the parent left it."""

    def server(talk: Talk):
        talk.say("got", read_all(talk.accept()))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"parent,")
        talk.say("child", in_child(lambda: connection.sendall(b"child,")))
        connection.sendall(b"parent again")


class InheritedByExec:
    """inetd's way: an accepted connection is the standard input and output of another program."""

    def server(talk: Talk):
        connection = talk.accept()
        child = subprocess.Popen(["tr", "a-z", "A-Z"], stdin=connection, stdout=connection)
        connection.close()
        talk.say("ended", child.wait())

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"shout this")
        connection.shutdown(socket.SHUT_WR)
        talk.say(read_all(connection))


class ExecAfterTraffic:
    """Bytes have flowed, one is unread, then exec: the new program reads on from there."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("sent")
        talk.say(read_exactly(connection, 6))
        os.set_inheritable(connection.fileno(), True)
        code = "import os,sys; f=int(sys.argv[1]); os.write(f, os.read(f, 100)[::-1])"
        os.execv(sys.executable, [sys.executable, "-c", code, str(connection.fileno())])

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"first second")
        talk.mark("sent")
        talk.say(read_all(connection))


class ExecInForkedChild:
    """A forked child execs with bytes unread; the parent closes its own descriptor after that."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("sent")
        talk.say(read_exactly(connection, 6))
        child = os.fork()
        if child == 0:
            os.dup2(connection.fileno(), 0)
            closed = f"os.path.exists('{talk.folder}/mark-closed')"
            code = f"import os, time\nos.write(0, os.read(0, 100)[::-1])\nwhile not {closed}: time.sleep(0.002)"
            os.execv(sys.executable, [sys.executable, "-c", code])
        talk.await_mark("answered")
        connection.close()
        talk.mark("closed")
        talk.say("child", os.waitpid(child, 0)[1])

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"first second")
        talk.mark("sent")
        talk.say(read_exactly(connection, 6))
        talk.mark("answered")
        talk.say("end", read_all(connection))


class ClosedByExec:
    """A close-on-exec connection ends for the peer when its only holder execs."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.sendall(b"x")
        os.execv("/bin/sh", ["sh", "-c", f"while [ ! -e '{talk.folder}/mark-ended' ]; do sleep 0.02; done"])

    def client(talk: Talk):
        connection = talk.connect()
        talk.say(read_all(connection))
        talk.mark("ended")


class DescriptorPassed:
    """SCM_RIGHTS hands a connection to another process over a Unix socket."""

    def server(talk: Talk):
        connection = talk.accept()
        mine, other = socket.socketpair(socket.AF_UNIX)
        child = os.fork()
        if child == 0:
            mine.close()
            connection.close()
            ints = array.array("i", [0])
            ancillary = other.recvmsg(1, socket.CMSG_SPACE(ints.itemsize))[1]
            ints.frombytes(ancillary[0][2][: ints.itemsize])
            with socket.socket(fileno=ints[-1]) as passed:
                passed.sendall(b"passed on: " + read_exactly(passed, 5))
            os._exit(0)
        read = read_exactly(connection, 5)
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno()]))]
        mine.sendmsg([b"x"], rights)
        connection.close()
        talk.say(read, "child", os.waitpid(child, 0)[1])

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"12345")
        connection.sendall(b"67890")
        talk.say(read_all(connection))


class Duplicates:
    """dup, dup2 and fcntl: any of them works, and the last one to go ends the connection."""

    def server(talk: Talk):
        connection = talk.accept()
        first = os.dup(connection.fileno())
        second = os.dup2(connection.fileno(), 200)
        os.write(first, b"first,")
        os.write(second, b"second,")
        connection.sendall(b"original,")
        connection.close()
        os.write(first, b"first again,")
        os.close(first)
        talk.say("read by the last", os.read(second, 100))
        os.write(second, b"last")
        os.close(second)
        talk.say("closed", talk.outcome(os.write, second, b"x"))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"hello")
        talk.say(read_all(connection))


class ReplacedDescriptor:
    """dup2 of a file over a connection closes the connection; the number is then the file."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.sendall(b"x")
        out, into = os.pipe()
        os.dup2(into, connection.fileno())
        talk.mark("replaced")
        os.write(connection.fileno(), b"into the pipe")
        talk.say(os.read(out, 100))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("replaced")
        talk.say(read_all(connection))


class StandardStreams:
    """A connection as descriptors 0 and 1 of the program itself."""

    def server(talk: Talk):
        connection = talk.accept()
        transcript = os.dup(1)
        os.dup2(connection.fileno(), 0)
        os.dup2(connection.fileno(), 1)
        connection.close()
        line = sys.stdin.readline()
        print("you said", line.strip(), flush=True)
        os.dup2(transcript, 1)
        talk.say("line", line.strip())

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"hello there\n")
        talk.say(read_all(connection))


class LeftOpenAtExit:
    """A program that ends without closing: the peer reads everything, then the end."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.sendall(pattern(100_000))
        os._exit(7)

    def client(talk: Talk):
        talk.say(digest(read_all(talk.connect())))


class PoolOfClients:
    """multiprocessing: eight tasks in four workers, a connection each."""

    def server(talk: Talk):
        listener, served = talk.listen(), 0
        while served < 8:
            with listener.accept()[0] as connection:
                connection.sendall(read_exactly(connection, 4) * 2)
            served += 1
        talk.say("served", served)

    def client(talk: Talk):
        with multiprocessing.get_context("fork").Pool(4) as pool:
            talk.say(pool.map(one_task, [(talk.port, number) for number in range(8)]))


def one_task(task: tuple[int, int]) -> bytes:
    """What one worker of PoolOfClients does."""
    with socket.create_connection(("127.0.0.1", task[0])) as connection:
        connection.sendall(b"%04d" % task[1])
        return read_all(connection)


class Daemon:
    """A server that forks twice and changes its session before it accepts."""

    def server(talk: Talk):
        listener = talk.listen()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                connection = listener.accept()[0]
                connection.sendall(read_exactly(connection, 3)[::-1])
                connection.close()
            os._exit(0)
        os.wait()
        talk.await_mark("answered")
        talk.say("parent stayed")

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"abc")
        talk.say(read_all(connection))
        talk.mark("answered")


class WorkersShareListener:
    """Four forked workers accept from one listener; every client is answered once."""

    def server(talk: Talk):
        listener = talk.listen()
        workers = []
        for _ in range(4):
            worker = os.fork()
            if worker == 0:
                while True:
                    connection = listener.accept()[0]
                    if (word := connection.recv(10)) == b"stop":
                        os._exit(0)
                    connection.sendall(word + b"!")
                    connection.close()
            workers.append(worker)
        for worker in workers:
            talk.say("worker", os.waitpid(worker, 0)[1])

    def client(talk: Talk):
        right = 0
        for number in range(200):
            with talk.connect() as connection:
                connection.sendall(b"%d" % number)
                right += read_all(connection) == b"%d!" % number
        talk.say("right", right)
        for _ in range(4):
            with talk.connect() as connection:
                connection.sendall(b"stop")
                talk.outcome(connection.recv, 1)
