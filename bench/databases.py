"""SQLite and PostgreSQL, unmodified, that keep every commit: plain, and under `--durable` with and without a log.

They wait for each flush themselves, so there is little to gain: the aim is that nothing is lost. A round has one
sample of each way, and what counts is the ratio of each round.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

import kernel_view
from heliostat_run import ROOT, Program, Side
from measure import P50, P99, RATE, Bench, Result, by_rounds, last_json

AIM = 0.95
PLAIN = "plain"
# By name of the way: the side, and what its environment says besides.
WAYS = {PLAIN: Side.PLAIN, "held back": Side.HELIOSTAT, "log": Side.HELIOSTAT}
COMMITS = ROOT / "bench/python/sqlite_commits.py"
PYTHON = "/usr/bin/python3"
# The journal, and whether other processes may use the database too.
MODES = {"WAL": ("wal", "normal"), "WAL, alone": ("wal", "exclusive"), "rollback journal": ("delete", "normal")}
USER = "postgres"
CLIENTS = (1, 8)
SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "shared_buffers": "32MB",
            "max_connections": 40, "wal_sync_method": "fdatasync", "autovacuum": "off"}  # fmt: skip
TRANSACTION = "INSERT INTO kept (filler) VALUES (repeat('x', 200));\n"
TPS = re.compile(r"^tps = ([0-9.]+)", re.MULTILINE)
LATENCY = re.compile(r"^latency average = ([0-9.]+) ms", re.MULTILINE)


@contextmanager
def on_disk(disk: str) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="heliostat-databases-", dir=disk))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment(way: str, files: str, folder: Path) -> dict[str, str]:
    if way == PLAIN:
        return {}
    log = {"HELIOSTAT_DURABLE_LOG": str(folder / "log")} if way == "log" else {}
    return {"HELIOSTAT_DURABLE": files, **log}


def compared(bench: Bench, name: str, samples: dict, values: tuple) -> list[Result]:
    """Each way with plain Linux, round by round."""
    found = []
    for way in samples:
        for value in values if way != PLAIN else ():
            ours, theirs = ([one[value.key] for one in samples[it]] for it in (way, PLAIN))
            aim = AIM if value is RATE else None
            row = bench.compare(f"{name}, {way}: {value.called}", ours, theirs, value.unit, better=value.better, aim=aim)
            by_rounds(row, *((ours, theirs) if value.better == "more" else (theirs, ours)))
            found.append(row)
    return found


def sqlite(bench: Bench, disk: str) -> list[Result]:
    """One program that commits as quickly as it can."""
    found = []
    for called, (journal, locking) in MODES.items():

        def sample(way: str) -> dict:
            with on_disk(disk) as folder:
                words = [PYTHON, COMMITS, journal, locking, folder / "kept.db", bench.seconds]
                env = environment(way, "kept.db*", folder)
                return last_json(bench.harness.run(WAYS[way], words, seconds=bench.seconds + 120, env=env))

        samples = bench.alternate({way: way for way in ways(bench)}, sample)
        found += compared(bench, f"SQLite, {called}", samples, (RATE, P50, P99))
    return found


def ways(bench: Bench) -> list[str]:
    return [PLAIN] if bench.harness.plain else list(WAYS)


def tool(name: str) -> str | None:
    """PostgreSQL's program of this name: the newest release's."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else None


@dataclass
class Cluster:
    """A server of PostgreSQL's user, with a table."""

    bench: Bench
    folder: Path
    way: str
    server: Program | None = None

    def start(self) -> int:
        """Its port."""
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        shutil.chown(self.folder, USER, USER)
        shutil.chown(data, USER, USER)
        words = [tool("initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"]
        self.ended(self.run(Side.PLAIN, words))
        port = kernel_view.free_port()
        given = [word for name, value in {**SETTINGS, "port": port}.items() for word in ("-c", f"{name}={value}")]
        # Names of segments of its log are 24 hexadecimal digits.
        env = environment(self.way, "?" * 24, self.folder)
        self.server = self.run(WAYS[self.way], [tool("postgres"), "-D", data, *given], env=env)
        # It listens before it has looked at what it has.
        asked = [tool("pg_isready"), "-q", *self.at(port)]
        kernel_view.wait_until(lambda: self.run(Side.PLAIN, asked).wait(60) == 0, 120, "PostgreSQL")
        query = "CREATE TABLE kept (number bigserial PRIMARY KEY, filler text)"
        self.ended(self.run(Side.PLAIN, [tool("psql"), *self.at(port), "-c", query, "postgres"]))
        return port

    def at(self, port: int) -> list:
        return ["-h", "127.0.0.1", "-p", port, "-U", USER]

    def run(self, side: Side, words: list, **more) -> Program:
        change = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--"]
        command = change + self.bench.harness.command(side, words)
        return self.bench.harness.start(Side.PLAIN, command, name=Path(str(words[0])).name, cwd=self.folder, **more)

    def ended(self, program: Program) -> str:
        if program.wait(self.bench.seconds + 120) != 0:
            raise RuntimeError(f"{program.name}: {program.errors()[-1000:]}")
        return program.output()

    def load(self, port: int, clients: int) -> dict:
        """What pgbench says of so many clients, each with a connection."""
        script = self.folder / "insert.sql"
        script.write_text(TRANSACTION)
        words = ["/usr/bin/pgbench", "-n", "-f", script, "-c", clients, "-j", 1, "-T", max(1, round(self.bench.seconds))]
        said = self.ended(self.run(Side.PLAIN, [*words, *self.at(port), "postgres"]))
        return {"rate": float(TPS.search(said)[1]), "p50_us": float(LATENCY.search(said)[1]) * 1e3}


def postgres(bench: Bench, disk: str) -> list[Result]:
    """A server of each way, whose clients are plain; a server that nobody asks does nothing."""
    if os.getuid() != 0 or tool("postgres") is None:
        print("PostgreSQL is left out: it is not installed, or cannot be run as its own user", flush=True)
        return []
    bench.harness.folder.chmod(0o755)
    with on_disk(disk) as folder:
        folder.chmod(0o755)
        clusters = {}
        for way in [it for it in ways(bench) if it != "log"]:  # its flushes never go by a log: its processes share memory
            cluster = Cluster(bench, folder / way.replace(" ", "-"), way)
            cluster.folder.mkdir()
            clusters[way] = (cluster, cluster.start())
        found = []
        for clients in CLIENTS:
            samples = bench.alternate(clusters, lambda pair: pair[0].load(pair[1], clients))
            plural = "client" if clients == 1 else "clients"
            found += compared(bench, f"PostgreSQL, {clients} {plural}", samples, (RATE,))
        for cluster, _ in clusters.values():
            cluster.server.kill(signal.SIGINT)
            cluster.server.wait(60)
        return found
