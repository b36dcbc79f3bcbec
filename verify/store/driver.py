"""Drives areas from Python, a command a line; test_areas.py tells the commands."""

from __future__ import annotations

import sys

import heliostat

WORDS = {
    heliostat.Full: "full",
    heliostat.Gone: "stale",
    heliostat.InvalidRegion: "invalid",
    heliostat.InvalidName: "invalid",
    heliostat.DeviceFailed: "device",
    heliostat.Denied: "denied",
    heliostat.NotFound: "not_found",
    heliostat.NameTaken: "taken",
    heliostat.Unsupported: "unsupported",
    heliostat.NoControlPlane: "no_control",
}

SECTOR = 4096


def by_threads(area: heliostat.store.Area, sectors: int) -> str:
    """Writes each sector with its number, from buffers of several kinds, and reads them into one."""
    kinds = (bytes, bytearray, lambda data: memoryview(bytearray(data)))
    for at in range(sectors):
        area.write(at * SECTOR, kinds[at % 3](bytes([at & 0xFF]) * SECTOR), durable=at % 2 == 1)
    area.flush()
    found = bytearray(SECTOR)
    for at in range(sectors):
        area.read_into(at * SECTOR, found)
        assert found == bytes([at & 0xFF]) * SECTOR, at
    return "ok"


class Actor:
    def __init__(self) -> None:
        self.area: heliostat.store.Area | None = None

    def act(self, verb: str, words: list[str]) -> str:
        if verb == "create":
            self.area = heliostat.store.create(words[0], int(words[1]), way=words[2])
        elif verb == "open":
            self.area = heliostat.store.open(words[0], words[1], way=words[2], exclusive=len(words) > 3)
        elif self.area is None:
            return "error closed"
        else:
            return self.use(self.area, verb, words)
        return "ok"

    def use(self, area: heliostat.store.Area, verb: str, words: list[str]) -> str:
        if verb == "size":
            return f"ok {len(area)} {'direct' if area.emulated_because is None else 'emulated'}"
        if verb == "read":
            return f"ok {area.read(int(words[0]), int(words[1])).decode()}"
        if verb == "queue":
            return by_threads(area, int(words[0]))
        if verb == "write":
            area.write(int(words[0]), words[1].encode())
        elif verb == "flush":
            area.flush()
        elif verb == "resize":
            area.resize(int(words[0]))
        elif verb in ("close", "delete"):
            self.area = None
            getattr(area, verb)()
        return "ok"


def main() -> None:
    actor = Actor()
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            answer = actor.act(verb, words)
        except heliostat.InUse as error:
            answer = f"error in_use: {error}"
        except heliostat.Error as error:
            answer = "error " + next((word for kind, word in WORDS.items() if isinstance(error, kind)), "system")
        print(answer, flush=True)


main()
