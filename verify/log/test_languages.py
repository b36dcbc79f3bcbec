"""One set of cases of logs and queues, through Rust, C and Python: each has to answer the same.

A driver (`src/main.rs`, `driver.c`, `driver.py`) takes a command a line and answers a line: `ok` and what
there is to say, or `error` and a word for the kind of error. Positions are written AT:SEQUENCE.

    create PLACE BYTES   open PLACE   create_queue PLACE BYTES   open_queue PLACE   close
    append TEXT          returns at once                append_sync TEXT   waits until it is durable
    append_then TEXT     hears by a callback            append_heard TEXT  by the descriptor (asyncio)
    append_long BYTES    wait POSITION   sync   checkpoint   trim POSITION   range   read [POSITION]
    beside PLACE         all entries, by a reader that takes no lock
    push TEXT   push_then TEXT   wait POSITION   pop
    acknowledge POSITION   acknowledge_sync POSITION   give_back POSITION
    flood PREFIX         appends for ever, and says each number that is durable
    churn PREFIX         pushes, takes and acknowledges for ever, and says what is durable
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest
from drivers import LANGUAGES, Driver, Drivers, log_folder

BYTES = 64 << 10
NOBODY = 65534


@pytest.fixture(scope="module")
def drivers():
    return Drivers()


@pytest.fixture
def folder():
    with log_folder() as name:
        yield Path(name)


@pytest.fixture(params=LANGUAGES)
def driver(request, drivers):
    with drivers.start(request.param) as one:
        yield one


def asks(driver: Driver, *steps: tuple[str, str]) -> None:
    """Each command has its answer."""
    for command, wanted in steps:
        assert driver.ask(command) == wanted, command


def entries(driver: Driver, command: str, count: int, length: int) -> list[str]:
    """Positions of so many entries."""
    answers = [driver.ask(f"{command} {'x' * length}") for _ in range(count)]
    assert all(answer.startswith("ok ") for answer in answers), answers
    return [answer.removeprefix("ok ") for answer in answers]


def test_entries_are_appended_in_every_way_and_read_in_order(driver, folder):
    place = folder / "log"
    asks(
        driver,
        (f"create {place} {BYTES}", "ok"),
        ("range", "ok 0:0 0:0"),
        ("append_sync one", "ok 0:0"),
        ("append two", "ok 40:1"),
        ("wait 40:1", "ok"),
        ("append_then three", "ok 80:2"),
        ("append_heard four", "ok 120:3"),
        ("read", "ok one,two,three,four"),
        ("read 80:2", "ok three,four"),
        ("range", "ok 0:0 160:4"),
        ("append five", "ok 160:4"),
        ("sync", "ok"),
        (f"beside {place}", "ok one,two,three,four,five"),
        ("close", "ok"),
        (f"open {place}", "ok"),
        ("read", "ok one,two,three,four,five"),
    )


def test_what_is_trimmed_is_gone_and_stays_so(driver, folder):
    place = folder / "log"
    asks(
        driver,
        (f"create {place} {BYTES}", "ok"),
        ("append_sync one", "ok 0:0"),
        ("append_sync two", "ok 40:1"),
        ("append_sync three", "ok 80:2"),
        ("trim 80:2", "ok"),
        ("checkpoint", "ok"),
        ("read", "ok three"),
        ("trim 40:1", "error stale"),
        ("read 0:0", "error stale"),
        ("trim 88:2", "error invalid"),
        ("trim 400:9", "error invalid"),
        ("wait 4000:90", "error invalid"),
        (f"beside {place}", "ok three"),
        ("close", "ok"),
        (f"open {place}", "ok"),
        ("range", "ok 80:2 120:3"),
        ("close", "ok"),
        ("append late", "error ended"),
    )


def test_a_full_log_keeps_what_it_has_and_lives_on_when_trimmed(driver, folder):
    place = folder / "log"
    assert driver.ask(f"create {place} {BYTES}") == "ok"
    positions = []
    while (answer := driver.ask("append_long 1000")) != "error full":
        positions.append(answer.removeprefix("ok "))
    assert len(positions) > 50
    asks(driver, ("append_long 1000", "error full"), ("close", "ok"), (f"open {place}", "ok"))
    assert len(driver.ask("read").split(",")) == len(positions)
    assert driver.ask(f"trim {positions[9]}") == "ok"
    assert driver.ask("append_long 1000").startswith("ok ")
    assert len(driver.ask("read").split(",")) == len(positions) - 9 + 1
    assert driver.ask(f"append_long {BYTES}") == "error too_large"


def test_a_place_that_is_none_is_told_apart(driver, folder):
    kept = folder / "kept"
    asks(driver, (f"create {kept} {BYTES}", "ok"), ("append_sync kept", "ok 0:0"), ("close", "ok"))
    (folder / "text").write_bytes(b"text" * 20_000)
    (folder / "short").write_bytes(bytes(8192))
    longer = folder / "longer"
    longer.write_bytes(kept.read_bytes() + bytes(4096))
    asks(
        driver,
        (f"open {folder / 'nowhere'}", "error not_found"),
        (f"create {folder / 'no/where'} {BYTES}", "error not_found"),
        (f"open {folder / 'text'}", "error foreign"),
        (f"beside {folder / 'text'}", "error foreign"),
        (f"open {folder / 'short'}", "error wrong_device"),
        (f"open {longer}", "error wrong_device"),
        (f"open {folder}", "error wrong_device"),
        (f"create {folder / 'small'} 4096", "error wrong_device"),
        (f"create {kept} {BYTES}", "error taken"),
        (f"open {kept}", "ok"),
        ("read", "ok kept"),
    )


def test_a_later_format_and_a_damaged_header_are_refused(driver, folder, crc32c):
    kept = folder / "kept"
    asks(driver, (f"create {kept} {BYTES}", "ok"), ("close", "ok"))
    later, damaged = bytearray(kept.read_bytes()), bytearray(kept.read_bytes())
    mixed = bytearray(kept.read_bytes())
    for block in (0, 4096):
        later[block + 8] = 2
        later[block + 508 : block + 512] = struct.pack("<I", crc32c(later[block : block + 508]))
        damaged[block + 40] ^= 1
    # The other block alone would be a log.
    mixed[:512] = later[:512]
    (folder / "mixed").write_bytes(mixed)
    (folder / "later").write_bytes(later)
    (folder / "damaged").write_bytes(damaged)
    asks(
        driver,
        (f"open {folder / 'later'}", "error unsupported"),
        (f"beside {folder / 'later'}", "error unsupported"),
        (f"open {folder / 'mixed'}", "error unsupported"),
        (f"open {folder / 'damaged'}", "error corrupt"),
    )


def test_a_damaged_entry_is_reported_and_not_passed_over(driver, folder):
    place = folder / "log"
    asks(driver, (f"create {place} {BYTES}", "ok"))
    positions = entries(driver, "append_sync", 5, 100)
    asks(driver, ("close", "ok"))
    at = int(positions[2].split(":")[0])
    with place.open("r+b") as file:
        file.seek(8192 + at + 32)
        file.write(b"?")
    asks(driver, (f"beside {place}", "error corrupt"), (f"open {place}", "ok"), ("read", "error corrupt"))
    assert driver.ask(f"read {positions[3]}").count("x" * 100) == 2


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_log_has_one_writer_and_any_number_of_readers(language, drivers, folder):
    place = folder / "log"
    with drivers.start(language) as writer, drivers.start(language) as other:
        asks(writer, (f"create {place} {BYTES}", "ok"), ("append_sync one", "ok 0:0"))
        asks(other, (f"open {place}", "error in_use"), (f"beside {place}", "ok one"))
        asks(writer, ("append_sync two", "ok 40:1"))
        asks(other, (f"beside {place}", "ok one,two"))
        asks(writer, ("close", "ok"))
        asks(other, (f"open {place}", "ok"), ("read", "ok one,two"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_rights_that_are_missing_are_missing(language, drivers, folder):
    place, closed = folder / "log", folder / "closed"
    with drivers.start(language) as owner:
        asks(owner, (f"create {place} {BYTES}", "ok"), ("append_sync one", "ok 0:0"), ("close", "ok"))
    place.chmod(0o644)
    shutil.copy(place, closed)
    closed.chmod(0o600)
    folder.chmod(0o755)
    with drivers.start(language, user=NOBODY) as other:
        asks(
            other,
            (f"open {place}", "error denied"),
            (f"beside {place}", "ok one"),
            (f"beside {closed}", "error denied"),
            (f"create {folder / 'new'} {BYTES}", "error denied"),
        )


def test_a_queue_hands_out_in_order_and_again_what_was_not_acknowledged(driver, folder):
    place = folder / "queue"
    asks(
        driver,
        (f"create_queue {place} {BYTES}", "ok"),
        ("pop", "ok none"),
        ("push one", "ok 0:0"),
        ("wait 0:0", "ok"),
        ("wait 4000:90", "error invalid"),
        ("push_then two", "ok 40:1"),
        ("push three", "ok 80:2"),
        ("pop", "ok 0:0 one"),
        ("pop", "ok 40:1 two"),
        ("give_back 0:0", "ok"),
        ("pop", "ok 0:0 one"),
        ("acknowledge 40:1", "ok"),
        ("acknowledge 40:1", "error invalid"),
        ("give_back 80:2", "error invalid"),
        ("close", "ok"),
        (f"open_queue {place}", "ok"),
        ("pop", "ok 0:0 one"),
        ("pop", "ok 80:2 three"),
        ("pop", "ok none"),
        ("acknowledge_sync 0:0", "ok"),
        ("acknowledge_sync 80:2", "ok"),
        ("close", "ok"),
        (f"open_queue {place}", "ok"),
        ("pop", "ok none"),
    )


@pytest.mark.parametrize("language", [language for language in LANGUAGES if language != "c"])
def test_a_queue_is_not_trimmed_where_there_is_a_call_for_it(language, drivers, folder):
    with drivers.start(language) as one:
        asks(
            one,
            (f"create_queue {folder / 'queue'} {BYTES}", "ok"),
            ("push one", "ok 0:0"),
            ("push two", "ok 40:1"),
            ("trim 40:1", "error unsupported"),
            ("pop", "ok 0:0 one"),
            ("pop", "ok 40:1 two"),
        )
