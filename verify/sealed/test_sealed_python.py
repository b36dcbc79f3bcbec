"""Python's own tests of what it does with files and processes: the same ones pass, sealed too.

They come with Debian's libpythonVERSION-testsuite and run in Debian's Python. With --long all of
each module; otherwise those that a few seconds do for.
"""

from __future__ import annotations

import subprocess

import pytest
from ways import HERE, Case, Outcome, Way, difference, outcome

RUNNER = HERE / "sources/outcomes.py"
# Module and the patterns of a short run; all of it with --long.
MODULES = {
    "test_fcntl": (),
    "test_mmap": (),
    "test_tempfile": (),
    "test_posix": (),
    "test_shutil": ("TestRmTree", "TestCopyTree", "TestMove"),
    "test_pathlib": ("PosixPathTest",),
    "test_os": ("FileTests", "WalkTests", "TestScandir", "MakedirTests", "StatAttribute", "LinkTests", "TestSendfile"),
    "test_io": ("CIOTest", "CBufferedReaderTest"),
}
# What the modules connect to and listen at, by themselves.
FLAGS = ("--listen", "127.0.0.1:*", "--connect", "127.0.0.1:*")
# The runner, and terminals.
GRANTS = (f"{RUNNER}:ro", "/dev/ptmx:rw", "/dev/pts:rw")
# Tests that end otherwise when sealed, and why.
DIFFER = {
    "TestFcntl.test_fcntl_64_bit": "F_NOTIFY is refused, as leases are",
    "PosixTester.test_get_and_set_scheduler_and_param": "asks about its parent, who is outside",
    "PosixGroupsTester.test_initgroups": "groups that a process has already may be set again",
    "PosixGroupsTester.test_setgroups": "groups that a process has already may be set again",
}
references: dict[str, Outcome] = {}


def compare(harness, module: str, patterns: tuple, way: Way, seconds: float) -> None:
    """The list of tests and how each ended, against the plain run's."""
    case = Case(("/usr/bin/python3", RUNNER, f"test.{module}", *patterns), GRANTS, FLAGS)
    key = module + str(patterns)
    if key not in references:
        references[key] = outcome(harness, Way.PLAIN, case, module, seconds)
    expected, found = references[key], outcome(harness, way, case, module, seconds)
    assert len(expected.output) > 2, expected
    expected.tree = found.tree = []
    if way is Way.SEALED:
        expected, found = comparable(expected), comparable(found)
    assert not difference(expected, found, way), "\n" + difference(expected, found, way)


def comparable(one: Outcome) -> Outcome:
    """Without the tests that are known to differ; the status counts failures, these too."""
    known = [line for line in one.output if any(f".{name} " in line for name in DIFFER)]
    status = 0 if known else one.status
    return Outcome(status, [line for line in one.output if line not in known])


finds = "import importlib.util, sys; sys.exit(not importlib.util.find_spec('test.test_os'))"
has_tests = subprocess.run(["/usr/bin/python3", "-c", finds], stderr=subprocess.DEVNULL).returncode == 0
pytestmark = pytest.mark.skipif(not has_tests, reason="this release has no package of its Python's tests")
every_way = pytest.mark.parametrize("way", [Way.UNSEALED, Way.SEALED], ids=lambda way: way.value)


@pytest.mark.heliostat
@every_way
@pytest.mark.parametrize("module", MODULES)
def test_pythons_short_tests_end_as_under_plain_linux(harness, module, way):
    compare(harness, module, MODULES[module], way, 100)


@pytest.mark.heliostat
@pytest.mark.long
@pytest.mark.timeout(1200)
@every_way
@pytest.mark.parametrize("module", MODULES)
def test_all_of_pythons_tests_end_as_under_plain_linux(harness, module, way):
    compare(harness, module, (), way, 500)
