"""`make demo-cluster`, with a text of a few megabytes: it ends well only with the right result."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from heliostat_run import ROOT
from nodes import LOOPBACK

pytestmark = pytest.mark.heliostat


def test_the_cluster_demo_with_a_node_killed(tmp_path):
    words = ["--bytes", 4_000_000, "--split", 100_000, "--slow", 20, "--mode", LOOPBACK, "--out", tmp_path]
    demo = [sys.executable, ROOT / "bench/demo/cluster_demo.py", *words]
    done = subprocess.run([str(word) for word in demo], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("the result is that of one thread") == 2
    told = json.loads((tmp_path / "cluster.json").read_text())["runs"]["three nodes, node 3 killed"]
    assert told["again"] > 0 and (tmp_path / "cluster.png").stat().st_size > 10_000
