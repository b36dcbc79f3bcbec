"""Logs and queues in areas of a store, by their names, by both ways, through Rust, C and Python."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from drivers import LANGUAGES, Driver, Drivers, log_folder
from heliostat_run import BINARY, Harness

BYTES = 4 << 20
# Who drives the device: programs by themselves, or a server loop.
WAYS = ("all", "none")

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def drivers():
    return Drivers()


@pytest.fixture(params=WAYS)
def store(request):
    """A control plane with a store, whose areas are reached by one way."""
    with log_folder() as folder:
        path = Path(folder) / "store"
        subprocess.run([BINARY, "store", "init", path, "--size", "64M"], check=True, capture_output=True)
        configuration = f'[store]\npath = "{path}"\ndirect = "{request.param}"\n'
        with Harness(configuration=configuration) as harness:
            yield harness


def asks(driver: Driver, *steps: tuple[str, str]) -> None:
    """Each command has its answer."""
    for command, wanted in steps:
        assert driver.ask(command) == wanted, command


def test_a_log_lies_in_an_area_and_has_one_writer(store, drivers):
    surroundings = store.environment()
    for language in LANGUAGES:
        place = f"/store/{language}/log"
        with drivers.start(language, surroundings=surroundings) as writer:
            asks(
                writer,
                (f"open {place}", "error not_found"),
                (f"create {place} {BYTES}", "ok"),
                ("append_sync one", "ok 0:0"),
                ("append two", "ok 40:1"),
                ("append_then three", "ok 80:2"),
                ("append_heard four", "ok 120:3"),
                ("read", "ok one,two,three,four"),
            )
            with drivers.start(language, surroundings=surroundings) as other:
                asks(other, (f"open {place}", "error in_use"), (f"create {place} {BYTES}", "error in_use"))
                asks(other, (f"beside {place}", "ok one,two,three,four"))
            asks(writer, ("trim 80:2", "ok"), ("close", "ok"))
        with drivers.start(language, surroundings=surroundings) as again:
            asks(again, (f"create {place} {BYTES}", "error taken"), (f"open {place}", "ok"), ("read", "ok three,four"))
        shown = subprocess.run([BINARY, "log", "cat", "--json", place], env=surroundings, capture_output=True, text=True, check=True)
        assert [json.loads(line)["text"] for line in shown.stdout.splitlines()] == ["three", "four"]


def test_an_area_that_was_made_for_a_log_takes_one_and_another_does_not(store, drivers):
    store.call("area", "create", "made", "--size", "4M", "--kind", "log")
    store.call("area", "create", "bytes", "--size", "4M")
    for language in LANGUAGES:
        with drivers.start(language, surroundings=store.environment()) as driver:
            asks(driver, (f"create /store/bytes {BYTES}", "error taken"), ("open /store/bytes", "error foreign"))
            asks(driver, ("open /store/no//name", "error invalid"))
    with drivers.start("rust", surroundings=store.environment()) as driver:
        asks(driver, ("open /store/made", "error foreign"), (f"create /store/made {BYTES}", "ok"), ("append_sync one", "ok 0:0"))


def test_a_queue_lies_in_an_area(store, drivers):
    for language in LANGUAGES:
        place = f"/store/{language}/queue"
        with drivers.start(language, surroundings=store.environment()) as driver:
            asks(
                driver,
                (f"create_queue {place} {BYTES}", "ok"),
                ("push one", "ok 0:0"),
                ("pop", "ok 0:0 one"),
                ("acknowledge_sync 0:0", "ok"),
                ("close", "ok"),
                (f"open_queue {place}", "ok"),
                ("pop", "ok none"),
            )


def test_a_killed_writer_leaves_its_area_to_the_next(store, drivers):
    with drivers.start("rust", surroundings=store.environment()) as first:
        asks(first, (f"create /store/killed {BYTES}", "ok"), ("append_sync one", "ok 0:0"))
        first.process.kill()
        first.process.wait()
        with drivers.start("c", surroundings=store.environment()) as next_one:
            while (answer := next_one.ask("open /store/killed")) != "ok":
                assert answer == "error in_use"
            asks(next_one, ("read", "ok one"))
        first.close = lambda: None
