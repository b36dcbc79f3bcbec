"""Drives logs and queues from Python, a command a line; `test_languages.py` tells the commands."""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
from collections.abc import Callable

import heliostat
from heliostat.log import Item, Log, Position, Queue

PATIENCE_S = 60
WORDS = (
    (heliostat.Full, "full"),
    (heliostat.TooLong, "too_large"),
    (heliostat.Trimmed, "stale"),
    (heliostat.NoEntry, "invalid"),
    (heliostat.InvalidName, "invalid"),
    (heliostat.Damaged, "corrupt"),
    (heliostat.DeviceFailed, "device"),
    (heliostat.InUse, "in_use"),
    (heliostat.Denied, "denied"),
    (heliostat.NotFound, "not_found"),
    (heliostat.NameTaken, "taken"),
    (heliostat.NotALog, "foreign"),
    (heliostat.Unsupported, "unsupported"),
    (heliostat.WrongDevice, "wrong_device"),
    (heliostat.Error, "system"),
    (ValueError, "ended"),
)


def position(word: str) -> Position:
    at, sequence = word.split(":")
    return Position(int(at), int(sequence))


def told(at: Position) -> str:
    return f"{at.at}:{at.sequence}"


def texts(entries) -> str:
    return ",".join(bytes(entry).decode() for entry in entries)


def durable_then(begin: Callable[..., object], payload: bytes) -> str:
    """Appends or pushes, and hears by a callback."""
    heard = threading.Event()
    outcome: list[tuple[Position, Exception | None]] = []

    def hear(at: Position, error: Exception | None) -> None:
        outcome.append((at, error))
        heard.set()

    begin(payload, then=hear)
    assert heard.wait(PATIENCE_S)
    [(at, error)] = outcome
    if error is not None:
        raise error
    return told(at)


async def append_heard(log: Log, payload: bytes) -> str:
    return told(await asyncio.wait_for(log.append(payload), PATIENCE_S))


def beside(place: str) -> str:
    with heliostat.log.read(place) as reader:
        found = texts(reader)
        reader.check_end()
        return found


def flood(log: Log, prefix: str) -> None:
    for number in itertools.count():
        log.append_sync(f"{prefix}{number}".encode())
        print(number, flush=True)


def churn(queue: Queue, prefix: str) -> None:
    held: Item | None = None
    for number in itertools.count():
        queue.push_sync(f"{prefix}{number}".encode())
        print(f"pushed {prefix}{number}", flush=True)
        taken = queue.pop(0.0)
        if held is None:
            held = taken
            continue
        for item in (taken, queue.pop(0.0), held):
            if item is not None:
                item.acknowledge(wait=True)
                print(f"done {bytes(item).decode()}", flush=True)
        held = None


def pop(queue: Queue) -> str:
    item = queue.pop(0.0)
    return "none" if item is None else f"{told(item.position)} {bytes(item).decode()}"


LOG = {
    "append": lambda log, word: told(log.append(word.encode()).position),
    # A buffer that others may change is copied piece by piece.
    "append_sync": lambda log, word: told(log.append_sync(bytearray(word.encode()))),
    "append_long": lambda log, word: told(log.append_sync(b"x" * int(word))),
    "append_then": lambda log, word: durable_then(log.append, word.encode()),
    "append_heard": lambda log, word: asyncio.run(append_heard(log, word.encode())),
    "wait": lambda log, word: log.wait_durable(position(word), PATIENCE_S) and None,
    "sync": lambda log, _: log.sync(),
    "checkpoint": lambda log, _: log.checkpoint(),
    "trim": lambda log, word: log.trim(position(word)),
    "range": lambda log, _: f"{told(log.begin)} {told(log.end)}",
    "read": lambda log, word: texts(log.read(position(word) if word else None)),
    "flood": flood,
}
QUEUE = {
    "push": lambda queue, word: told(queue.push_sync(word.encode())),
    "push_then": lambda queue, word: durable_then(queue.push, word.encode()),
    "wait": lambda queue, word: queue.wait_durable(position(word), PATIENCE_S) and None,
    "pop": lambda queue, _: pop(queue),
    "churn": churn,
    "acknowledge": lambda queue, word: queue._acknowledge(position(word), False),
    "acknowledge_sync": lambda queue, word: queue._acknowledge(position(word), True),
    "trim": lambda queue, word: queue.trim(position(word)),
    "give_back": lambda queue, word: queue._give_back(position(word)),
}
OPEN = {
    "create": lambda place, size: heliostat.log.open(place, create=int(size), new=True),
    "open": heliostat.log.open,
    "create_queue": lambda place, size: heliostat.log.open_queue(place, create=int(size), new=True),
    "open_queue": heliostat.log.open_queue,
}


def main() -> None:
    opened: Log | Queue | None = None
    for line in sys.stdin:
        command, *words = line.split()
        try:
            answer = None
            if command in OPEN:
                opened = OPEN[command](*words)
            elif command == "beside":
                answer = beside(*words)
            elif opened is None:
                raise ValueError("nothing is open")
            elif command == "close":
                opened.close()
                opened = None
            else:
                commands = QUEUE if isinstance(opened, Queue) else LOG
                answer = commands[command](opened, words[0] if words else "")
            print(f"ok {answer or ''}".rstrip(), flush=True)
        except (heliostat.Error, ValueError) as error:
            print("error", next(word for kind, word in WORDS if isinstance(error, kind)), flush=True)


main()
