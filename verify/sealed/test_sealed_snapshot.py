"""Snapshot regions on one side or both of which a sealed program is: by name and right, and no others."""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

import kernel_view
import pytest
from c_programs import BINDING, built, run_sealed
from heliostat_run import BINARY, Harness, Program, Side

pytestmark = pytest.mark.heliostat
PUBLISHES, READS = ["--snapshot", "c/*:publish"], ["--snapshot", "c/cells:attach"]


@pytest.fixture(scope="module")
def named(tmp_path_factory) -> Path:
    """The example of the C library: a producer and a consumer of a named region."""
    return built(BINDING / "examples/named.c", tmp_path_factory.mktemp("c"))


def start(harness: Harness, named: Path, role: str, flags: list | None, **more) -> Program:
    """A role of the example; plain where there are no flags."""
    seal = [] if flags is None else [str(BINARY), "run", "--sealed", "--grant", named, *flags, "--"]
    return harness.start(Side.PLAIN, [*seal, named, role, "c/cells"], name=role, **more)


def says(program: Program, text: str) -> None:
    """Waits until it has said so."""

    def said() -> bool:
        assert text in program.output() or program.process.poll() in (None, 0), program.errors()
        return text in program.output()

    kernel_view.wait_until(said, 60, text)


def producer(harness: Harness, named: Path, flags: list | None) -> tuple[Program, int]:
    """A producer, and the pipe whose end ends it."""
    read, write = os.pipe()
    program = start(harness, named, "produce", flags, stdin=read)
    os.close(read)
    says(program, "named")
    return program, write


@pytest.mark.parametrize(("produces", "consumes"), [(None, READS), (PUBLISHES, None), (PUBLISHES, READS)], ids=["reads", "publishes", "both"])
def test_a_sealed_side_reads_or_publishes_whole_versions(harness, named, produces, consumes):
    first, pipe = producer(harness, named, produces)
    consumer = start(harness, named, "consume", consumes)
    says(consumer, "read 20")
    os.close(pipe)
    assert first.wait(60) == 0, first.errors()
    assert consumer.wait(60) == 0, consumer.errors()
    assert "ended" in consumer.output()


def test_a_sealed_producer_that_is_killed_ends_its_region(harness, named):
    first, pipe = producer(harness, named, PUBLISHES)
    consumer = start(harness, named, "consume", None)
    says(consumer, "read 20")
    first.kill()
    assert consumer.wait(60) == 0, consumer.errors()
    os.close(pipe)
    kernel_view.wait_until(lambda: harness.status()["regions"] == [], 60, "the region is gone")


def refused(harness: Harness, named: Path, role: str, flags: list) -> str:
    """What people are told of a role that is refused."""
    done = run_sealed(harness, ["--verbose", "--grant", named, *flags], [named, role, "c/cells"], stdin=subprocess.DEVNULL)
    assert done.returncode == 1, (done.stdout, done.stderr)
    return done.stderr


@pytest.mark.parametrize("flags", [[], PUBLISHES, ["--snapshot", "c/cell:attach"], ["--snapshot", "c/cells/*:attach"],
                                   ["--snapshot", f"c/cells:attach:{os.geteuid() + 1}"]], ids=str)  # fmt: skip
def test_another_name_right_or_user_is_no_right_to_read(harness, named, flags):
    first, pipe = producer(harness, named, None)
    told = refused(harness, named, "consume", flags)
    assert "to attach to /snapshot/c/cells, which --snapshot c/cells:attach would grant" in told, told
    os.close(pipe)
    assert first.wait(60) == 0


@pytest.mark.parametrize("flags", [[], READS, ["--snapshot", "cells:publish"]], ids=str)
def test_another_name_or_right_is_no_right_to_publish(harness, named, flags):
    told = refused(harness, named, "produce", flags)
    assert "to publish /snapshot/c/cells, which --snapshot c/cells:publish would grant" in told, told
    assert harness.status()["regions"] == []


def test_a_traced_run_writes_the_regions_that_it_used(harness, named, tmp_path):
    first, pipe = producer(harness, named, None)
    policy = tmp_path / "policy.toml"
    consumer = start(harness, named, "consume", ["--trace-policy", policy])
    says(consumer, "read 20")
    os.close(pipe)
    assert (first.wait(60), consumer.wait(60)) == (0, 0), consumer.errors()
    assert tomllib.loads(policy.read_text())["snapshot"] == ["c/cells:attach"], policy.read_text()


def test_more_regions_than_a_connection_is_told_are_refused_at_the_start(harness, named):
    flags = [word for n in range(65) for word in ("--snapshot", f"r{n}:attach")]
    done = run_sealed(harness, flags, ["true"])
    assert done.returncode == 125 and "65 regions, locks and functions are granted, at most 64" in done.stderr, done.stderr
    wrong = run_sealed(harness, ["--snapshot", "r:read"], ["true"])
    assert wrong.returncode == 125 and "write NAME:publish or NAME:attach" in wrong.stderr, wrong.stderr
