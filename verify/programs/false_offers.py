"""The processes of a test of false offers: `false_offers.py server PORT`, `attacker PORT VICTIM...`, `client OWN PORT WORD`.

The attacker makes one connection of its own, as any client does, and finds the channel that it got
for it in its memory. There it offers slots under the addresses that the victims will have, and writes
into them whatever would make a server take its bytes for a victim's, or give it the answer.
"""

from __future__ import annotations

import ctypes
import re
import signal
import socket
import struct
import sys
import threading
import time

EVIL = b"EVIL words of the attacker\n"
FREE, CONNECTING, OFFERED, CLAIMED, STARTED, PROVEN = 0, 1, 2, 3, 6, 7
SLOTS, STRIDE, DATA = 4096, 704, 49152
FORTH, BACK = 128, 384
TAIL, ORIGIN, FLAGS, PREFIX = 0, 8, 16, 72
# Nothing, the end, and that what follows comes on the shadow.
KINDS = [(0, 0, STARTED), (6, 0, STARTED), (0, 2, STARTED), (0, 10, CLAIMED), (0, 1, PROVEN), (0, 2, CLAIMED)]


def say(*words: object) -> None:
    print(*words, flush=True)


def answer(connection: socket.socket) -> None:
    with connection, connection.makefile("rb") as lines:
        connection.sendall(b"hello\n")
        for line in lines:
            say("got", line)
            connection.sendall(b"+OK " + line)


def serve(port: int) -> None:
    listener = socket.create_server(("127.0.0.1", port))
    while True:
        threading.Thread(target=answer, args=[listener.accept()[0]], daemon=True).start()


def ask(own: int, port: int, word: str) -> None:
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.bind(("127.0.0.1", own))
        connection.connect(("127.0.0.1", port))
        with connection.makefile("rb") as lines:
            say(lines.readline())
            for line in (f"AUTH {word}\n", "PING\n", f"GET {word}\n"):
                connection.sendall(line.encode())
                say(lines.readline())


class Channel:
    """The attacker's own channel, as it lies in its memory."""

    def __init__(self, start: int, end: int):
        self.bytes = (ctypes.c_ubyte * (end - start)).from_address(start)
        self.slots, self.ring = struct.unpack_from("<II", self.bytes, 8)

    def load(self, at: int) -> int:
        return struct.unpack_from("<I", self.bytes, at)[0]

    def load_long(self, at: int) -> int:
        return struct.unpack_from("<Q", self.bytes, at)[0]

    def store(self, at: int, form: str, value: int) -> None:
        struct.pack_into(form, self.bytes, at, value)

    def offer(self, slot: int, victim: int, port: int) -> None:
        """Puts a slot on offer under the address of `victim`."""
        at = SLOTS + slot * STRIDE
        ctypes.memset(ctypes.addressof(self.bytes) + at + 4, 0, STRIDE - 4)
        self.store(at + 4, "<B", 4)
        self.store(at + 6, "<H", victim)
        self.store(at + 8, "<H", port)
        for ip in (at + 16, at + 32):
            self.bytes[ip : ip + 4] = bytes([127, 0, 0, 1])
        generation = (self.load(at) >> 8) + 1
        self.store(at, "<I", (generation << 8 | OFFERED) & 0xFFFFFFFF)
        self.store(64, "<Q", self.load_long(64) | 1 << slot)

    def strike(self, slot: int, kind: tuple[int, int, int]) -> None:
        """Writes a prefix, bytes and flags where the server would read them."""
        (prefix, flags, state), at = kind, SLOTS + slot * STRIDE
        ring = DATA + slot * 2 * self.ring
        for place in range(ring, ring + 20 * len(EVIL), len(EVIL)):
            self.bytes[place : place + len(EVIL)] = EVIL
        self.store(at + FORTH + PREFIX, "<Q", prefix)
        self.store(at + FORTH + ORIGIN, "<Q", 0)
        self.store(at + FORTH + TAIL, "<Q", 20 * len(EVIL))
        self.store(at + FORTH + FLAGS, "<I", flags)
        self.store(at, "<I", self.load(at) & ~0xFF | state)

    def overheard(self, slot: int) -> bytes:
        """What the server wrote into this slot's ring."""
        back = SLOTS + slot * STRIDE + BACK
        count, origin = self.load_long(back + TAIL), self.load_long(back + ORIGIN)
        ring = DATA + (slot * 2 + 1) * self.ring
        return bytes(self.bytes[ring + (place - origin) % self.ring] for place in range(min(count, 200)))


def own_channel() -> Channel:
    with open("/proc/self/maps") as maps:
        for line in maps:
            found = re.match(r"(\w+)-(\w+) rw-s .*heliostat-channel", line)
            if found:
                return Channel(int(found[1], 16), int(found[2], 16))
    raise RuntimeError("no channel: the attacker is not direct")


def attack(port: int, victims: list[int]) -> None:
    own = socket.create_connection(("127.0.0.1", port))
    lines = own.makefile("rb")
    lines.readline()
    for _ in range(2):
        own.sendall(b"of the attacker\n")
        lines.readline()
    channel = own_channel()
    slots = {channel.slots - 1 - number: victim for number, victim in enumerate(victims)}
    for slot, victim in slots.items():
        channel.offer(slot, victim, port)
    say("armed")
    struck = set()
    while True:
        for number, slot in enumerate(slots):
            if slot not in struck and channel.load(SLOTS + slot * STRIDE) & 0xFF == CLAIMED:
                struck.add(slot)
                say("claimed", slots[slot])
                channel.strike(slot, KINDS[number % len(KINDS)])
            if heard := channel.overheard(slot):
                say("overheard", heard)
        time.sleep(0.0002)


def main() -> None:
    role, *words = sys.argv[1:]
    signal.alarm(100)
    if role == "server":
        serve(int(words[0]))
    elif role == "attacker":
        attack(int(words[0]), [int(word) for word in words[1:]])
    else:
        ask(int(words[0]), int(words[1]), words[2])


if __name__ == "__main__":
    main()
