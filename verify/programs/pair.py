"""One end of a two-program case: `python pair.py MODULE.CASE server|client PORT FOLDER`.

A case is a class in cases/ with two functions, server(talk) and client(talk). Each end runs as
a program of its own and prints a transcript; what it prints must not depend on whether either
end runs under Heliostat. `Talk` is what a case is given: its port, how to say a line, and
marks (files) by which the ends wait for each other without using the connection under test.
With PAIR_INSPECTED set, an end stays until it was looked at from outside, and a client goes on
from connecting only when it was accepted (or after ACCEPT_SECONDS, where a case accepts late).
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import hashlib
import importlib
import inspect
import os
import pkgutil
import select
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

HANG_SECONDS = 100
ACCEPT_SECONDS = 0.5
HERE = Path(__file__).resolve().parent


@dataclass
class Talk:
    """What one end knows: its role, the port of the case and the folder of its marks."""

    role: str
    port: int
    folder: Path

    def say(self, *words) -> None:
        """One line of the transcript."""
        os.write(1, (" ".join(str(word) for word in words) + "\n").encode())

    def listen(self, family: int = socket.AF_INET, host: str = "127.0.0.1", backlog: int = 64) -> socket.socket:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, self.port))
        listener.listen(backlog)
        return listener

    def accept(self) -> socket.socket:
        """The first connection on a listener that is then closed."""
        with self.listen() as listener:
            return listener.accept()[0]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port))

    def mark(self, name: str) -> None:
        """Tells the other end that this one has come to `name`."""
        (self.folder / f"mark-{name}").touch()

    def await_mark(self, name: str) -> None:
        """Waits until the other end has come to `name`."""
        while not (self.folder / f"mark-{name}").exists():
            time.sleep(0.002)

    def libc(self, name: str, *arguments) -> int:
        """What a function of libc returns, of which Python would do more, or nothing."""
        return getattr(ctypes.CDLL(None), name)(*arguments)

    def outcome(self, call: Callable, *arguments) -> str:
        """What a call returned, or the name of its error number."""
        try:
            return repr(call(*arguments))
        except OSError as error:
            return errno.errorcode.get(error.errno, type(error).__name__)


def read_all(connection: socket.socket, chunk: int = 65536) -> bytes:
    """Everything until the end of the stream."""
    parts = []
    while part := connection.recv(chunk):
        parts.append(part)
    return b"".join(parts)


def read_exactly(connection: socket.socket, count: int) -> bytes:
    """Exactly `count` bytes, or what there was before the end of the stream."""
    parts, left = [], count
    while left and (part := connection.recv(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def digest(content: bytes) -> str:
    """Length and checksum, for transcripts of large transfers."""
    return f"{len(content)} bytes {hashlib.sha256(content).hexdigest()[:16]}"


def pattern(count: int, seed: int = 1) -> bytes:
    """`count` reproducible bytes without a short period."""
    return (hashlib.shake_128(seed.to_bytes(4, "little")).digest(min(count, 1 << 20)) * (count // (1 << 20) + 1))[
        :count
    ]


def all_cases() -> list[str]:
    """The name of every case, MODULE.CASE."""
    found = []
    for module in pkgutil.iter_modules([str(HERE / "cases")]):
        members = inspect.getmembers(importlib.import_module(f"cases.{module.name}"), inspect.isclass)
        found += [f"{module.name}.{name}" for name, kind in members if hasattr(kind, "server")]
    return found


def await_accepted(talk: Talk, port: int) -> None:
    """Tells the server that the client of this port is out of connect(2), and waits until it accepts."""
    talk.mark(f"connected-{port}")
    ends = time.monotonic() + ACCEPT_SECONDS
    while time.monotonic() < ends and not (talk.folder / f"mark-accepted-{port}").exists():
        time.sleep(0.001)


def keep_in_step(talk: Talk) -> None:
    """Makes this process's accepts known by marks, and its connects wait for them.

    A client that is done before it is accepted takes its offer back and ends native, as it
    should; a server that is done before the client is out of connect(2) does not see its offer. With
    this the order is always the same, so that every other native end is a defect.
    """
    plain_accept, plain_connect = socket.socket._accept, socket.socket.connect

    def accept(listener):
        descriptor, peer = plain_accept(listener)
        if isinstance(peer, tuple):
            ends = time.monotonic() + ACCEPT_SECONDS
            while not (talk.folder / f"mark-connected-{peer[1]}").exists() and time.monotonic() < ends:
                time.sleep(0.001)
            select.select([descriptor], [], [], 0)  # the offer is there now, and is taken
            talk.mark(f"accepted-{peer[1]}")
        return descriptor, peer

    def connect(connection, address):
        try:
            plain_connect(connection, address)
        finally:
            if isinstance(address, tuple):
                await_accepted(talk, connection.getsockname()[1])

    socket.socket._accept, socket.socket.connect = accept, connect


def main() -> None:
    name, role, port, folder = sys.argv[1:5]
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    module, _, case = name.partition(".")
    kind = getattr(importlib.import_module(f"cases.{module}"), case)
    talk = Talk(role, int(port), Path(folder))
    if os.environ.get("PAIR_INSPECTED"):
        keep_in_step(talk)
    getattr(kind, role)(talk)
    if os.environ.get("PAIR_INSPECTED"):
        talk.mark(f"{role}-over")
        talk.await_mark("inspected")


if __name__ == "__main__":
    main()
