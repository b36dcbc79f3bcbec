"""A server that goes on as another program while its client does not answer.

`python relayed.py client PORT FOLDER`, `server PORT FOLDER DOES`, `after FD FOLDER DOES`: the server
accepts, reads a byte and becomes "after" with the connection open, which does DOES with it once
the mark "go" is there. The client says 5,000 bytes in all and is stopped from outside.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path


OPTIONS = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE), (socket.IPPROTO_TCP, socket.TCP_NODELAY),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE), (socket.SOL_SOCKET, socket.SO_TYPE), (socket.SOL_SOCKET, socket.SO_PROTOCOL),
]  # fmt: skip


def await_mark(folder: Path, name: str) -> None:
    while not (folder / name).exists():
        time.sleep(0.005)


def main() -> None:
    role, number, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    if role == "client":
        connection = socket.create_connection(("127.0.0.1", number))
        connection.sendall(bytes(1))
        connection.recv(1)
        connection.sendall(bytes(4999))
        print("said", connection.getsockname(), connection.getpeername(), flush=True)
        await_mark(folder, "client")
        if sys.argv[4:] == ["closes"]:
            connection.close()
        time.sleep(600)
    if role == "server":
        with socket.create_server(("127.0.0.1", number)) as listener:
            connection = listener.accept()[0]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 77)
        connection.recv(1)
        connection.sendall(b"x")
        await_mark(folder, "exec")
        connection.set_inheritable(True)
        os.execv(sys.executable, [sys.executable, __file__, "after", str(connection.detach()), *sys.argv[3:]])
    connection = socket.socket(fileno=number)
    options = [connection.getsockopt(level, name) for level, name in OPTIONS]
    print("after", connection.family, connection.getsockname(), connection.getpeername(), *options, flush=True)
    for word in sys.argv[4].split("+"):
        await_mark(folder, "go")
        if word == "reads":
            print(len(connection.recv(4999, socket.MSG_WAITALL)), flush=True)
        if word == "closes":
            connection.close()
        if word == "half":
            connection.shutdown(socket.SHUT_WR)
        if word == "floods":
            connection.setblocking(False)
            for _ in range(1000):
                try:
                    connection.send(bytes(65536))
                except OSError:
                    break
        if word == "ends":
            return
    print("done", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
