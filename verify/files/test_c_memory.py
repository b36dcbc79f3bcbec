"""Memory regions from C: the example, plainly and under Valgrind, with a live control plane."""

from __future__ import annotations

import json
import shutil

import pytest
from heliostat_run import Harness, Side
from nodes import Cluster
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


def test_a_c_program_says_how_urgent_its_writes_are(tmp_path_factory):
    program_path = compiled("memory_class", tmp_path_factory)
    # A rule that is about nobody has the nodes keep classes apart.
    with Cluster(2, more='[[class]]\nnames = ["/memory/none"]\nclass = "high"\n') as cluster:
        program = cluster.run(1, [program_path, "2"])
        assert program.output().strip() == "written low"
        ways = json.loads(cluster.call(1, "status", "--json"))["cluster"]["quality"]["ways"]["2"]
        assert ways["low"]["calls"] >= 8, ways
        assert ways["high"]["calls"] == 0, "no more than the rules let it"
        assert ways["normal"]["calls"] > 0, ways
