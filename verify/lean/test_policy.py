"""Who reads what is seen across workers: one that follows another is served by the cache they share."""

from __future__ import annotations

import json
import subprocess

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side
from test_workers import HEADERS, HERE

pytestmark = pytest.mark.heliostat
MIB = 1 << 20


def test_a_worker_behind_another_is_served_by_the_blocks_that_it_filled(tmp_path):
    program, data = tmp_path / "follows", tmp_path / "data"
    subprocess.run(["gcc", "-std=gnu17", "-O2", "-w", f"-I{HEADERS}", "-o", program, HERE / "follows.c"], check=True)
    data.write_bytes(bytes(range(256)) * (32 * MIB // 256))
    with Harness(configuration="[delegated]\ndirect_from_bytes = 262144\n") as harness:
        words = [str(BINARY), "coprocessor", "run", "--workers", "2", "--root", str(tmp_path), "--", program, data, "1"]
        workers = harness.start(Side.PLAIN, words, name="workers")
        kernel_view.wait_until(lambda: workers.errors().count("sum ") == 2, 60, workers.errors())
        done = harness.status()["delegated"]
        if done["transfers_cached"] + done["transfers_filled"] + done["transfers_direct"] == 0:
            pytest.skip("no lease on files of this file system: the kernel's own cache is shared")
        shown = json.loads(harness.call("explain", str(workers.pid), "--json"))
        text = harness.call("explain", str(workers.pid))
    followed = [file["followed"] for file in shown["delegated"]]
    assert sum(followed) > 30, (followed, done)
    assert "for a session behind this one" in text
    # What the first one filled, the second found.
    assert done["bytes_cached"] > 16 * MIB, done
    assert done["bytes_direct"] < 16 * MIB, done
