"""Regions by name from C: two C programs and a live control plane."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, ROOT, Harness, Program, Side
from regions import start_control

pytestmark = pytest.mark.heliostat
BINDING = ROOT / "bind/c"


@pytest.fixture(scope="module")
def harness():
    """A control plane that stays while no program runs."""
    with Harness(plain=True) as one:
        start_control(one)
        yield one


@pytest.fixture(scope="module")
def named(harness: Harness) -> Path:
    """The example, compiled against header and library."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile the program with")
    program = harness.folder / "named"
    library = BINARY.parent / "libheliostat_c.a"
    words = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", BINDING / "include"]
    words += [BINDING / "examples/named.c", library, "-lpthread", "-ldl", "-lm", "-o", program]
    built = subprocess.run(words, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return program


def says(program: Program, text: str) -> None:
    """Waits until it has said so."""

    def said() -> bool:
        assert text in program.output() or program.process.poll() in (None, 0), program.errors()
        return text in program.output()

    kernel_view.wait_until(said, 60, text)


def producer(harness: Harness, named: Path) -> tuple[Program, int]:
    """A producer of `c/cells`, and the pipe whose end ends it."""
    read, write = os.pipe()
    program = harness.start(Side.PLAIN, [named, "produce", "c/cells"], name="produce", stdin=read)
    os.close(read)
    says(program, "named")
    return program, write


def test_a_c_program_attaches_by_name_reads_whole_versions_and_hears_of_the_end(harness, named):
    for generation in (1, 2):
        first, pipe = producer(harness, named)
        consumer = harness.start(Side.PLAIN, [named, "consume", "c/cells"], name="consume")
        says(consumer, "read 20")
        listed = {one["name"]: one for one in harness.status()["regions"]}
        assert "/snapshot/c/cells" in listed and len(listed["/snapshot/c/cells"]["consumers"]) == 1
        assert f"attached 524288 generation {generation}: 65536 doubles, all alike" in consumer.output()
        os.close(pipe)
        assert first.wait(60) == 0, first.errors()
        assert consumer.wait(60) == 0, consumer.errors()
        assert "ended" in consumer.output()


def test_a_name_that_nobody_has_and_one_that_somebody_has_are_refused_in_c(harness, named):
    none = harness.run(Side.PLAIN, [named, "consume", "c/nothing"], seconds=60)
    assert none.process.returncode == 1 and "heliostat_attach(" in none.errors()
    first, pipe = producer(harness, named)
    second = harness.run(Side.PLAIN, [named, "produce", "c/cells"], seconds=60)
    assert second.process.returncode == 1 and "a living producer has that name" in second.errors()
    os.close(pipe)
    assert first.wait(60) == 0
