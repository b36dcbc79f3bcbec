"""One end of sixty-four connections whose victim ends: `python peer_ends.py ROLE PORT FOLDER DOES`.

ROLE is accept or connect, DOES is "survive" or what the victim is in the middle of: recv, epoll,
poll or busy. Each connection is of another kind: how the survivor looks at the end, whether the
victim leaves bytes unread, whether it has sent last words that nobody has read yet, and who has
half-closed. SIGUSR1 makes the victim exit, SIGUSR2 become another program, whose descriptors the
kernel closes. The survivor prints what each connection showed, step by step.
"""

from __future__ import annotations

import errno
import itertools
import os
import select
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

LOOKS = {
    "read": ("poll", "recv", "recv", "recv", "poll", "send", "poll", "send", "recv"),
    "write": ("poll", "send", "poll", "send", "poll", "send", "recv", "recv", "recv"),
    "ask": ("error", "poll", "recv", "recv", "error", "send", "error", "send"),
    "epoll": ("epoll", "recv", "recv", "recv", "epoll", "send", "epoll"),
    "asleep": ("slept", "poll", "send", "send"),
    "full": ("slept", "poll", "send", "send", "recv"),
}
NAMES = ("IN", "OUT", "ERR", "HUP", "RDHUP")
GREETINGS = 3
PAUSE_S = 0.03
MUCH = 64 << 20


@dataclass
class Kind:
    """What is particular about one connection."""

    look: str
    unread: bool
    last_words: bool
    half_closed_by: str
    connection: socket.socket = None
    slept: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.look} {'unread' * self.unread} {'words' * self.last_words} {self.half_closed_by}"


def kinds() -> list[Kind]:
    """Every kind of connection; a writer that sleeps for room has written more than was read."""
    every = [Kind(*one) for one in itertools.product(LOOKS, (False, True), (False, True), ("", "victim", "survivor"))]
    return [kind for kind in every if kind.look != "full" or kind.unread and kind.half_closed_by != "survivor"]


def open_all(role: str, port: int) -> list[Kind]:
    """All connections, with a byte each way."""
    made = kinds()
    if role == "accept":
        with socket.create_server(("127.0.0.1", port), backlog=64) as listener:
            for kind in made:
                kind.connection = listener.accept()[0]
    else:
        for kind in made:
            kind.connection = socket.create_connection(("127.0.0.1", port))
    for kind in made:
        kind.connection.sendall(b"h")
    for kind in made:
        assert kind.connection.recv(1) == b"h"
    return made


def outcome(call, *arguments) -> str:
    """What a call returned, or the name of its error."""
    try:
        return repr(call(*arguments))
    except OSError as error:
        return errno.errorcode[error.errno]


def words_of(events: int, prefix: str) -> str:
    """The names of poll's or epoll's bits."""
    return "|".join(name for name in NAMES if events & getattr(select, prefix + name))


