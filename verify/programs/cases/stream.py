"""What a stream does with bytes: order, ends, sizes, flags and time limits."""

from __future__ import annotations

import array
import fcntl
import os
import socket
import struct
import tempfile
import termios
import threading

from pair import Talk, digest, pattern, read_all, read_exactly

MEGABYTE = 1 << 20


def receive_limit(connection: socket.socket, seconds: float, option: int = socket.SO_RCVTIMEO) -> None:
    """Sets SO_RCVTIMEO or SO_SNDTIMEO, which Python's own settimeout does not use."""
    limit = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, option, limit)


class Echo:
    """A few messages there and back, then an orderly end."""

    def server(talk: Talk):
        connection = talk.accept()
        while message := connection.recv(100):
            talk.say("got", message)
            connection.sendall(message.upper())
        talk.say("end")

    def client(talk: Talk):
        with talk.connect() as connection:
            for message in (b"one", b"two" * 20, b"\0\xff"):
                connection.sendall(message)
                talk.say("back", read_exactly(connection, len(message)))


class LargeBothWays:
    """20 MB each way at the same time."""

    SIZE = 20 * MEGABYTE

    def exchange(talk: Talk, connection: socket.socket, seed: int):
        def send():
            connection.sendall(pattern(LargeBothWays.SIZE, seed))
            connection.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        talk.say("got", digest(read_all(connection)))
        sender.join()

    def server(talk: Talk):
        LargeBothWays.exchange(talk, talk.accept(), 1)

    def client(talk: Talk):
        LargeBothWays.exchange(talk, talk.connect(), 2)


class ManySmallMessages:
    """50,000 short lines, of which none is lost, repeated or reordered."""

    def server(talk: Talk):
        lines = talk.accept().makefile("rb")
        expected = iter(range(10**9))
        talk.say("in order", all(int(line) == next(expected) for line in lines), "count", next(expected))

    def client(talk: Talk):
        with talk.connect() as connection:
            for number in range(50_000):
                connection.sendall(b"%d\n" % number)


class HalfClose:
    """The client ends its direction; the server still answers a megabyte."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.say("got", digest(read_all(connection)))
        connection.sendall(pattern(MEGABYTE))
        talk.say("after the end", connection.recv(10))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"question")
        connection.shutdown(socket.SHUT_WR)
        talk.say("sending after shutdown", talk.outcome(connection.send, b"x", socket.MSG_NOSIGNAL))
        talk.say("got", digest(read_all(connection)))


class ShutdownOfReading:
    """After SHUT_RD a read returns the end at once, and writing still works."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.say("got", digest(read_all(connection)))

    def client(talk: Talk):
        connection = talk.connect()
        connection.shutdown(socket.SHUT_RD)
        talk.say("read", connection.recv(10))
        connection.sendall(b"still here")


class Peek:
    """MSG_PEEK shows bytes and leaves them."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("sent")
        for size, flags in ((3, socket.MSG_PEEK), (6, socket.MSG_PEEK), (2, 0), (10, socket.MSG_PEEK), (10, 0)):
            talk.say(size, flags, connection.recv(size, flags))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"abcdef")
        talk.mark("sent")
        talk.say("end", connection.recv(1))


class WaitAll:
    """MSG_WAITALL returns whole blocks, and what there is at the end."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.say(digest(connection.recv(300_000, socket.MSG_WAITALL)))
        talk.say(digest(connection.recv(300_000, socket.MSG_WAITALL)))

    def client(talk: Talk):
        connection = talk.connect()
        for part in range(40):
            connection.sendall(pattern(10_000, part))


class ReceiveTimeLimit:
    """SO_RCVTIMEO ends a read with EAGAIN; the next read gets what came later."""

    def server(talk: Talk):
        connection = talk.accept()
        receive_limit(connection, 0.15)
        talk.say(talk.outcome(connection.recv, 10))
        talk.mark("waited")
        receive_limit(connection, 20)
        talk.say(talk.outcome(connection.recv, 10))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("waited")
        connection.sendall(b"late")
        talk.say("end", connection.recv(1))


class SendTimeLimit:
    """SO_SNDTIMEO ends a write to a full stream with EAGAIN; nothing is lost of what was taken."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("full")
        got = len(read_all(connection))
        talk.await_mark("counted")
        talk.say("all that was taken", got == int((talk.folder / "taken").read_text()))

    def client(talk: Talk):
        connection = talk.connect()
        receive_limit(connection, 0.15, socket.SO_SNDTIMEO)
        taken, last = 0, ""
        while last != "EAGAIN":
            last = talk.outcome(connection.send, bytes(100_000))
            taken += int(last) if last.isdigit() else 0
        talk.say("last", last)
        (talk.folder / "taken").write_text(str(taken))
        talk.mark("counted")
        talk.mark("full")


class DoNotWait:
    """MSG_DONTWAIT on an empty stream says EAGAIN, on a full one too."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.say(talk.outcome(connection.recv, 10, socket.MSG_DONTWAIT))
        connection.setblocking(False)
        talk.say(talk.outcome(connection.recv, 10))
        last = "0"
        while last.isdigit():
            last = talk.outcome(connection.send, bytes(100_000))
        talk.say("full", last)
        talk.mark("tried")
        connection.setblocking(True)
        talk.say("end", connection.recv(10))

    def client(talk: Talk):
        connection = talk.connect()
        talk.await_mark("tried")
        connection.shutdown(socket.SHUT_WR)
        talk.say("only zeros", set(read_all(connection)) == {0})


