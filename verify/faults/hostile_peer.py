"""A hostile client, an honest one and a server: `python hostile_peer.py serve|measure|harm PORT ...`.

The hostile one runs under Heliostat like any client, and writes into the channels that it shares
with the server whatever it likes. With `harmless` in place of an attack it does all the rest: the
same connections, requests and forks.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

# Places in a channel, as in docs/streams.md.
OFFERS, SLOTS, STRIDE, LANES = 64, 4096, 704, (128, 384)
SLOTS_MAX = 64
FLAGS, BELLS, WANT, TAIL, RESERVED = 16, 20, 28, 0, (64, 192)
SWITCHED, TAKEN_BACK = 2, 8
STARTED, CONNECTING = 6, 1

CONNECTIONS = 20
PING = b"PING\r\n"
# An answer that takes longer is not waited for: the server hangs.
PATIENCE_S = 5.0


def serve(port: int) -> None:
    """Answers every line by +PONG from one epoll set; after the line BGSAVE a child holds all it has."""
    listener = socket.create_server(("127.0.0.1", port), backlog=256)
    watch, known = select.epoll(), {}
    watch.register(listener, select.EPOLLIN)
    while True:
        for number, _ in watch.poll():
            if number == listener.fileno():
                connection = listener.accept()[0]
                connection.setblocking(False)
                known[connection.fileno()] = connection
                watch.register(connection, select.EPOLLIN)
                continue
            try:
                words = known[number].recv(65536)
                if b"BGSAVE" in words and os.fork() == 0:
                    time.sleep(0.2)
                    os._exit(0)
                known[number].send(b"+PONG\r\n" * words.count(b"\n"))
            except BlockingIOError:
                continue
            except OSError:
                words = b""
            if not words:
                watch.unregister(number)
                known.pop(number).close()


def connect(port: int) -> socket.socket:
    """A connection both of whose rings are begun."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for _ in range(3):
        ask(connection)
    return connection


def ask(connection: socket.socket) -> None:
    connection.send(PING)
    if not connection.recv(100):
        raise ConnectionError("the server has closed")


def measure(port: int, folder: Path) -> None:
    """Asks until it is told to end; prints the worst answer and the 99th percentile, in ms."""
    connection, taken = connect(port), []
    connection.settimeout(PATIENCE_S)
    (folder / "measures").touch()
    while not (folder / "through").exists():
        for _ in range(50):
            before = time.perf_counter()
            try:
                ask(connection)
            except TimeoutError:
                return print(json.dumps({"worst": PATIENCE_S * 1000, "p99": PATIENCE_S * 1000}))
            taken.append((time.perf_counter() - before) * 1000)
            time.sleep(0.0002)
    taken.sort()
    print(json.dumps({"worst": taken[-1], "p99": taken[len(taken) * 99 // 100], "count": len(taken)}))


class Words:
    """The words of a mapped channel."""

    def __init__(self, first: int, length: int) -> None:
        self.memory = memoryview((ctypes.c_char * length).from_address(first)).cast("B")

    def get(self, at: int) -> int:
        return struct.unpack_from("<I", self.memory, at)[0]

    def put(self, at: int, value: int) -> None:
        ctypes.c_uint32.from_buffer(self.memory, at).value = value & 0xFFFFFFFF

    def slots(self, *ports: int) -> list[int]:
        """Where the slots of begun connections with these client's ports are."""
        places = [SLOTS + slot * STRIDE for slot in range(SLOTS_MAX)]
        begun = [place for place in places if self.get(place) & 0xFF == STARTED]
        return [place for place in begun if self.get(place + 4) >> 16 in ports]


def channels() -> list[Words]:
    """All channels that this process has mapped."""
    found = []
    for row in Path("/proc/self/maps").read_text().splitlines():
        if "/memfd:heliostat-channel" in row:
            first, end = (int(word, 16) for word in row.split()[0].split("-"))
            found.append(Words(first, end - first))
    return found


def lock_words(words: Words, slot: int) -> None:
    """Where locks once lay: the number of a thread that lives."""
    for lane in LANES:
        for at in RESERVED:
            words.put(slot + lane + at, os.getpid())


def missing_bell(words: Words, slot: int) -> None:
    """A switch whose bell is counted and never rung."""
    lane = slot + LANES[0]
    words.put(lane + BELLS, words.get(lane + BELLS) + 1)
    words.put(lane + FLAGS, words.get(lane + FLAGS) | SWITCHED | TAKEN_BACK)


def foreign_wish(words: Words, slot: int) -> None:
    """A wish in the name of the reader, a switch, and bytes that are unread."""
    lane = slot + LANES[0]
    words.put(lane + WANT, 1)
    words.put(lane + FLAGS, words.get(lane + FLAGS) | SWITCHED)
    words.put(lane + TAIL, words.get(lane + TAIL) + 5)


def connecting(words: Words, slot: int) -> None:
    """All slots that are free are in the middle of connect(2), for ever."""
    for place in (SLOTS + other * STRIDE for other in range(SLOTS_MAX)):
        if words.get(place) & 0xFF != STARTED:
            words.put(place, 0x100 | CONNECTING)
    words.put(OFFERS, 0xFFFFFFFF)
    words.put(OFFERS + 4, 0xFFFFFFFF)


def noise(words: Words, slot: int) -> None:
    """Anything anywhere in the lanes."""
    chance = random.Random(slot)
    for _ in range(50):
        value = chance.choice([0, 1, 2, 3, chance.getrandbits(15), chance.getrandbits(32)])
        words.put(slot + LANES[0] + chance.randrange(128) * 4, value)


ATTACKS = {act.__name__: act for act in (lock_words, missing_bell, foreign_wish, connecting, noise)}


def harm(port: int, act: Callable[[Words, int], None] | None) -> None:
    """Opens connections, has the server fork, does what the attack is on each, and asks on."""
    connections = [connect(port) for _ in range(CONNECTIONS)]
    connections[0].send(b"BGSAVE\r\n")
    connections[0].recv(100)
    time.sleep(0.3)
    for connection in connections:
        for words in channels():
            for slot in words.slots(connection.getsockname()[1]):
                if act:
                    act(words, slot)
        connection.setblocking(False)
        try:
            connection.send(PING)
        except OSError:
            pass
        # The server answers others meanwhile, or does not.
        time.sleep(0.02)
        others = socket.create_connection(("127.0.0.1", port))
        others.send(PING)
        others.close()
    time.sleep(0.3)


def main() -> None:
    role, port = sys.argv[1], int(sys.argv[2])
    if role == "serve":
        serve(port)
    elif role == "measure":
        measure(port, Path(sys.argv[3]))
    else:
        harm(port, ATTACKS.get(sys.argv[3]))


if __name__ == "__main__":
    main()
