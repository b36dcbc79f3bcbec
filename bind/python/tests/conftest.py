"""Tests of the installed package; each run has a control plane of its own.

Run by `verify/python/test_wheel.py` in a fresh virtual environment, or by hand with any Python that
has the wheel: `python -m pytest bind/python/tests`.
"""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# Before the package is imported and asks where its control plane is.
_HOUSE = tempfile.TemporaryDirectory(prefix="helio-py-")
os.environ["XDG_RUNTIME_DIR"] = _HOUSE.name
os.environ["HELIOSTAT_SOCKET"] = f"{_HOUSE.name}/control.sock"

# userfaultfd(2) with UFFD_USER_MODE_ONLY beside a flag that is none: fails in any case (source: asm/unistd_64.h).
_USERFAULTFD, _NO_SUCH_FLAGS = 323, 1 | 1 << 30
_numbers = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def harness():
    """Ends the control plane that the tests started."""
    import heliostat._binaries as binaries

    yield Path(_HOUSE.name)
    subprocess.run([binaries.program(), "stop"], capture_output=True, timeout=30)
    _HOUSE.cleanup()


@pytest.fixture(scope="session")
def tracks() -> bool:
    """Whether the kernel tells which pages were written; not behind the default filters of containers."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_USERFAULTFD, _NO_SUCH_FLAGS)
    return ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS)


@pytest.fixture
def name():
    """A region's name that no other test has."""
    return f"test/{os.getpid()}-{next(_numbers)}"


@pytest.fixture(scope="session")
def memory():
    """This process's access to memory regions."""
    import heliostat

    return heliostat.memory.open()


@pytest.fixture
def other():
    """Starts Python programs in processes of their own; what is left at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(text: str, *words: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", text, *map(str, words)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen(command, text=True, **pipes))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
