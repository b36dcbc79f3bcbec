"""Reads that come from a mapping under a lease: every answer of every call is plain Linux's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Side

pytestmark = pytest.mark.heliostat

SOURCES = Path(__file__).parent / "cases"
PARTS = {
    "mapped_files": ["positioned", "sequential", "vectors", "descriptors", "passed", "movers", "changes"],
    "mapped_processes": ["children", "signals", "threads", "handover"],
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """The folder of the compiled programs."""
    made = tmp_path_factory.mktemp("files")
    for name in PARTS:
        subprocess.run(["cc", "-O1", "-w", "-pthread", "-o", made / name, SOURCES / f"{name}.c"], check=True)
    return made


def mapped(harness: Harness) -> int:
    """Files that were ever mapped in this harness."""
    lines = [line.split() for line in harness.call("metrics").splitlines() if "files_mapped" in line]
    return sum(int(float(line[-1])) for line in lines if not line[0].startswith("#"))


def printed(harness: Harness, side: Side, program: Path, part: str, folder: Path, **more) -> tuple:
    """Exit status and output."""
    run = harness.run(side, [program, part, folder / "file"], **more)
    return run.process.returncode, run.output(), run.errors()


@pytest.mark.parametrize(("name", "part"), [(name, part) for name in PARTS for part in PARTS[name]])
def test_a_mapped_file_answers_as_the_kernel_does(harness, programs, name, part, tmp_path):
    program = programs / name
    before = mapped(harness)
    assert printed(harness, Side.HELIOSTAT, program, part, tmp_path) == printed(harness, Side.PLAIN, program, part, tmp_path)
    assert mapped(harness) > before, "nothing was mapped, so nothing was tested"


def test_files_can_be_switched_off(harness, programs, tmp_path):
    program = programs / "mapped_files"
    before = mapped(harness)
    off = {"HELIOSTAT_FILES": "0"}
    plain = printed(harness, Side.PLAIN, program, "sequential", tmp_path)
    assert printed(harness, Side.HELIOSTAT, program, "sequential", tmp_path, env=off) == plain
    assert mapped(harness) == before


READS = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
for place in range(int(sys.argv[2])):
    assert os.pread(file, 64, place) == bytes(64)
"""


@pytest.mark.parametrize(("size", "reads", "expected"), [(1, 200, 0), (1, 300, 1), (4, 1200, 0), (4, 1400, 1)])
def test_a_file_is_mapped_when_it_was_read_often_enough_for_its_size(harness, tmp_path, size, reads, expected):
    path, before = tmp_path / "file", mapped(harness)
    path.write_bytes(bytes(size << 20))
    run = harness.run(Side.HELIOSTAT, [sys.executable, "-c", READS, path, reads])
    assert run.process.returncode == 0, run.errors()
    assert mapped(harness) - before == expected


def test_a_writer_is_seen_at_once_although_the_control_plane_is_killed(programs, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0" * 8192)
    with Harness() as harness:
        reader = harness.start(Side.HELIOSTAT, [programs / "mapped_files", "watch", path])
        ends = time.monotonic() + kernel_view.WATCHDOG_S
        while "mapped" not in reader.output():
            assert time.monotonic() < ends, reader.errors()
            time.sleep(0.01)
        assert mapped(harness) == 1
        os.kill(harness.control_plane(), signal.SIGKILL)
        with open(path, "r+b") as writer:
            writer.write(b"1" * 8192)
        written = time.monotonic_ns()
        assert reader.wait(60) == 0, reader.output()
        seen = int(reader.output().split()[-1])
        # The reader tells when it last read the old bytes: never after the write had returned.
        assert seen <= written

