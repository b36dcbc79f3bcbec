"""Redis that keeps every write, unmodified: plain Linux over TCP against `heliostat run --durable`, without and with `--log`.

Three parts: SET with `appendfsync always` by 1 and 50 connections, both placements, the better one of
each compared (table and picture); then the server is killed with SIGKILL in the middle of its work;
then it is started again without Heliostat, and every write that it had acknowledged is looked for.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH / "demo"), str(BENCH.parent / "verify")]

import kernel_view  # noqa: E402
import redis_load  # noqa: E402
from heliostat_run import Harness, Side  # noqa: E402
from measure import ROOT, Bench, best, figure, placements  # noqa: E402
from picture import draw  # noqa: E402
from redis_load import HELIOSTAT, KEPT, TCP, Load, Server  # noqa: E402
from suite.durable import DISK, LOGGED, SETS_MIN, servers  # noqa: E402

REPORT = Path(os.environ.get("HELIOSTAT_REPORT", ROOT / "target")) / "demo"
LOADS = [Load(1), Load(50)]
TITLE = "Unmodified redis-server with appendfsync always: each SET is on the disk before its reply"
# What each way is called in the picture.
WAYS = {
    TCP.name: "TCP, plain Linux",
    HELIOSTAT.name: "heliostat run --durable",
    LOGGED.name: "heliostat run --durable --log",
}
# Writes numbered keys, one connection, until the server is gone; says the last number that was acknowledged.
WRITER = """
import socket, sys
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
number = 0
try:
    while True:
        value = b"%d" % (number + 1)
        key = sys.argv[2].encode() + b":" + value
        connection.sendall(b"*3\\r\\n$3\\r\\nSET\\r\\n$%d\\r\\n%s\\r\\n$%d\\r\\n%s\\r\\n" % (len(key), key, len(value), value))
        if connection.recv(100) != b"+OK\\r\\n":
            break
        number += 1
except OSError:
    pass
print(number)
"""
WRITERS = 8


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each load")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one load")
    return parser.parse_args()


def sample(bench: Bench, started: dict, load: Load) -> dict:
    """One line of the picture: the better placement of each way."""
    harness = bench.harness
    ways = {arm: server for arm, server in started.items() if arm[0] in WAYS}
    requests = {
        arm: redis_load.requests_for(harness, server, load, bench.seconds, "SET", SETS_MIN)
        for arm, server in ways.items()
    }

    def once(arm: tuple) -> dict:
        told = redis_load.once(harness, ways[arm], load, "set", requests[arm])["SET"]
        print(f"  {load!s:>15}  {arm[0]:<14} {arm[1]:<9} {told['rate']:>10,.0f}/s", flush=True)
        return told

    samples = bench.alternate({arm: arm for arm in ways}, once)
    entry = {"command": "SET", "load": str(load), "transports": {}}
    for name in WAYS:
        rates = {place: [one["rate"] for one in got] for (way, place), got in samples.items() if way == name}
        place, rate = best(rates)
        p99 = statistics.median(one["p99_us"] for one in samples[name, place])
        entry["transports"][name] = {
            "per_second": statistics.median(rate), "lowest": min(rate), "highest": max(rate),
            "placement": place, "p99_us": p99,
        }  # fmt: skip
    return entry


def show(entries: list[dict]) -> None:
    """The table and the picture."""
    print(f"\n{'SET, each on the disk before its reply':40}{'requests/s':>12}{'p99':>12}   against TCP")
    for entry in entries:
        base = entry["transports"][TCP.name]["per_second"]
        for name, one in entry["transports"].items():
            label = f"{entry['load']}, {name}"
            print(
                f"    {label:<36}{one['per_second']:>12,.0f}{figure(one['p99_us']):>9} us"
                f"   {one['per_second'] / base:.2f} x"
            )
    REPORT.mkdir(parents=True, exist_ok=True)
    draw(entries, TITLE, REPORT / "durable.png", WAYS)
    print(f"picture: {REPORT / 'durable.png'}")


def is_loaded(port: int) -> bool:
    """Whether a server has read its files: before that it listens, and answers that it is loading."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64) == b"+PONG\r\n"


def ask(port: int, keys: list[str]) -> list[bytes]:
    """The values of keys, by one connection."""
    with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rb") as answers:
        values = []
        for key in keys:
            connection.sendall(f"GET {key}\r\n".encode())
            length = int(answers.readline()[1:])
            values.append(answers.readline().strip() if length >= 0 else b"")
        return values


def kill_and_look(harness: Harness, server: Server, folder: Path) -> int:
    """Kills it while it writes, starts it plainly, and counts acknowledged writes that are not there."""
    words = [sys.executable, "-c", WRITER, server.port]
    writers = [harness.start(Side.HELIOSTAT, [*words, f"writer{place}"]) for place in range(WRITERS)]
    time.sleep(2)
    server.program.kill()
    print(f"\nkill -9 {server.program.pid}, while {WRITERS} clients write")
    wanted = []
    for place, writer in enumerate(writers):
        writer.wait(60)
        wanted += [f"writer{place}:{number}" for number in range(1, int(writer.output()) + 1)]
    again = redis_load.start(harness, TCP, placements()[0], KEPT, folder)
    kernel_view.wait_until(lambda: is_loaded(again.port), 120, "the files read")
    values = ask(again.port, wanted)
    lost = sum(value != key.split(":")[1].encode() for key, value in zip(wanted, values))
    print(f"started again without Heliostat: {len(wanted):,} writes were acknowledged, {lost} of them are lost")
    return lost


def main() -> int:
    asked, started_at = arguments(), time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="heliostat-durable-", dir=DISK))
    try:
        with Harness() as harness:
            bench = Bench(harness, asked.rounds, asked.seconds)
            started = servers(bench, folder)
            show([sample(bench, started, load) for load in LOADS])
            arm = next(arm for arm in started if arm[0] == LOGGED.name)
            lost = kill_and_look(harness, started[arm], folder / str(list(started).index(arm)))
        print(f"took {time.monotonic() - started_at:.0f} s")
        return int(lost > 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
