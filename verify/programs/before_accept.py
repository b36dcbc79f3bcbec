"""One end of a connection that is used before it is accepted: `before_accept.py ROLE WAY STAGE MODE PORT FOLDER`.

WAY is what the client does after it has sent something, STAGE how far the server is by then, and
MODE whether the client's socket waits. What the ends print must be what they print on plain Linux.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import time
from pathlib import Path

FIRST, SECOND = b"first part, ", b"second part"
LARGE = 3 << 20
MORE_THAN_ALL_BUFFERS = 12 << 20
# Written when epoll says that there is room.
WHEN_TOLD = {"large level": select.EPOLLOUT, "large edge": select.EPOLLOUT | select.EPOLLET}
# In a new program image: the connection, if it is still there, is written to once more.
NEW_IMAGE = "import os,sys\nfd=int(sys.argv[1])\nif fd>=0: os.write(fd,b', new image')"


class Ends:
    """The marks by which both ends wait for each other, and what a call came to."""

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def mark(self, name: str) -> None:
        (self.folder / name).touch()

    def await_mark(self, name: str) -> None:
        while not (self.folder / name).exists():
            time.sleep(0.002)


def outcome(call, *arguments) -> str:
    try:
        return repr(call(*arguments))
    except OSError as error:
        return type(error).__name__ if error.errno is None else os.strerror(error.errno)


def serve(ends: Ends, stage: str, port: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(8)
        got = b""
        if stage == "not accepted":
            ends.await_mark("over")
        connection = listener.accept()[0]
        if stage == "half read":
            got = connection.recv(5)
        ends.mark("accepted")
        ends.await_mark("over")
        try:
            while part := connection.recv(65536):
                got += part
        except OSError as error:
            print("read", os.strerror(error.errno))
        print("got", got if len(got) < 100 else (len(got), got == bytes(len(got))))
        print("answer", outcome(connection.send, b"answer"))
        ends.mark("served")


def leave(ends: Ends, connection: socket.socket, way: str) -> None:
    """What the client does in the middle; the rest of what it sends follows."""
    if way == "low water":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 3)
    elif way == "asynchronous":
        fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    elif way == "passed":
        mine, other = socket.socketpair()
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [connection.fileno()]))]
        mine.sendmsg([b"x"], rights)
        copy = struct.unpack("i", other.recvmsg(1, 32)[1][0][2])[0]
        os.write(copy, b"by the copy, ")
        os.close(copy)
    elif way == "fork":
        if os.fork() == 0:
            connection.sendall(b"by the child, ")
            os._exit(0)
        os.wait()
    elif way == "no delay":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def send_large(connection: socket.socket, way: str) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(LARGE))
        file.seek(0)
        if way == "large":
            connection.sendall(bytes(LARGE))
        elif way == "large vector":
            buffers = [memoryview(bytes(1 << 16))] * (LARGE >> 16)
            while buffers:
                sent = connection.sendmsg(buffers)
                while buffers and sent >= len(buffers[0]):
                    sent -= len(buffers.pop(0))
                if buffers and sent:
                    buffers[0] = buffers[0][sent:]
        elif way == "large file":
            while os.sendfile(connection.fileno(), file.fileno(), None, 1 << 20):
                pass
        elif way == "large splice":
            source, sink = os.pipe()
            while count := os.splice(file.fileno(), sink, 1 << 16):
                while count:
                    count -= os.splice(source, connection.fileno(), count)


def send_when_told(ends: Ends, connection: socket.socket, events: int) -> None:
    """Writes until nothing more is taken, lets the server go on, and writes when epoll says so."""
    connection.setblocking(False)
    rest, refusals = memoryview(bytes(MORE_THAN_ALL_BUFFERS)), 0
    with select.epoll() as epoll:
        epoll.register(connection, events)
        while rest:
            try:
                rest = rest[connection.send(rest) :]
            except BlockingIOError:
                refusals += 1
                ends.mark("over")
                assert epoll.poll(20), "never told of room"
    print("refused", refusals > 0)
    connection.setblocking(True)


def end(ends: Ends, connection: socket.socket, way: str) -> None:
    if way == "half close":
        connection.shutdown(socket.SHUT_WR)
    elif way == "both shut":
        connection.shutdown(socket.SHUT_RDWR)
    elif way == "exit":
        os._exit(0)
    elif way == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif way.startswith("exec"):
        is_kept = way == "exec"
        connection.setblocking(True)
        os.set_inheritable(connection.fileno(), is_kept)
        os.execv(sys.executable, [sys.executable, "-c", NEW_IMAGE, str(connection.fileno() if is_kept else -1)])
    else:
        connection.close()
    if way == "both shut":  # the answer comes after this read: what came before it could be read here
        connection.setblocking(True)
        print("answered", outcome(connection.recv, 100))
    ends.mark("over")
    if way == "half close":
        connection.setblocking(True)
        print("answered", outcome(connection.recv, 100))
    ends.await_mark("served")


def ask(ends: Ends, way: str, stage: str, mode: str, port: int) -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setblocking(mode == "waits")
    if stage == "accepted":
        ends.await_mark("accepted")
    connection.sendall(FIRST)
    if stage == "half read":
        ends.await_mark("accepted")
    if way in WHEN_TOLD:
        send_when_told(ends, connection, WHEN_TOLD[way])
    elif way.startswith("large"):
        ends.mark("over")  # it is read while it is sent: no buffer holds it all
        send_large(connection, way)
    leave(ends, connection, way)
    if not way.startswith("large"):
        connection.sendall(SECOND)
    end(ends, connection, way)


def main() -> None:
    role, way, stage, mode, port, folder = sys.argv[1:]
    signal.alarm(100)
    ends = Ends(folder)
    if role == "server":
        serve(ends, stage, int(port))
    else:
        ask(ends, way, stage, mode, int(port))


if __name__ == "__main__":
    main()