class Vectors:
    """readv, writev, sendmsg and recvmsg with several buffers, and recv_into."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("sent")
        buffers = [bytearray(3), bytearray(4), bytearray(100)]
        count = os.readv(connection.fileno(), buffers)
        talk.say(count, [bytes(buffer).rstrip(b"\0") for buffer in buffers])
        talk.say(os.writev(connection.fileno(), [b"ab", b"", b"cde"]))
        first, second = bytearray(4), bytearray(8)
        talk.await_mark("more")
        talk.say(connection.recvmsg_into([first, second])[0], bytes(first), bytes(second).rstrip(b"\0"))

    def client(talk: Talk):
        connection = talk.connect()
        talk.say(os.writev(connection.fileno(), [b"123", b"4567", b"89"]))
        talk.mark("sent")
        talk.say(read_exactly(connection, 5))
        talk.say(connection.sendmsg([b"wxyz", b"more"]))
        talk.mark("more")
        talk.say("end", connection.recv(1))


class WaitingBytes:
    """FIONREAD counts what has arrived; SIOCOUTQ falls to zero when it was read."""

    def server(talk: Talk):
        connection = talk.accept()
        count = array.array("i", [-1])
        for mark in ("none", "some", "rest"):
            talk.await_mark(mark)
            fcntl.ioctl(connection, termios.FIONREAD, count)
            talk.say(mark, count[0])
            talk.mark(f"{mark}-counted")
            connection.recv(1000) if mark == "some" else None
        talk.say("left", connection.recv(10_000, socket.MSG_DONTWAIT) == bytes(4000))

    def client(talk: Talk):
        connection = talk.connect()
        talk.mark("none")
        talk.await_mark("none-counted")
        connection.sendall(bytes(5000))
        talk.mark("some")
        talk.await_mark("some-counted")
        talk.mark("rest")
        talk.say("end", connection.recv(1))


class EmptyTransfers:
    """Sending and receiving nothing is an answer of its own and not the end."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.say("nothing asked", connection.recv(0))
        talk.say("then", connection.recv(10))
        talk.say("nothing asked at the end", connection.recv(0), connection.recv(10), connection.recv(10))

    def client(talk: Talk):
        with talk.connect() as connection:
            talk.say("nothing sent", connection.send(b""), connection.send(b"x"), connection.send(b""))


class Truncate:
    """MSG_TRUNC discards received bytes of a TCP stream."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("sent")
        connection.recv(4, socket.MSG_TRUNC)
        talk.say("after four", connection.recv(10))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"abcdefgh")
        talk.mark("sent")
        talk.say("end", connection.recv(1))


class Urgent:
    """One byte out of band, between ordinary ones."""

    def server(talk: Talk):
        connection = talk.accept()
        talk.await_mark("sent")
        talk.say("before", connection.recv(10))
        talk.say("urgent", talk.outcome(connection.recv, 1, socket.MSG_OOB))
        talk.say("after", connection.recv(10))

    def client(talk: Talk):
        connection = talk.connect()
        connection.sendall(b"abc")
        connection.send(b"!", socket.MSG_OOB)
        connection.sendall(b"def")
        talk.mark("sent")
        talk.say("end", connection.recv(1))


class Files:
    """sendfile from a file, splice into a pipe, and a buffered file object over the socket."""

    SIZE = 3 * MEGABYTE + 17

    def server(talk: Talk):
        connection = talk.accept()
        with tempfile.TemporaryFile() as source:
            source.write(pattern(Files.SIZE, 5))
            source.seek(0)
            talk.say("sendfile", connection.sendfile(source))
        with connection.makefile("rw") as lines:
            talk.say("line", lines.readline().strip())
            lines.write("a line back\n")

    def client(talk: Talk):
        connection = talk.connect()
        talk.say("got", digest(read_exactly(connection, Files.SIZE)))
        connection.sendall(b"a line\n")
        out, into = os.pipe()
        os.splice(connection.fileno(), into, 100)
        talk.say("spliced", os.read(out, 100))


class SpliceWithoutReader:
    """splice into a full pipe whose reader has gone, or goes while splice waits for room: EPIPE."""

    def server(talk: Talk):
        connection = talk.accept()
        for goes_early in (True, False):
            out, into = os.pipe()
            os.set_blocking(into, False)
            while talk.outcome(os.write, into, bytes(4096)) == "4096":
                pass
            os.set_blocking(into, True)
            later = threading.Timer(0 if goes_early else 0.3, os.close, [out])
            later.start()
            if goes_early:
                later.join()
            talk.say(goes_early, talk.outcome(os.splice, connection.fileno(), into, 100))
            later.join()
        talk.say("still there", connection.recv(10))

    def client(talk: Talk):
        with talk.connect() as connection:
            connection.sendall(b"here")
            talk.say("end", connection.recv(1))


class SpliceLarge:
    """A megabyte from the socket to a file through a pipe."""

    def server(talk: Talk):
        connection = talk.accept()
        connection.sendall(pattern(MEGABYTE, 9))

    def client(talk: Talk):
        connection = talk.connect()
        out, into = os.pipe()
        with tempfile.TemporaryFile() as sink:
            while count := os.splice(connection.fileno(), into, 65536):
                while count:
                    count -= os.splice(out, sink.fileno(), count)
            sink.seek(0)
            talk.say("got", digest(sink.read()))
