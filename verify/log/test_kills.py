"""A writer, and a user of a queue, in each language is killed at any time: what it said is so, and nothing else.

HELIOSTAT_KILLS says how often (20). Rust's own test with several threads is backend/log/tests/kill.rs.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Iterator

import pytest
from drivers import LANGUAGES, Driver, Drivers, log_folder
from heliostat_run import BINARY

KILLS = int(os.environ.get("HELIOSTAT_KILLS", "20"))
BYTES = 4 << 20
SECONDS = 60

pytestmark = [pytest.mark.heliostat, pytest.mark.timeout(120 + 5 * KILLS)]


def spoken(driver: Driver) -> Iterator[str]:
    """What it says, line by line; of the last it may have been killed before it was whole, so that was not said."""
    for line in driver.process.stdout:
        if line.endswith("\n"):
            yield line[:-1]


def killed(driver: Driver, prefix: str, lines: int) -> int:
    """Lets it append until it has said so many, kills it, and reads what was in the pipe; how many it said."""
    print(f"flood {prefix}", file=driver.process.stdin, flush=True)
    said = 0
    for line in spoken(driver):
        assert line == str(said), line
        said += 1
        if said == lines:
            driver.process.send_signal(signal.SIGKILL)
    driver.process.communicate()
    return said


def opened(driver: Driver, place: Path, command: str = "open") -> None:
    """Opens it; the kernel lets go of a killed process's ring a little later."""
    ends = time.monotonic() + SECONDS
    while (answer := driver.ask(f"{command} {place}")) != "ok":
        assert answer == "error in_use" and time.monotonic() < ends, answer


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_killed_writer_said_is_there(language):
    drivers = Drivers()
    seed = random.Random(1)
    with log_folder() as folder:
        place = Path(folder) / "log"
        with drivers.start(language) as first:
            assert first.ask(f"create {place} {BYTES}") == "ok"
        wanted: list[str] = []
        for kill in range(KILLS):
            driver = drivers.start(language)
            opened(driver, place)
            said = killed(driver, f"{kill}-", seed.randrange(1, 60))
            shown = subprocess.run([BINARY, "log", "cat", "--json", place], capture_output=True, text=True, check=True)
            found = [json.loads(line)["text"] for line in shown.stdout.splitlines()]
            # One more may be there, whose acknowledgement did not leave the writer.
            last = [f"{kill}-{number}" for number in range(said + 1)]
            assert found in (wanted + last[:-1], wanted + last), (kill, found[-3:], said)
            wanted = found
        subprocess.run([BINARY, "log", "verify", place], check=True, capture_output=True)


def in_queue(driver: Driver) -> list[str]:
    """What it hands out, in order; all of it is given back."""
    found = []
    while (answer := driver.ask("pop")) != "ok none":
        found.append(answer.split(" ")[1:])
    for position, _ in found:
        assert driver.ask(f"give_back {position}") == "ok"
    return [text for _, text in found]


def churned(driver: Driver, prefix: str, lines: int, entries: list[str]) -> tuple[list[str], str]:
    """Lets it push, take and acknowledge until it has said so much, and kills it; what it has left by its own words, and
    what it would have pushed next."""
    print(f"churn {prefix}", file=driver.process.stdin, flush=True)
    left, pushed, said = list(entries), 0, 0
    for line in spoken(driver):
        what, text = line.split()
        if what == "pushed":
            assert text == f"{prefix}{pushed}", line
            pushed += 1
            left.append(text)
        else:
            assert what == "done", line
            left.remove(text)
        said += 1
        if said == lines:
            driver.process.send_signal(signal.SIGKILL)
    driver.process.communicate()
    return left, f"{prefix}{pushed}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_killed_user_of_a_queue_said_is_so(language):
    drivers = Drivers()
    seed = random.Random(2)
    with log_folder() as folder:
        place = Path(folder) / "queue"
        with drivers.start(language) as first:
            assert first.ask(f"create_queue {place} {BYTES}") == "ok"
        wanted, following = [], ""
        for kill in range(KILLS + 1):
            driver = drivers.start(language)
            opened(driver, place, "open_queue")
            found = in_queue(driver)
            # One step more may have been made, whose word did not leave it: a push, or an acknowledgement of one of the
            # three that it had taken.
            with_next = [*wanted, following]
            without_one = [wanted[:at] + wanted[at + 1 :] for at in range(min(3, len(wanted)))]
            assert found in (wanted, with_next, *without_one), (kill, found, wanted)
            wanted, following = churned(driver, f"{kill}-", seed.randrange(1, 60), found)
        subprocess.run([BINARY, "log", "verify", place], check=True, capture_output=True)
