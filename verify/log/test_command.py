"""`heliostat log`: entries as people and programs see them, also while somebody writes the log."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from drivers import Drivers, log_folder
from heliostat_run import BINARY

BYTES = 64 << 10

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def drivers():
    return Drivers()


@pytest.fixture
def writer(drivers):
    with drivers.start("c") as one:
        yield one


@pytest.fixture
def place():
    with log_folder() as folder:
        yield Path(folder) / "log"


def log(*words: object) -> str:
    return subprocess.run([BINARY, "log", *map(str, words)], capture_output=True, text=True, check=True, timeout=60).stdout


def refused(*words: object) -> tuple[str, str]:
    """What a command printed that ended with status 1, and why."""
    ended = subprocess.run([BINARY, "log", *map(str, words)], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    return ended.stdout, ended.stderr


def test_entries_are_shown_with_their_places_while_they_are_written(writer, place):
    for command in (f"create {place} {BYTES}", "append_sync one", "append_sync two", "append_sync three"):
        writer.ask(command)
    assert log("cat", place) == "0 0 3 one\n40 1 3 two\n80 2 5 three\n"
    assert log("cat", "--raw", place) == "onetwothree"
    assert log("cat", "--from", 40, "--count", 1, place) == "40 1 3 two\n"
    [second] = [json.loads(line) for line in log("cat", "--json", "--from", 1, "--count", 1, place).splitlines()]
    assert second == {"at": 40, "sequence": 1, "next": 80, "bytes": 3, "text": "two"}
    facts = json.loads(log("info", "--json", place))
    assert (facts["begin"], facts["room_bytes"]) == ({"at": 0, "sequence": 0}, BYTES - 8192)
    assert json.loads(log("verify", "--json", place))["entries"] == 3
    assert "known end" in log("info", place) and "3" in log("verify", place)


def test_more_is_shown_as_it_is_written(writer, place):
    writer.ask(f"create {place} {BYTES}")
    with subprocess.Popen([BINARY, "log", "cat", "--follow", place], stdout=subprocess.PIPE, text=True) as follower:
        for number in range(3):
            writer.ask(f"append_sync entry{number}")
            assert follower.stdout.readline().endswith(f" entry{number}\n")
        follower.terminate()


def test_damage_ends_it_with_the_position(writer, place):
    for command in (f"create {place} {BYTES}", "append_sync one", "append_sync two", "append_sync three", "close"):
        assert writer.ask(command).startswith("ok"), command
    with place.open("r+b") as file:
        file.seek(8192 + 40 + 32)
        file.write(b"?")
    shown, why = refused("cat", place)
    assert shown == "0 0 3 one\n"
    assert "the acknowledged entry at 40 (entry 1) is damaged" in why
    assert "40 (entry 1) is damaged" in refused("verify", place)[1]


def test_what_is_no_log_is_refused(place):
    assert "No such file" in refused("cat", place)[1]
    place.write_bytes(bytes(BYTES))
    assert "no header block of a log" in refused("info", place)[1]
