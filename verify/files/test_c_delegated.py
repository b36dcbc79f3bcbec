"""Delegated operations from C: the example, plainly and under Valgrind, with a live control plane."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, ROOT, Harness, Side

pytestmark = pytest.mark.heliostat
BINDING = ROOT / "bind/c"
BYTES = 10_000_001


@pytest.fixture(scope="module")
def example(tmp_path_factory) -> Path:
    """Compiled against header and library."""
    return compiled("delegated", tmp_path_factory)


def compiled(name: str, tmp_path_factory) -> Path:
    """An example by its name."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile the program with")
    program = tmp_path_factory.mktemp("c") / name
    library = BINARY.parent / "libheliostat_c.a"
    words = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-g", "-Wall", "-Wextra", "-Werror", "-I", BINDING / "include"]
    words += [BINDING / f"examples/{name}.c", library, "-lpthread", "-ldl", "-lm", "-o", program]
    built = subprocess.run(words, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return program


@pytest.fixture
def sample(tmp_path) -> Iterator[tuple[Path, str]]:
    """A file, and what the example says of it. On overlay, as in containers, nothing is cached."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if kind_of(tmp_path) == "overlayfs" else tmp_path) as folder:
        yield filled(Path(folder))


def kind_of(folder: Path) -> str:
    """The file system's name, as stat(1) has it."""
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()


def filled(tmp_path: Path) -> tuple[Path, str]:
    path, content = tmp_path / "sample", bytes(at * 7 % 251 for at in range(BYTES))
    path.write_bytes(content)
    (tmp_path / "sample.log").touch()
    os.utime(path, (0, 0))
    return path, f"{BYTES} bytes, sum {sum(content)};"


@pytest.mark.parametrize("through", [[], ["valgrind", "-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]])
def test_a_c_program_reads_in_batches_and_appends(example, sample, through):
    if through and shutil.which(through[0]) is None:
        pytest.skip(f"no {through[0]}")
    path, said = sample
    with Harness() as harness:
        harness.call("run", "--", "/bin/true")
        for _ in range(2):
            program = harness.run(Side.PLAIN, [*through, example, path], seconds=120)
            assert program.process.returncode == 0, program.errors()
            assert program.output().startswith(said), program.output()
        counted = harness.status()["delegated"]
    assert path.with_suffix(".log").read_text() == "added up\n" * 2
    assert counted["operations_read"] >= 2 * BYTES // 65536 and counted["failed"] == 0
    assert counted["transfers_cached"] > 0 and counted["transfers_kernel"] == 2, counted


def test_a_c_program_makes_replaces_and_lists_names(tmp_path_factory, tmp_path):
    program_path = compiled("names", tmp_path_factory)
    with Harness() as harness:
        harness.call("run", "--", "/bin/true")
        program = harness.run(Side.PLAIN, [program_path, tmp_path], seconds=60)
        assert program.process.returncode == 0, program.errors()
        again = harness.run(Side.PLAIN, [program_path, tmp_path], seconds=60)
        counted = harness.status()["delegated"]
        told, complaint = program.output(), again.errors()
    assert told.split() == ["current"]
    assert (tmp_path / "newest").read_text() == "version 3\n"
    assert [path.name for path in (tmp_path / "versions").iterdir()] == ["current"]
    assert again.process.returncode == 1 and "File exists" in complaint, complaint
    assert counted["operations_rename"] == 3 and counted["operations_lock"] == 6, counted


def test_what_the_kernel_refuses_is_refused_in_words(example, tmp_path):
    path = tmp_path / "without-a-log"
    path.write_bytes(b"x" * 100)
    with Harness() as harness:
        harness.call("run", "--", "/bin/true")
        program = harness.run(Side.PLAIN, [example, path], seconds=60)
        assert program.process.returncode == 1
        assert "heliostat_delegated_open" in program.errors() and "No such file" in program.errors(), program.errors()


def test_a_program_that_reads_by_its_own_ring_keeps_its_mapped_files(tmp_path):
    """`io_uring_setup` by way of libc would make it native (bind/posix/src/spawn.rs)."""
    if kind_of(tmp_path) == "overlayfs":
        pytest.skip("files on overlay are neither leased nor always read past the caches")
    direct, cached = tmp_path / "direct", tmp_path / "cached"
    direct.write_bytes(bytes(1 << 20))
    cached.write_bytes(bytes(1 << 20))
    for path in (direct, cached):
        os.utime(path, (0, 0))
    with Harness() as harness:
        words = [sys.executable, ROOT / "verify/files/own_ring.py", BINARY.parent / "libheliostat_c.so", direct, cached]
        program = harness.run(Side.HELIOSTAT, words, seconds=60, env={"HELIOSTAT_BIN": str(BINARY)})
        assert program.process.returncode == 0, program.errors()
        said = program.output()
        # Where the program can have no ring the server loop reads for it, past the caches as well.
        way = 3 if kernel_view.refuses_rings() else 5
        assert said.startswith(f"way {way} result 4096\n"), said
        assert "files mapped: 1" in said, said


def test_two_processes_of_a_c_program_read_one_file_in_a_joint_session(tmp_path_factory, sample):
    program_path = compiled("joint", tmp_path_factory)
    path, said = sample
    with Harness() as harness:
        harness.call("run", "--", "/bin/true")
        program = harness.run(Side.PLAIN, [program_path, path], seconds=60)
        assert program.process.returncode == 0, program.errors()
        assert program.output().strip() == said.rstrip(";"), program.output()
