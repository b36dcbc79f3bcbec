"""Ways out of a program after an fdatasync(2) that only a C program knows (durable_raw_ways.c).

Raw instructions, objects of the kernel that two processes have, signals, locks that a mapping holds, what a
watcher sees of a read: nothing is seen before the device has answered. And what could be seen without a call
of the program's has its flushes waited for, with a reason.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import durable_stub
import kernel_view
import pytest
from heliostat_run import Harness, Program, Side

SOURCE = Path(__file__).with_name("durable_raw_ways.c")
DELAY = 0.15
# Of what is done before the flush, the reason that `heliostat explain` names.
REASONS = {"code": "Uncaught", "code_later": "Uncaught", "ring": "Ring", "aio": "Ring"}
# That one is ended by a signal, as it would be plainly.
ENDED = {"seen_end_by_mask"}

pytestmark = pytest.mark.heliostat


def names() -> list[str]:
    """The ways that the source lists, by their names."""
    rows = SOURCE.read_text().split('{"')[1:]
    return [row.split('"')[0] for row in rows]


@pytest.fixture(scope="module")
def stub() -> Path:
    return durable_stub.build()


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    built = tmp_path_factory.mktemp("raw") / "durable_raw_ways"
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-o", built, SOURCE], check=True, timeout=120)
    return built


def start(harness: Harness, stub: Path, program: Path, way: str, folder: Path, **more) -> Program:
    told = {"HELIOSTAT_STUB": stub, "HELIOSTAT_DURABLE": "*.durable", "HELIOSTAT_TEST_FLUSH_DELAY_MS": int(DELAY * 1000)}
    environment = {name: str(value) for name, value in told.items()}
    return harness.start(Side.HELIOSTAT, [program, way, folder / "log.durable", folder], env=environment, **more)


def flush_of(folder: Path) -> tuple[float, float]:
    """When the flush returned, and how long it took, as the program has noted behind its first line."""
    ended, took = (folder / "log.durable").read_text(errors="replace").splitlines()[1].split()
    return float(ended), float(took)


def seen_in(folder: Path) -> list[float]:
    seen = folder / "seen"
    return [float(line) for line in seen.read_text().split()] if seen.exists() else []


@pytest.mark.parametrize("way", [name for name in names() if name.startswith(("seen", "order"))])
def test_nothing_is_seen_before_the_flush_has_ended(harness, stub, program, tmp_path, way):
    started = start(harness, stub, program, way, tmp_path)
    assert (started.wait() == 0) != (way in ENDED), started.errors()
    kernel_view.wait_until(lambda: seen_in(tmp_path), 30, "what was done")
    (ended, took), [seen] = flush_of(tmp_path), seen_in(tmp_path)
    assert took < DELAY, "the flush was waited for"
    # The device's time began when the flush was asked for at the earliest.
    assert seen - ended >= DELAY - took, (seen - ended, took)


@pytest.mark.parametrize("way", [name for name in names() if name.startswith("waits")])
def test_what_is_seen_without_a_call_has_its_flushes_waited_for(harness, stub, program, tmp_path, way):
    reader, writer = os.pipe()
    with os.fdopen(reader) as source, os.fdopen(writer, "w"):
        started = start(harness, stub, program, way, tmp_path, stdin=source)
        kernel_view.wait_until(lambda: (tmp_path / "log.durable").exists() and "." in (tmp_path / "log.durable").read_text(), 60, "the flush")
        explained = json.loads(harness.call("explain", str(started.pid), "--json"))
    assert started.wait() == 0, started.errors()
    assert explained["unheld_reasons"] == {REASONS.get(way.removeprefix("waits_"), "Shared"): 1}
