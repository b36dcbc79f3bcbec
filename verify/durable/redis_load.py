"""Writes numbered keys into a Redis server until it is gone: `python redis_load.py SEED`.

Each line of standard input is a run: the port, the first number, and how many connections. Each write
that the server has acknowledged is a line `NUMBER` of the output; a run ends with `end NUMBER`, the first
number that was not sent. What a key holds follows from its number (`value_of`). Runs under Heliostat
and plainly.
"""

from __future__ import annotations

import random
import selectors
import socket
import sys

OK = b"+OK\r\n"
# Requests of one connection that are under way at once.
DEPTH_MAX = 4
VALUE_BYTES_MAX = 120


def value_of(number: int) -> bytes:
    return b"%d:" % number + b"v" * (number * 7919 % VALUE_BYTES_MAX)


def key_of(number: int) -> bytes:
    return b"key:%d" % number


def command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)


class Connection:
    """A connection, and the numbers that it has sent and nobody has acknowledged yet."""

    def __init__(self, port: int, depth: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.depth, self.sent, self.unread = depth, [], b""

    def receive(self) -> list[int]:
        """The numbers that have been acknowledged; raises when the server is gone."""
        part = self.socket.recv(4096)
        if not part:
            raise ConnectionResetError
        self.unread += part
        done = self.unread.count(OK)
        assert self.unread[: done * len(OK)] == OK * done and len(self.unread) - done * len(OK) < len(OK), self.unread
        self.unread = self.unread[done * len(OK) :]
        told, self.sent = self.sent[:done], self.sent[done:]
        return told

    def send(self, number: int) -> int:
        """Sends as many more as it may; the first number that was not sent."""
        room = self.depth - len(self.sent)
        self.sent += range(number, number + room)
        self.socket.sendall(b"".join(command(b"SET", key_of(one), value_of(one)) for one in self.sent[-room:]))
        return number + room


def load(port: int, first: int, connections: int, chosen: random.Random) -> int:
    """Writes until every connection is gone; the first number that was not sent."""
    number, waiting = first, selectors.DefaultSelector()
    try:
        for _ in range(connections):
            one = Connection(port, chosen.randint(1, DEPTH_MAX))
            waiting.register(one.socket, selectors.EVENT_READ, one)
            number = one.send(number)
    except OSError:
        pass  # the server is gone before all were there
    while waiting.get_map():
        told = []
        for key, _ in waiting.select():
            one = key.data
            try:
                told += one.receive()
                number = one.send(number) if len(one.sent) < one.depth else number
            except OSError:
                # What the last write has sent may have come before the end; its numbers are used up.
                number = max([number, *(sent + 1 for sent in one.sent)])
                waiting.unregister(one.socket)
                one.socket.close()
        if told:
            print("\n".join(map(str, told)), flush=True)
    return number


def main() -> None:
    chosen = random.Random(int(sys.argv[1]))
    for line in sys.stdin:
        port, first, connections = map(int, line.split())
        print(f"end {load(port, first, connections, chosen)}", flush=True)


if __name__ == "__main__":
    main()
