"""SQLite under `--durable`: after kill -9 of all that ran, each commit that was told of is there.

With a write-ahead log that several processes may read it maps shared memory, so that its flushes are waited
for and `heliostat explain` names that; alone, or with a rollback journal, they are held back for.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Program, Side
from sqlite_writer import MODES

HERE = Path(__file__).resolve().parent
WRITER = HERE / "sqlite_writer.py"
KILLS = max(2, int(os.environ.get("HELIOSTAT_KILLS", 0)) // 10)
SEED = int(os.environ.get("HELIOSTAT_SEED", 1))
DURABLE = {"HELIOSTAT_DURABLE": "kept.db*"}

pytestmark = [pytest.mark.heliostat, pytest.mark.timeout(120 + 30 * KILLS)]

# Asks for one commit after the other; prints what it was told, until the server is gone.
CLIENT = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    lines = connection.makefile("r")
    try:
        while True:
            connection.sendall(b"?")
            line = lines.readline()
            if not line.endswith("\\n"):
                break
            print(line, end="", flush=True)
    except (ConnectionResetError, BrokenPipeError):
        pass
"""


@pytest.fixture
def harness():
    """A harness of the test's own: its control plane is killed."""
    with Harness() as one:
        yield one


def told(program: Program) -> list[int]:
    """The commits that a program has printed; a line that the kill has cut off does not count."""
    return [int(line) for line in program.output().rpartition("\n")[0].split()]


def kept(mode: str, path: Path) -> list[int]:
    """What a plain SQLite finds, which finds the database whole."""
    words = [sys.executable, WRITER, "read", mode, path]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    verdict, *numbers = done.stdout.split()
    assert verdict == "ok", done.stdout[:500]
    return list(map(int, numbers))


def kill_all(harness: Harness, *programs: Program) -> None:
    """The program in the middle of its work, and the control plane."""
    programs[0].kill()
    for pid in harness.processes():
        if kernel_view.command_name(pid) == "heliostatd":
            os.kill(pid, signal.SIGKILL)
    for program in programs:
        program.process.wait(60)


def assert_kept(mode: str, path: Path, acknowledged: list[int]) -> None:
    """Each commit that was told of, and one more at most, in order."""
    found = kept(mode, path)
    assert found == list(range(1, len(found) + 1)), found[:5]
    assert acknowledged[-1] <= len(found) <= acknowledged[-1] + 1, (acknowledged[-1], len(found))


@pytest.mark.parametrize("mode", MODES)
def test_each_commit_that_was_printed_is_there_after_each_kill(harness, tmp_path, mode):
    chosen = random.Random(f"{SEED} {mode}")
    path = tmp_path / "kept.db"
    for number in range(KILLS):
        print(f"seed {SEED}, kill {number}", flush=True)
        program = harness.start(Side.HELIOSTAT, [sys.executable, WRITER, mode, path], env=DURABLE)
        kernel_view.wait_until(lambda: len(told(program)) >= 20, 60, "twenty commits")
        time.sleep(chosen.uniform(0, 0.2))
        kill_all(harness, program)
        assert_kept(mode, path, told(program))


@pytest.mark.parametrize("side", Side, ids=lambda side: side.value)
@pytest.mark.parametrize("mode", MODES)
def test_each_commit_that_a_client_was_told_is_there_after_a_kill(harness, tmp_path, mode, side):
    chosen = random.Random(f"{SEED} {mode} {side}")
    port, path = kernel_view.free_port(), tmp_path / "kept.db"
    server = harness.start(Side.HELIOSTAT, [sys.executable, WRITER, mode, path, port], env=DURABLE)
    kernel_view.wait_listening(port, server.process)
    client = harness.start(side, [sys.executable, "-c", CLIENT, port], name="client")
    kernel_view.wait_until(lambda: len(told(client)) >= 50, 60, "fifty commits")
    time.sleep(chosen.uniform(0, 0.2))
    kill_all(harness, server, client)
    assert_kept(mode, path, told(client))


def counted(harness: Harness, tmp_path: Path, mode: str) -> tuple[dict, dict]:
    """Why flushes of a server in this mode were waited for, and its session's counters."""
    port, path = kernel_view.free_port(), tmp_path / "kept.db"
    server = harness.start(Side.HELIOSTAT, [sys.executable, WRITER, mode, path, port], env=DURABLE)
    kernel_view.wait_listening(port, server.process)
    client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", CLIENT, port], name="client")
    kernel_view.wait_until(lambda: len(told(client)) >= 50, 60, "fifty commits")
    explained = json.loads(harness.call("explain", str(server.pid), "--json"))
    [counters] = [one["counters"] for one in harness.status()["sessions"] if one["pid"] == server.pid]
    return explained["unheld_reasons"], counters


def test_a_log_that_others_may_read_is_waited_for_and_explain_says_why(harness, tmp_path):
    reasons, counters = counted(harness, tmp_path, "wal")
    assert reasons["Shared"] >= 40 and counters["held_sends"] == 0, (reasons, counters)


def test_a_log_of_one_process_alone_is_held_back_for(harness, tmp_path):
    reasons, counters = counted(harness, tmp_path, "wal-alone")
    assert reasons == {} and counters["held_sends"] >= 20, (reasons, counters)


def test_a_program_without_any_connection_is_explained_too(harness, tmp_path):
    path = tmp_path / "kept.db"
    program = harness.start(Side.HELIOSTAT, [sys.executable, WRITER, "wal", path], env=DURABLE)
    kernel_view.wait_until(lambda: len(told(program)) >= 20, 60, "twenty commits")
    explained = json.loads(harness.call("explain", str(program.pid), "--json"))
    assert explained["unheld_reasons"]["Shared"] >= 15
