"""Mounts of a control plane's names, and a program that has some: what the tests of mounts start with."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, ROOT, Harness, Program, Side

HERE = Path(__file__).parent
BINDING = ROOT / "bind/c"
# nobody: fusermount3 wants to know a user's name.
ORDINARY = 65534


def why_not(as_user: bool = False) -> str | None:
    """None where a mount can be made, else what is in the way."""
    if not Path("/dev/fuse").exists():
        return "no /dev/fuse"
    if as_user and shutil.which("fusermount3") is None:
        return "no fusermount3"
    return None if os.geteuid() == 0 or shutil.which("fusermount3") else "neither root nor fusermount3"


@contextlib.contextmanager
def mounted(harness: Harness, *before: str, options: tuple = (), folder: Path | None = None):
    """A folder with the names, until the block ends."""
    folder = folder or Path(tempfile.mkdtemp(prefix="helio-mount-"))
    words = [*before, str(BINARY), "mount", *options, str(folder)]
    done = subprocess.run(words, env=harness.environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], capture_output=True)
        folder.rmdir()


def mount_type(folder: Path) -> str | None:
    """The kind of file system that is mounted at a folder, as the kernel lists it; None for none."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if place == str(folder):
            return kind
    return None


def servers(folder: Path) -> list[int]:
    """The processes that serve a mount, guards left out."""
    found = []
    for pid in kernel_view.processes():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if "mount" in words and str(folder) in words and "--foreground" in words:
                found.append(pid)
    return found


@pytest.fixture(scope="session")
def holder_program(tmp_path_factory) -> Path:
    """The program that has names, where every user may run it."""
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to compile the program with")
    folder = Path(tempfile.mkdtemp(prefix="helio-holder-"))
    folder.chmod(0o755)
    program = folder / "holder"
    words = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", BINDING / "include", HERE / "holder.c"]
    words += [BINARY.parent / "libheliostat_c.a", "-lpthread", "-ldl", "-lm", "-o", program]
    built = subprocess.run(words, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    yield program
    shutil.rmtree(folder)


@dataclass
class Holder:
    """A running one."""

    program: Program
    pipe: int
    said: int = 0

    @classmethod
    def start(cls, harness: Harness, path: Path, *before: str) -> Holder:
        read, write = os.pipe()
        program = harness.start(Side.PLAIN, [*before, path], name="holder", stdin=read)
        os.close(read)
        return cls(program, write)

    def tell(self, line: str) -> str:
        """What it answers."""
        os.write(self.pipe, (line + "\n").encode())
        self.said += 1

        def answered() -> bool:
            assert self.program.process.poll() is None, self.program.errors()
            return self.program.output().count("\n") >= self.said

        kernel_view.wait_until(answered, 60, line)
        return self.program.output().splitlines()[self.said - 1]

    def begin(self, line: str) -> None:
        """Tells what is answered when the next line comes."""
        os.write(self.pipe, (line + "\n").encode())

    def kill(self) -> None:
        self.program.kill()
        self.program.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.pipe)
