"""Redis (and Valkey) with `appendfsync always` under `--durable`, killed at seeded moments of a load.

Clients under Heliostat and plain ones write; the log is rewritten meanwhile; what is killed is the server, the
control plane, or both. Then a plain server reads the files: each acknowledged write is there, and nothing that
nobody has sent. HELIOSTAT_KILLS says how often, HELIOSTAT_SEED where the seeds begin.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from heliostat_run import BINARY, Harness, Program, Side
from kept_keys import Kind, ask, lost_keys, wait_loaded
from loads import Load
from redis_load import command
from valkey_place import kinds

KILLS = int(os.environ.get("HELIOSTAT_KILLS", 6))
SEED = int(os.environ.get("HELIOSTAT_SEED", 1))
# Where a log may lie, in a store of so many bytes.
AREA = "/store/aof"
STORE_BYTES = "96M"
# So many kills over the same files, and with the same clients; then all is new.
CHAIN = 10 if KILLS > 20 else 3
WATCHDOG_S = 120 + 30 * KILLS

pytestmark = [pytest.mark.heliostat, pytest.mark.timeout(WATCHDOG_S)]


class Chain:
    """Kills in a row over one folder of files."""

    def __init__(self, kind: Kind, harness: Harness, folder: Path, chosen: random.Random) -> None:
        self.kind, self.harness, self.folder, self.chosen = kind, harness, folder, chosen
        self.loads = [Load(harness, side, place, chosen.randint(2, 12)) for place, side in enumerate(Side, 1)]
        # Some chains have the log in place of the file's own flushes, in a file or in an area.
        self.store = None
        self.log = chosen.choice([None, folder.with_suffix(".log"), AREA])
        if self.log == AREA:
            self.store = store_of(folder)
        self.held = self.torn = 0

    def kill_once(self) -> None:
        port, server = self.kind.start(self.harness, Side.HELIOSTAT, self.folder, self.log, self.store)
        wait_loaded(port)
        for load in self.loads:
            load.begin(port)
        for load in self.loads:
            load.await_more(1)
        if self.chosen.random() < 0.5:
            ask(port, command(b"BGREWRITEAOF"))
        time.sleep(self.chosen.uniform(0, 0.1))
        self.strike(server)
        server.process.wait(60)
        for load in self.loads:
            load.await_end()
        self.check()

    def strike(self, server: Program) -> None:
        """Kills the server at last; before, after, or instead first the control plane."""
        victim = self.chosen.choice(["server", "control, and later the server", "control, server", "server, control"])
        self.held += held_sends(self.harness, server.pid)
        if victim.startswith("control"):
            kill_control_plane(self.harness)
        if "later" in victim:
            for load in self.loads:
                load.await_more(20)
        server.kill()
        if victim.endswith("control"):
            kill_control_plane(self.harness)

    def check(self) -> None:
        self.torn += self.kind.torn_bytes(self.folder) > 0
        port, plain = self.kind.start(self.harness, Side.PLAIN, self.folder)
        wait_loaded(port)
        acknowledged = sorted(set().union(*(load.acknowledged for load in self.loads)))
        lost = lost_keys(port, acknowledged)
        assert not lost, f"{len(lost)} of {len(acknowledged)} acknowledged writes are not there: {lost[:5]}"
        sent = sum(load.sent() for load in self.loads)
        assert len(acknowledged) <= int(ask(port, command(b"DBSIZE"))[0][1:]) <= sent
        with suppress(OSError):
            ask(port, command(b"SHUTDOWN", b"NOSAVE"))
        plain.process.wait(60)


def store_of(folder: Path) -> Path:
    """A store beside a folder of files."""
    store = folder.with_suffix(".store")
    if not store.exists():
        words = [BINARY, "store", "init", store, "--size", STORE_BYTES]
        subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=60)
    return store


def kill_control_plane(harness: Harness) -> None:
    os.kill(harness.control_plane(), signal.SIGKILL)


def held_sends(harness: Harness, pid: int) -> int:
    """How many replies were held back, as the control plane has counted."""
    mine = [one["counters"] for one in harness.status()["sessions"] if one["pid"] == pid]
    return sum(counters["held_sends"] for counters in mine)


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.name)
def test_every_acknowledged_write_is_there_after_each_kill(kind, tmp_path):
    held = 0
    for first in range(0, KILLS, CHAIN):
        folder = tmp_path / f"{first}"
        folder.mkdir()
        with Harness(configuration=f'[store]\npath = "{store_of(folder)}"\n') as harness:
            chain = Chain(kind, harness, folder, random.Random(f"{SEED} {first}"))
            for number in range(first, min(first + CHAIN, KILLS)):
                print(f"seed {SEED}, kill {number}, log {chain.log}", flush=True)
                chain.kill_once()
            held += chain.held
        store_of(folder).unlink()
    assert held > 0, "nothing was held back: the loads have tested a plain server"


def test_a_file_that_has_lost_its_end_is_found_out(tmp_path):
    kind = kinds()[0]
    with Harness() as harness:
        port, server = kind.start(harness, Side.HELIOSTAT, tmp_path)
        load = Load(harness, Side.PLAIN, 1, 2)
        load.begin(port)
        load.await_more(100)
        server.kill()
        load.await_end()
        [log] = tmp_path.glob("appendonlydir/*.incr.aof")
        os.truncate(log, log.stat().st_size // 2)
        port, _ = kind.start(harness, Side.PLAIN, tmp_path)
        wait_loaded(port)
        assert lost_keys(port, sorted(load.acknowledged))