class Survivor:
    """Looks at what each connection shows once the victim is gone."""

    def __init__(self, made: list[Kind], folder: Path):
        self.made, self.folder, self.set = made, folder, select.epoll()
        for kind in made:
            if kind.look == "epoll":
                self.set.register(kind.connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)

    def run(self) -> None:
        sleep = {"asleep": self.sleep_for_bytes, "full": self.sleep_for_room}
        sleepers = [
            threading.Thread(target=sleep[kind.look], args=(kind,)) for kind in self.made if kind.look in sleep
        ]
        for _ in range(GREETINGS):
            for kind in self.made:
                kind.connection.send(b"greeting")
            time.sleep(PAUSE_S)
        for thread in sleepers:
            thread.start()
        for kind in self.made:
            if kind.half_closed_by == "survivor":
                kind.connection.shutdown(socket.SHUT_WR)
        print("ready", flush=True)
        while not (self.folder / "gone").exists():
            time.sleep(0.005)
        for thread in sleepers:
            thread.join()
        self.look()

    def sleep_for_room(self, kind: Kind) -> None:
        """Is asleep in send when the end comes."""
        sent = kind.connection.send(bytes(MUCH), socket.MSG_NOSIGNAL)
        kind.slept.append("part" if 0 < sent < MUCH else str(sent))

    def sleep_for_bytes(self, kind: Kind) -> None:
        """Is asleep in recv when the end comes."""
        while True:
            kind.slept.append(outcome(kind.connection.recv, 100))
            if kind.slept[-1] in ("b''", "ECONNRESET"):
                return

    def look(self) -> None:
        """Step by step through all connections, so that what a step causes has come about."""
        lines = [[] for _ in self.made]
        for step in range(max(map(len, LOOKS.values()))):
            told = dict(self.set.poll(0))
            for kind, line in zip(self.made, lines):
                if step < len(LOOKS[kind.look]):
                    line.append(self.step(LOOKS[kind.look][step], kind, told))
            time.sleep(PAUSE_S)
        for kind, line in zip(self.made, lines):
            print(kind, *line, sep=", ", flush=True)

    def step(self, word: str, kind: Kind, told: dict[int, int]) -> str:
        """One look at one connection."""
        connection = kind.connection
        if word == "poll":
            watch = select.poll()
            watch.register(connection, select.POLLIN | select.POLLOUT | select.POLLRDHUP)
            return words_of(dict(watch.poll(0)).get(connection.fileno(), 0), "POLL")
        if word == "epoll":
            return words_of(told.get(connection.fileno(), 0), "EPOLL")
        if word == "slept":
            return " ".join(kind.slept)
        if word == "error":
            return errno.errorcode.get(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), "none")
        if word == "send":
            return outcome(connection.send, b"more", socket.MSG_NOSIGNAL)
        return outcome(connection.recv, 100)


def begin_last(made: list[Kind]) -> None:
    """The victim's last words and half-closes, before it goes on with what it does."""
    for kind in made:
        if kind.last_words:
            kind.connection.sendall(b"last words")
        if kind.half_closed_by == "victim":
            kind.connection.shutdown(socket.SHUT_WR)


class Tally:
    """Says when all greetings were taken that are not left unread."""

    def __init__(self, made: list[Kind]):
        self.left = GREETINGS * len(b"greeting") * sum(not kind.unread for kind in made)
        self.lock = threading.Lock()

    def take(self, connection: socket.socket, count: int) -> int:
        """Reads up to so many bytes; how many there were."""
        taken = len(connection.recv(count))
        with self.lock:
            self.left -= taken
            if taken and not self.left:
                print("taken", flush=True)
        return taken


def read_for_ever(connection: socket.socket, tally: Tally) -> None:
    while tally.take(connection, 100):
        pass


def read_some(made: list[Kind], tally: Tally) -> None:
    """The greetings of those connections that are not left unread."""
    left = {kind.connection: GREETINGS * len(b"greeting") for kind in made if not kind.unread}
    while any(left.values()):
        for connection, count in left.items():
            if count:
                left[connection] -= tally.take(connection, count)


def be_struck(made: list[Kind], does: str) -> None:
    """Does what it does for ever; with one connection, or several, it reads all that comes."""
    read, tally = [kind.connection for kind in made if not kind.unread], Tally(made)
    if does == "recv":
        for connection in read:
            threading.Thread(target=read_for_ever, args=(connection, tally), daemon=True).start()
        while True:
            signal.pause()
    if does == "busy":
        read_some(made, tally)
        while True:
            sum(range(1000))
    watch = select.epoll() if does == "epoll" else select.poll()
    for kind in made if does == "epoll" else [kind for kind in made if not kind.unread]:
        watch.register(kind.connection, select.POLLIN | (select.EPOLLET if does == "epoll" else 0))
    by_number = {connection.fileno(): connection for connection in read}
    gone = set()
    while True:
        for number, _ in watch.poll():
            if number in by_number and number not in gone and not tally.take(by_number[number], 100):
                gone.add(number)
                watch.unregister(number)


def main() -> None:
    role, port, folder, does = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))
    signal.signal(signal.SIGUSR2, lambda *_: os.execv("/bin/sleep", ["sleep", "60"]))
    made = open_all(role, port)
    if does == "survive":
        return Survivor(made, folder).run()
    begin_last(made)
    be_struck(made, does)


if __name__ == "__main__":
    main()
