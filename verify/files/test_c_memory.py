"""Memory regions from C: the example, plainly and under Valgrind, with a live control plane."""

from __future__ import annotations

import shutil

import pytest
from heliostat_run import Harness, Side
from test_c_delegated import compiled

pytestmark = pytest.mark.heliostat
SAID = "200000 counted, 2097152 bytes, direct"


@pytest.mark.parametrize("before", [[], ["valgrind", "-q", "--error-exitcode=9", "--trace-children=yes"]])
def test_two_c_programs_share_a_region_by_its_name(before, tmp_path_factory):
    if before and shutil.which("valgrind") is None:
        pytest.skip("no valgrind")
    program_path = compiled("memory", tmp_path_factory)
    with Harness() as harness:
        harness.call("run", "--", "/bin/true")
        program = harness.run(Side.PLAIN, [*before, program_path], seconds=120)
        assert program.process.returncode == 0, program.errors()
        assert program.output().strip() == SAID, program.output()


@pytest.mark.parametrize("before", [[], ["valgrind", "-q", "--error-exitcode=9"]])
def test_a_c_program_spreads_a_region(before, tmp_path_factory):
    if before and shutil.which("valgrind") is None:
        pytest.skip("no valgrind")
    program_path = compiled("memory_spread", tmp_path_factory)
    with Harness() as harness:
        harness.call("run", "--", "/bin/true")
        program = harness.run(Side.PLAIN, [*before, program_path], seconds=120)
        assert program.process.returncode == 0, program.errors()
        assert program.output().strip() == "3145728 bytes, the same, 5", program.output()
