"""How connections begin and end: addresses, options, refusals, resets and broken pipes."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import struct

from pair import Talk, read_all

RESET = struct.pack("ii", 1, 0)


def errors_until_broken(connection: socket.socket) -> str:
    """Writes until the peer's end is known; the name of the error."""
    while True:
        try:
            connection.send(bytes(1000), socket.MSG_NOSIGNAL)
        except OSError as error:
            return errno.errorcode[error.errno]


class Names:
    """Both ends agree on the addresses."""

    def server(talk: Talk):
        with talk.listen() as listener:
            connection, peer = listener.accept()
        (talk.folder / "seen").write_text(str(connection.getpeername()))
        talk.say("own port", connection.getsockname() == ("127.0.0.1", talk.port), peer == connection.getpeername())
        talk.mark("seen")
        talk.say("end", connection.recv(1))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("seen")
        talk.say("same", (talk.folder / "seen").read_text() == str(connection.getsockname()))
        talk.say("peer", connection.getpeername() == ("127.0.0.1", talk.port))


class Options:
    """Socket options are kept and told as by the kernel."""

    def server(talk: Talk):
        talk.say("end", read_all(talk.accept()))

    def client(talk: Talk):
        connection = talk.connect()
        for level, option in (
            (socket.IPPROTO_TCP, socket.TCP_NODELAY),
            (socket.SOL_SOCKET, socket.SO_KEEPALIVE),
            (socket.SOL_SOCKET, socket.SO_REUSEADDR),
        ):
            before = connection.getsockopt(level, option)
            connection.setsockopt(level, option, 1)
            talk.say(level, option, before, connection.getsockopt(level, option))
        talk.say("type", connection.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE))
        talk.say("error", connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        talk.say("state", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[0])
        talk.say("listening", connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


class ConnectWithoutWaiting:
    """A non-blocking connect: EINPROGRESS or success, writable, no error, then bytes."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.say("got", connection.recv(10))
        connection.sendall(b"pong")

    def client(talk: Talk):
        connection = socket.socket()
        connection.setblocking(False)
        talk.say("begun", connection.connect_ex(("127.0.0.1", talk.port)) in (0, errno.EINPROGRESS))
        talk.say("writable", select.select([], [connection], [], 20)[1] == [connection])
        talk.say("error", connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
        talk.say("again", talk.outcome(connection.connect, ("127.0.0.1", talk.port)))
        connection.send(b"ping")
        select.select([connection], [], [], 20)
        talk.say("got", connection.recv(10))


class AcceptWithoutWaiting:
    """A non-blocking listener: EAGAIN, then readable, then a blocking or non-blocking socket."""

    def server(talk: Talk):
        listener = talk.listen()
        listener.setblocking(False)
        talk.say("before", talk.outcome(listener.accept))
        talk.mark("listening")
        talk.say("readable", select.select([listener], [], [], 20)[0] == [listener])
        descriptor, _ = listener._accept()
        connection = socket.socket(fileno=descriptor)
        talk.say("blocking", os.get_blocking(descriptor))
        os.set_blocking(descriptor, False)
        talk.say("early", talk.outcome(connection.recv, 1))
        talk.mark("accepted")
        select.select([connection], [], [], 20)
        talk.say("got", connection.recv(10))

    def client(talk: Talk):
        talk.await_mark("listening")
        connection = talk.connect()
        talk.await_mark("accepted")
        connection.sendall(b"x")
        talk.say("end", connection.recv(1))


class Refused:
    """Connecting to a port without a listener is refused, also without waiting."""

    def server(talk: Talk):
        listener = talk.listen()
        talk.await_mark("ready")
        listener.close()
        talk.mark("closed")

    def client(talk: Talk):
        talk.mark("ready")
        talk.await_mark("closed")
        connection = socket.socket()
        talk.say(talk.outcome(connection.connect, ("127.0.0.1", talk.port)))
        connection = socket.socket()
        connection.setblocking(False)
        connection.connect_ex(("127.0.0.1", talk.port))
        select.select([], [connection], [], 20)
        talk.say(errno.errorcode.get(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)))


class ClosedBeforeAccept:
    """A client that connects, writes and leaves before the server accepts; its bytes are read."""

    def server(talk: Talk):
        listener = talk.listen()
        talk.await_mark("gone")
        connection = listener.accept()[0]
        talk.say("got", read_all(connection))

    def client(talk: Talk):
        with talk.connect() as connection:
            connection.sendall(b"I was here")
        talk.mark("gone")


class BytesBeforeAccept:
    """A client writes before the server accepts and stays; nothing is lost or reordered."""

    def server(talk: Talk):
        listener = talk.listen()
        talk.await_mark("written")
        connection = listener.accept()[0]
        connection.sendall(b"welcome")
        talk.say("got", read_all(connection))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"early ")
        talk.mark("written")
        talk.say("got", connection.recv(7, socket.MSG_WAITALL))
        connection.sendall(b"late")


class Reset:
    """SO_LINGER 0 and close: the peer reads ECONNRESET, then the end, and writes EPIPE."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        connection.recv(1)
        connection.close()
        talk.mark("closed")

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"x")
        talk.await_mark("closed")
        talk.say("first", talk.outcome(connection.recv, 10))
        talk.say("second", talk.outcome(connection.recv, 10))
        talk.say("write", talk.outcome(connection.send, b"y", socket.MSG_NOSIGNAL))


class CloseWithUnreadBytes:
    """Closing with bytes unread resets the connection."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("sent")
        connection.recv(1)
        connection.close()
        talk.mark("closed")

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"more than one")
        talk.mark("sent")
        talk.await_mark("closed")
        talk.say(talk.outcome(connection.recv, 10))


class BytesBeforeTheEnd:
    """What was sent before a close is read before the end is seen."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.sendall(bytes(30_000))
        connection.close()
        talk.mark("closed")

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("closed")
        talk.say("got", len(read_all(connection)))
        talk.say("again", connection.recv(1))


class BrokenPipe:
    """Writing to a connection whose peer is gone: an error, and SIGPIPE unless refused."""

    def server(talk: Talk):
        talk.accept().close()
        talk.mark("closed")

    def client(talk: Talk):
        caught = []
        signal.signal(signal.SIGPIPE, lambda number, _: caught.append(number))
        connection = talk.connect()
        talk.await_mark("closed")
        talk.say("end", connection.recv(1))
        talk.say("error", errors_until_broken(connection), "without a signal", caught)
        talk.say("again", talk.outcome(connection.send, b"x"), "with a signal", caught)


class KilledByBrokenPipe:
    """A program with the default SIGPIPE is ended by it."""

    def server(talk: Talk):
        talk.accept().close()
        talk.mark("closed")

    def client(talk: Talk):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        connection = talk.connect()
        talk.await_mark("closed")
        connection.recv(1)
        talk.say("writing")
        for _ in range(100):
            connection.send(bytes(1000))
        talk.say("not reached")


class VersionSix:
    """Over ::1."""

    def server(talk: Talk):
        with talk.listen(socket.AF_INET6, "::1") as listener:
            connection, peer = listener.accept()
        talk.say("family", connection.family == socket.AF_INET6, peer[0])
        connection.sendall(read_all(connection)[::-1])

    def client(talk: Talk):
        connection = socket.create_connection(("::1", talk.port))
        talk.say("peer", connection.getpeername()[0])
        connection.sendall(b"abc")
        connection.shutdown(socket.SHUT_WR)
        talk.say("got", read_all(connection))


class MappedVersionFour:
    """A listener on :: reached by 127.0.0.1."""

    def server(talk: Talk):
        with talk.listen(socket.AF_INET6, "::") as listener:
            connection, peer = listener.accept()
        talk.say("peer", peer[0])
        connection.sendall(read_all(connection)[::-1])

    def client(talk: Talk):
        connection = talk.connect()
        talk.say("peer", connection.getpeername()[0])
        connection.sendall(b"abc")
        connection.shutdown(socket.SHUT_WR)
        talk.say("got", read_all(connection))


class AnyAddress:
    """A listener on 0.0.0.0, and a client that is bound to 127.0.0.2 and reaches 127.0.0.3."""

    def server(talk: Talk):
        with talk.listen(host="0.0.0.0") as listener:
            connection, peer = listener.accept()
        talk.say("peer", peer[0], "own", connection.getsockname()[0])
        connection.sendall(read_all(connection)[::-1])

    def client(talk: Talk):
        source, target = ("127.0.0.2", 0), ("127.0.0.3", talk.port)
        connection = socket.create_connection(target, source_address=source)
        connection.sendall(b"abc")
        connection.shutdown(socket.SHUT_WR)
        talk.say("got", read_all(connection))


class ManyConnections:
    """300 connections at once, each answered, closed in another order."""

    def server(talk: Talk):
        with talk.listen(backlog=400) as listener:
            talk.mark("ready")
            connections = [listener.accept()[0] for _ in range(300)]
        for connection in reversed(connections):
            connection.sendall(connection.recv(10) + b"!")
        talk.say("ends", sum(connection.recv(1) == b"" for connection in connections))

    def client(talk: Talk):
        connections = [talk.connect() for _ in range(300)]
        for number, connection in enumerate(connections):
            connection.sendall(b"%d" % number)
        answers = [connection.recv(10) for connection in connections]
        talk.say("right", sum(answer == b"%d!" % number for number, answer in enumerate(answers)))


class OpenAndClose:
    """2,000 short connections one after the other."""

    def server(talk: Talk):
        listener, total = talk.listen(), 0
        for _ in range(2000):
            connection = listener.accept()[0]
            total += int(connection.recv(10))
            connection.sendall(b"ok")
            connection.close()
        talk.say("sum", total)

    def client(talk: Talk):
        right = 0
        for number in range(2000):
            with talk.connect() as connection:
                connection.sendall(b"%d" % number)
                right += read_all(connection) == b"ok"
        talk.say("right", right)
