"""A server that hands its connections to another process while its client is busy elsewhere.

`python passed_on.py client PORT FOLDER STATE`, `server PORT FOLDER`, `receiver FOLDER`. The client
makes three connections: one over which nothing has passed, one that has been used, and one with
unread bytes in both directions. Then it goes into STATE. The server passes all three over a Unix
socket and ends; the receiver says what it was given, sends, and reads what lay unread before the
client comes round.
"""

from __future__ import annotations

import array
import os
import select
import socket
import sys
import threading
import time
from pathlib import Path

UNREAD_IN, UNREAD_OUT = bytes(range(250)) * 12, bytes(range(249, -1, -1)) * 8
FROM_RECEIVER, FROM_CLIENT = b"receiver" * 500, b"client" * 900
KINDS = ["fresh", "used", "unread"]
# What the server has not read, and what the client has not.
LEFT = {"fresh": (b"", b""), "used": (b"", b""), "unread": (UNREAD_IN, UNREAD_OUT)}


def await_mark(folder: Path, name: str) -> None:
    while not (folder / name).exists():
        time.sleep(0.005)


def read_exactly(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count and (piece := connection.recv(count - len(got))):
        got += piece
    return got


def read_when_told(connection: socket.socket, count: int, polls: bool) -> bytes:
    """As `read_exactly`, asleep in epoll instead of in the read."""
    if not polls:
        return read_exactly(connection, count)
    got = b""
    with select.epoll() as watch:
        watch.register(connection, select.EPOLLIN)
        while len(got) < count:
            watch.poll()
            piece = connection.recv(count - len(got))
            if not piece:
                break
            got += piece
    return got


def be_elsewhere(state: str, folder: Path) -> None:
    """Makes no call on any connection until the mark "resume"."""
    if state == "computes":
        while not (folder / "resume").exists():
            for number in range(20_000):
                number * number
    if state in ("sleeps", "stopped"):
        await_mark(folder, "resume")


def use(kind: str, connection: socket.socket, polls: bool, said: dict[str, str]) -> None:
    left = LEFT[kind][1]
    got = read_when_told(connection, len(left) + len(FROM_RECEIVER), polls)
    connection.sendall(FROM_CLIENT)
    connection.shutdown(socket.SHUT_WR)
    end = connection.recv(1)
    said[kind] = f"client {kind} {got == left + FROM_RECEIVER} {end!r}"


def client(port: int, folder: Path, state: str) -> None:
    connections = {}
    for kind in KINDS:
        connection = connections[kind] = socket.create_connection(("127.0.0.1", port))
        if kind != "fresh":
            connection.sendall(b"?")
            connection.recv(1)
            connection.sendall(LEFT[kind][0])
    print("ends", *(f"{kind}={c.getsockname()[1]}" for kind, c in connections.items()), flush=True)
    said: dict[str, str] = {}
    words = [(kind, connection, state == "polls", said) for kind, connection in connections.items()]
    users = [threading.Thread(target=use, args=args) for args in words]
    print("elsewhere", flush=True)
    be_elsewhere(state, folder)
    for user in users:
        user.start()
    for user in users:
        user.join()
    print(*said.values(), sep="\n", flush=True)


def server(port: int, folder: Path) -> None:
    connections = {}
    with socket.create_server(("127.0.0.1", port)) as listener:
        for kind in KINDS:
            connection = connections[kind] = listener.accept()[0]
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if kind != "fresh":
                connection.recv(1)
                connection.sendall(b"!" + LEFT[kind][1])
    await_mark(folder, "pass")
    print("sockets", *(f"{kind}={os.fstat(c.fileno()).st_ino}" for kind, c in connections.items()), flush=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.connect(str(folder / "door"))
        for connection in connections.values():
            rights = array.array("i", [connection.fileno()])
            door.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
            connection.close()
    print("passed", flush=True)


def described(kind: str, connection: socket.socket) -> str:
    own, peer = connection.getsockname(), connection.getpeername()
    domain = connection.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN)
    nodelay = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    inode = os.fstat(connection.fileno()).st_ino
    return f"given {kind} {own[0]} {own[1]} {peer[0]} {peer[1]} {domain} {nodelay} {inode}"


def receiver(folder: Path) -> None:
    connections = {}
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(folder / "door"))
        door.listen(1)
        print("listens", flush=True)
        passer = door.accept()[0]
    for kind in KINDS:
        fd = socket.recv_fds(passer, 1, 1)[1][0]
        connection = connections[kind] = socket.socket(fileno=fd)
        print(described(kind, connection), flush=True)
        connection.sendall(FROM_RECEIVER)
    for kind, connection in connections.items():
        got = read_exactly(connection, len(LEFT[kind][0]))
        print("unread", kind, got == LEFT[kind][0], flush=True)
    print("waits", flush=True)
    for kind, connection in connections.items():
        got = read_exactly(connection, 1 << 20)
        print("receiver", kind, got == FROM_CLIENT, flush=True)
        connection.close()


if __name__ == "__main__":
    role, *words = sys.argv[1:]
    if role == "client":
        client(int(words[0]), Path(words[1]), words[2])
    if role == "server":
        server(int(words[0]), Path(words[1]))
    if role == "receiver":
        receiver(Path(words[0]))
