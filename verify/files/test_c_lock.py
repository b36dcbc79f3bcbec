"""Locks and barriers from C: the example, plainly and under Valgrind, with a live control plane."""

from __future__ import annotations

import shutil

import pytest
from heliostat_run import Harness, Side
from test_c_delegated import compiled

pytestmark = pytest.mark.heliostat
SAID = "1000 counted, met 3 times, owner died"


@pytest.mark.parametrize("before", [[], ["valgrind", "-q", "--error-exitcode=9", "--trace-children=yes"]])
def test_two_c_programs_count_under_one_lock(before, tmp_path_factory):
    if before and shutil.which("valgrind") is None:
        pytest.skip("no valgrind")
    program_path = compiled("lock", tmp_path_factory)
    counter = tmp_path_factory.mktemp("lock") / "counter"
    with Harness() as harness:
        harness.call("run", "--", "/bin/true")
        program = harness.run(Side.PLAIN, [*before, program_path, str(counter)], seconds=120)
        assert program.process.returncode == 0, program.errors()
        assert program.output().strip() == SAID, program.output()
