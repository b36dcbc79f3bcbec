"""Programs that know nothing of it, published from outside: Redis under load, Python, refusals."""

from __future__ import annotations

import os
import signal
import subprocess

import kernel_view
import pytest
from heliostat_run import Side
from publishers import await_versions, holder, is_running, publish
from real_programs import run_checked, start_redis

pytestmark = pytest.mark.heliostat

POPULATE = "for i=1,100000 do redis.call('set', 'key:'..i, 'the value of '..i) end return 1"

def test_redis_under_load_is_published_ten_times_and_no_client_notices(harness):
    port, server = start_redis(harness, Side.PLAIN)
    run_checked(harness, Side.PLAIN, ["redis-cli", "-p", port, "eval", POPULATE, "0"])
    words = ["redis-benchmark", "-p", port, "-n", "200000", "-r", "100000", "-t", "set,get", "-q"]
    load = harness.start(Side.PLAIN, words)
    publisher = publish(harness, server.pid, "--as", "redis", "--every", "100ms", "--count", 10, "--json")
    made = await_versions(publisher, 10)
    assert load.wait(120) == 0, load.errors()
    assert "rror" not in load.output() + load.errors()
    for version in made:
        assert all(region["error"] is None for region in version["regions"]), version
    assert made[-1]["copied_while_stopped_bytes"] <= made[-1]["copied_bytes"]
    listed = {region["name"]: region for region in harness.status()["regions"]}
    assert {f"/snapshot/{region['name']}" for region in made[-1]["regions"]} <= set(listed)
    answer = run_checked(harness, Side.PLAIN, ["redis-cli", "-p", port, "get", "key:77777"])
    assert answer.strip() == "the value of 77777"
    publisher.kill(signal.SIGINT)


def test_a_range_is_published_and_the_program_outlives_its_killed_publisher(harness):
    program, address = holder(harness)
    publisher = publish(harness, program.pid, "--memory", f"{address}+{1 << 20}", "--as", "held", "--every", "5ms", "--json")
    made = await_versions(publisher, 20)
    assert made[0]["regions"][0]["name"] == "held"
    # Only the page that is written is copied, not the other 255, where the kernel may tell which it is.
    most = 256 if kernel_view.refuses_tracking() else 64
    assert all(version["copied_bytes"] <= most * 4096 for version in made[10:]), made
    publisher.kill(signal.SIGKILL)
    publisher.process.wait()
    assert is_running(program)


def test_the_regions_of_a_program_that_ends_end_with_it(harness):
    program, address = holder(harness)
    publisher = publish(harness, program.pid, "--memory", f"{address}+4096", "--as", "ending", "--every", "10ms", "--json")
    await_versions(publisher, 3)
    program.kill()
    program.process.wait()
    assert publisher.wait(60) == 0, publisher.errors()
    assert "has ended" in publisher.errors()


def test_what_cannot_be_published_is_refused_with_a_reason(harness):
    program, _ = holder(harness)
    refusals = {
        ("1",) if os.geteuid() else ("999999999",): "process",
        (str(program.pid), "--memory", "nonsense"): "--memory",
        (str(program.pid), "--every", "soon"): "500ms",
        ("no.such.region",): "neither a process id nor a region",
    }
    for words, reason in refusals.items():
        refused = publish(harness, *words)
        assert refused.wait(60) != 0
        assert reason in refused.errors(), refused.errors()


def test_memory_shows_what_there_is(harness):
    program, _ = holder(harness)
    shown = harness.call("snapshot", "memory", str(program.pid))
    assert "[heap]" in shown and "[stack]" in shown
    assert subprocess.run(["kill", "-0", str(program.pid)], check=False).returncode == 0
