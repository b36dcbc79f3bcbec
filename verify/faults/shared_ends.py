"""A connection whose acceptor ends while its child holds it: `python shared_ends.py accept|connect PORT FOLDER HOW`.

HOW is what the acceptor does when it has forked. The client sends its last bytes, closes, and connects
again; the child reads the first connection only then.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path

LAST = b"last words " * 100


def await_mark(folder: Path, name: str) -> None:
    while not (folder / name).exists():
        time.sleep(0.005)


def read_all(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def accept(port: int, folder: Path, how: str) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    connection = listener.accept()[0]
    connection.send(connection.recv(1))
    if os.fork():
        (folder / "forked").touch()
        await_mark(folder, "sent")
        if how == "closes and exits":
            connection.close()
        elif how == "execs":
            os.execv("/bin/true", ["true"])
        os._exit(0)
    # So that the address has an acceptor, and the client its channel, when the parent has ended.
    with listener.accept()[0] as served:
        served.send(served.recv(1))
    await_mark(folder, "gone")
    others = [listener.accept()[0] for _ in range(3)]
    found = [read_all(other) for other in others]
    print("child", read_all(connection) == LAST, found)


def connect(port: int, folder: Path) -> None:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.send(b"x")
    connection.recv(1)
    await_mark(folder, "forked")
    with socket.create_connection(("127.0.0.1", port)) as served:
        served.send(b"x")
        served.recv(1)
    connection.send(LAST)
    (folder / "sent").touch()
    await_mark(folder, "gone")
    connection.close()
    for number in range(3):
        with socket.create_connection(("127.0.0.1", port)) as other:
            other.send(b"other %d" % number)


def main() -> None:
    role, port, folder, how = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    if role == "accept":
        accept(port, folder, how)
    else:
        connect(port, folder)


if __name__ == "__main__":
    main()
