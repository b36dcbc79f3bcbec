"""PostgreSQL under `--durable`: after kill -9 of all that ran, each commit that a client was told of is there.

Its processes share memory, so that its flushes are waited for as ever; `heliostat explain` names that.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Program, Side

USER = "postgres"
KILLS = max(1, int(os.environ.get("HELIOSTAT_KILLS", 0)) // 25)
SEED = int(os.environ.get("HELIOSTAT_SEED", 1))
# Names of segments of the log are 24 hexadecimal digits.
DURABLE = {"HELIOSTAT_DURABLE": "?" * 24}
CLIENTS = 4
# More than a client inserts before the kill, and each client's own numbers.
ROWS = 100_000
SETTINGS = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "shared_buffers": "16MB",
            "max_connections": 40, "wal_sync_method": "fdatasync"}  # fmt: skip

pytestmark = [pytest.mark.heliostat, pytest.mark.postgres, pytest.mark.timeout(180 + 60 * KILLS)]


@pytest.fixture
def harness():
    """A harness of the test's own, which PostgreSQL's user reaches: its control plane is killed."""
    with Harness(plain=True) as one:
        one.folder.chmod(0o755)
        one.call("run", "--", "/bin/true")
        yield one


def tool(name: str) -> str:
    """PostgreSQL's program of this name: the newest release's."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    assert found, f"{name}: install postgresql"
    return str(found[-1])


def start(harness: Harness, side: Side, words: list, **more) -> Program:
    """A program of PostgreSQL's user."""
    change = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--"]
    command = change + harness.command(side, words)
    return harness.start(Side.PLAIN, command, name=Path(str(words[0])).name, cwd=harness.folder, **more)


def make_cluster(harness: Harness) -> Path:
    data = harness.folder / "data"
    data.mkdir(mode=0o700)
    shutil.chown(data, USER, USER)
    words = [tool("initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"]
    made = start(harness, Side.PLAIN, words)
    assert made.wait(120) == 0, made.errors()
    return data


def serve(harness: Harness, side: Side, data: Path) -> tuple[int, Program]:
    port = kernel_view.free_port()
    given = [word for name, value in {**SETTINGS, "port": port}.items() for word in ("-c", f"{name}={value}")]
    program = start(harness, side, [tool("postgres"), "-D", data, *given], env=DURABLE)
    kernel_view.wait_listening(port, program.process, 120)
    kernel_view.wait_until(lambda: query(port, "SELECT 1") == "1", 120, "a server that has recovered")
    return port, program


def query(port: int, text: str) -> str:
    words = [tool("psql"), "-At", "-h", "127.0.0.1", "-p", port, "-U", USER, "-c", text, "postgres"]
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120, check=False).stdout.strip()


def insert(harness: Harness, side: Side, port: int, first: int) -> Program:
    """A client that inserts numbers, each in a transaction, and prints those that are committed."""
    script = harness.folder / f"{first}.sql"
    rows = range(first, first + ROWS)
    script.write_text("".join(f"INSERT INTO kept VALUES ({row});\n\\echo {row}\n" for row in rows))
    script.chmod(0o644)
    words = [tool("psql"), "-q", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", port, "-U", USER, "-f", script, "postgres"]
    return start(harness, side, words)


def told(program: Program) -> list[int]:
    return [int(line) for line in program.output().rpartition("\n")[0].split()]


def kill_all(harness: Harness, server: Program) -> None:
    """Each process of the server, none of which sees another's end first, and the control plane."""
    family = [server.pid, *kernel_view.descendants(server.pid)]
    family += [pid for pid in harness.processes() if kernel_view.command_name(pid) == "heliostatd"]
    for pid in family:
        os.kill(pid, signal.SIGSTOP)
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    server.process.wait(60)
    kernel_view.wait_until(lambda: all(kernel_view.has_ended(pid) for pid in family), 60, "the server's end")


def test_each_commit_that_a_client_was_told_of_is_there_after_each_kill(harness):
    chosen = random.Random(SEED)
    data = make_cluster(harness)
    acknowledged: set[int] = set()
    for number in range(KILLS):
        print(f"seed {SEED}, kill {number}", flush=True)
        port, server = serve(harness, Side.HELIOSTAT, data)
        query(port, "CREATE TABLE IF NOT EXISTS kept (number int PRIMARY KEY)")
        sides = [chosen.choice(list(Side)) for _ in range(CLIENTS)]
        firsts = [(number * CLIENTS + place) * ROWS for place in range(CLIENTS)]
        clients = [insert(harness, side, port, first) for side, first in zip(sides, firsts)]
        kernel_view.wait_until(lambda: all(len(told(client)) >= 20 for client in clients), 120, "twenty commits each")
        time.sleep(chosen.uniform(0, 0.5))
        kill_all(harness, server)
        for client in clients:
            client.wait(60)
            acknowledged.update(told(client))
        port, plain = serve(harness, Side.PLAIN, data)
        found = set(map(int, query(port, "SELECT number FROM kept").split()))
        assert acknowledged <= found, sorted(acknowledged - found)[:5]
        assert query(port, "SELECT count(*) FROM kept WHERE number IS NOT NULL") == str(len(found))
        os.kill(plain.pid, signal.SIGINT)
        plain.wait(60)


def test_explain_says_that_its_processes_share_memory(harness):
    port, server = serve(harness, Side.HELIOSTAT, make_cluster(harness))
    query(port, "CREATE TABLE kept (number int PRIMARY KEY)")
    client = insert(harness, Side.HELIOSTAT, port, 0)
    kernel_view.wait_until(lambda: len(told(client)) >= 20, 120, "twenty commits")
    reasons: dict[str, int] = {}
    for pid in {one["pid"] for one in harness.status()["sessions"]} & {server.pid, *kernel_view.descendants(server.pid)}:
        for reason, count in json.loads(harness.call("explain", str(pid), "--json"))["unheld_reasons"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    assert set(reasons) == {"Shared"} and reasons["Shared"] >= 15, reasons
