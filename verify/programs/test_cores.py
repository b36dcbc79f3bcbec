"""`heliostat cores`: programs are placed and released, whoever ends; unprivileged; measured.

Each test has a control plane of its own: placing moves every program under it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side

CORES = sorted(os.sched_getaffinity(0))
NOBODY = 65534
pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(len(CORES) < 2, reason="one core: there is nothing to part"),
]
# It prints a figure that depends on whether cores are parted: their journal is there meanwhile.
FIGURE = "import os, sys; print('figure', sys.argv[1 + os.path.exists(os.environ['HELIOSTAT_SOCKET'] + '.cores')])"


@pytest.fixture
def harness():
    """A control plane of the test's own, with nothing parted at the end."""
    with Harness() as one:
        yield one
        one.call("cores", "reset")


def cores_of(pid: int) -> list[int]:
    return sorted(os.sched_getaffinity(pid))


def shown(harness: Harness) -> dict:
    return json.loads(harness.call("cores", "--json"))


def test_a_program_begins_where_applications_go_and_everything_comes_back(harness):
    before = harness.start(Side.HELIOSTAT, ["sleep", "600"])
    kernel_view.wait_until(lambda: kernel_view.command_name(before.pid) == "sleep", 60, "sleep")
    said = harness.call("cores", "--kernel", "1")
    application, kernel = CORES[:-1], CORES[-1:]
    assert "applications on cores" in said and cores_of(before.pid) == application
    assert cores_of(harness.control_plane()) == kernel
    after = harness.run(Side.HELIOSTAT, [sys.executable, "-c", "import os; print(sorted(os.sched_getaffinity(0)))"])
    assert json.loads(after.output()) == application
    told = shown(harness)
    assert told["partition"]["kernel"] == str(kernel[0])
    assert any(one["pid"] == before.pid for one in told["programs"])
    assert harness.call("cores", "reset").endswith("are not parted\n")
    assert cores_of(before.pid) == CORES and cores_of(harness.control_plane()) == CORES


def test_explain_says_where_a_program_runs(harness):
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"])
    kernel_view.wait_listening(port, server.process)
    harness.call("cores", "--kernel", "1")
    assert "cores: runs on" in harness.call("explain", str(server.pid))
    assert "(application), parted: kernel" in harness.call("explain", str(server.pid))


def test_a_program_with_a_place_of_its_own_keeps_it(harness):
    own = harness.start(Side.HELIOSTAT, ["sleep", "600"], core=CORES[-1])
    kernel_view.wait_until(lambda: kernel_view.command_name(own.pid) == "sleep", 60, "sleep")
    assert "1 left where they are" in harness.call("cores", "--kernel", "1")
    assert cores_of(own.pid) == CORES[-1:]
    harness.call("cores", "reset")
    assert cores_of(own.pid) == CORES[-1:]


def test_a_program_that_comes_pinned_where_applications_go_keeps_its_place(harness):
    harness.call("cores", "--kernel", str(len(CORES) - 1))
    pinned = harness.start(Side.HELIOSTAT, ["sh", "-c", "sleep 600 & wait"], core=CORES[0])
    other = harness.start(Side.HELIOSTAT, ["sleep", "600"])
    kernel_view.wait_until(lambda: kernel_view.command_name(other.pid) == "sleep", 60, "sleep")
    kernel_view.wait_until(lambda: children_of(pinned.pid), 60, "its child")
    child = children_of(pinned.pid)[0]
    assert cores_of(pinned.pid) == cores_of(child) == cores_of(other.pid) == CORES[:1]
    # Programs that come are looked at within a tenth of a second.
    kernel_view.wait_until(lambda: shown_left(harness) >= 1, 60, "it is told as left")
    harness.call("cores", "reset")
    assert cores_of(pinned.pid) == cores_of(child) == CORES[:1], "it has come so"
    assert cores_of(other.pid) == CORES, "it was put there"


def children_of(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def shown_left(harness: Harness) -> int:
    return harness.status()["cores"]["left"]


def test_the_stages_of_a_call_on_a_kernel_core_are_measured(harness):
    told = json.loads(harness.call("cores", "--stages", "--json"))
    assert len({call["call"] for call in told["calls"]}) == 5, told
    for call in told["calls"]:
        assert call["rounds"] > 0, call
    table = harness.call("cores", "--stages")
    assert all(call["call"] in table for call in told["calls"])


def test_without_a_control_plane_reset_undoes_what_a_crash_left(harness):
    program = harness.start(Side.HELIOSTAT, ["sleep", "600"])
    kernel_view.wait_until(lambda: kernel_view.command_name(program.pid) == "sleep", 60, "sleep")
    harness.call("cores", "--kernel", "1")
    os.kill(harness.control_plane(), 9)
    kernel_view.wait_until(lambda: len(kernel_view.processes()) and not control_planes(harness), 60, "its end")
    assert cores_of(program.pid) == CORES[:-1]
    assert "died while cores were parted" in doctor(harness)
    assert re.match(r"undone: [1-9]\d* threads", harness.call("cores", "reset"))
    assert cores_of(program.pid) == CORES
    assert harness.call("cores", "reset") == "cores are not parted\n"


def doctor(harness: Harness) -> str:
    # It ends with 1 where something else is missing.
    words = [str(BINARY), "doctor"]
    return subprocess.run(words, env=harness.environment(), capture_output=True, text=True, timeout=60, check=False).stdout


def control_planes(harness: Harness) -> list[int]:
    return [pid for pid in harness.processes() if kernel_view.command_name(pid) == "heliostatd"]


def measured(harness: Harness, plain: int, parted: int) -> tuple[dict, Path]:
    plot = harness.folder / "plot.svg"
    words = ["--auto", "--rounds", "3", "--figure", "figure ([0-9]+)", "--plot", str(plot), "--json"]
    said = harness.call("cores", *words, "--", sys.executable, "-c", FIGURE, str(plain), str(parted))
    return json.loads(said), plot


def test_a_partition_that_is_measured_better_is_kept_and_drawn(harness):
    found, plot = measured(harness, 100, 200)
    assert found["kept"].startswith("kernel") and found["partitions"][1]["ratio"] == 2.0
    assert shown(harness)["partition"]["kernel"] != ""
    assert "2.000" in plot.read_text() and "kernel" in plot.read_text()
    assert "best partition" in harness.call("cores")


@pytest.mark.parametrize("parted", [50, 100, 101])
def test_none_is_kept_where_it_is_better_or_as_good(harness, parted):
    found, _ = measured(harness, 100, parted)
    assert found["kept"] == "none" and shown(harness)["partition"]["kernel"] == ""
    assert "kept above 102 %: none" in doctor(harness)


@pytest.mark.skipif(not shutil.which("redis-benchmark"), reason="no redis")
def test_a_real_load_is_measured_under_each_partition_drawn_and_decided_by_the_rule(harness):
    port = kernel_view.free_port()
    server = harness.start(Side.HELIOSTAT, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""], cwd=harness.folder)
    kernel_view.wait_listening(port, server.process)
    plot = harness.folder / "redis.svg"
    # It notes on which cores the server runs meanwhile: under a partition not on all.
    load = f"grep Cpus_allowed_list /proc/{server.pid}/status >> {harness.folder}/places; "
    load += f"exec {BINARY} run -- redis-benchmark -p {port} -t get -n 5000 -c 5 -q"
    words = ["--auto", "--rounds", "2", "--figure", r"GET: ([0-9.]+) requests", "--plot", str(plot), "--json"]
    found = json.loads(harness.call("cores", *words, "--", "sh", "-c", load))
    names = [one["partition"] for one in found["partitions"]]
    assert names[0] == "none" and any(name.startswith("kernel") for name in names[1:]), names
    assert all(one["median"] > 100 for one in found["partitions"]), found
    places = {line.split()[1] for line in (harness.folder / "places").read_text().splitlines()}
    assert len(places) >= 2, "under none the server runs on all cores, and under a partition not"
    drawn = plot.read_text()
    assert drawn.startswith("<svg") and all(name in drawn for name in names)
    best = max(found["partitions"][1:], key=lambda one: one["ratio"])
    is_kept = found["kept"] != "none"
    assert not is_kept or (best["ratio"] >= 1.02 and found["kept"] in names)
    assert (shown(harness)["partition"]["kernel"] != "") == is_kept
    assert (cores_of(server.pid) != CORES) == is_kept


def test_a_command_that_fails_leaves_nothing_parted(harness):
    with pytest.raises(RuntimeError, match="failed .exit status: 3.; cores are not parted"):
        harness.call("cores", "--auto", "--plot", str(harness.folder / "p.svg"), "--", "sh", "-c", "exit 3")
    assert shown(harness)["partition"]["kernel"] == ""


def test_what_cannot_be_is_refused_in_words(harness):
    with pytest.raises(RuntimeError, match="leave none for applications"):
        harness.call("cores", "--kernel", str(len(CORES)))
    with pytest.raises(RuntimeError, match="cores 1000 are not there"):
        harness.call("cores", "--kernel-list", "1000")
    with pytest.raises(RuntimeError, match="neither a core nor a range"):
        harness.call("cores", "--kernel-list", "one")


def test_a_container_s_cores_are_told_apart():
    words = ["taskset", "-c", str(CORES[0]), str(BINARY), "doctor"]
    said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout
    assert "one core: there is nothing to part" in said
    if len(CORES) > 2:
        words[2] = f"{CORES[0]},{CORES[1]}"
        said = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False).stdout
        assert "are not this container's to use" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_root_does_not_believe_a_journal_that_another_user_has_put_there():
    with Harness() as harness:
        harness.call("stop")
        journal = Path(f"{harness.environment()['HELIOSTAT_SOCKET']}.cores")
        journal.write_bytes(b"HELICORE")
        os.chown(journal, NOBODY, NOBODY)
        with pytest.raises(RuntimeError, match="the journal of cores: Permission denied"):
            harness.call("cores", "reset")
        assert journal.read_bytes() == b"HELICORE"
        journal.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_an_unprivileged_user_places_his_own_programs_and_no_interrupts(tmp_path):
    folder = Path("/dev/shm") / f"helio-cores-{os.getpid()}"
    folder.mkdir(mode=0o755)
    shutil.chown(folder, NOBODY, NOBODY)
    environment = {**os.environ, "HELIOSTAT_SOCKET": str(folder / "control.sock"), "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)}
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]

    def call(*words: str, check: bool = True) -> str:
        done = subprocess.run([*become, str(BINARY), *words], env=environment, capture_output=True, text=True, timeout=60, cwd="/", check=False)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    if "ermission denied" in call("doctor", check=False):
        pytest.skip("another user cannot run the programs under test")
    mine = subprocess.Popen([*become, str(BINARY), "run", "--", "sleep", "600"], env=environment, cwd="/")
    roots = subprocess.Popen(["sleep", "600"], env={**environment, "HELIOSTAT_EXAMINER": "x"})
    try:
        kernel_view.wait_until(lambda: kernel_view.command_name(mine.pid) == "sleep", 60, "sleep")
        assert "your own programs placed by" in call("doctor", check=False)
        numbers = [int(name) for name in os.listdir("/proc/irq") if name.isdigit()] if os.path.isdir("/proc/irq") else []
        said = call("cores", "--kernel", "1")
        assert "applications on cores" in said
        assert (cores_of(mine.pid), cores_of(roots.pid)) == (CORES[:-1], CORES)
        if len(CORES) > 2 and numbers:
            assert re.search(r"0 interrupts moved, \d+ kept by the system", call("cores", "--kernel", "1", "--interrupt", "1"))
        if numbers:
            said = call("cores", "--kernel-list", str(CORES[-1]), "--interrupt-list", str(CORES[-1]))
            assert re.search(r"0 interrupts moved, \d+ kept by the system", said)
        call("cores", "reset")
        assert cores_of(mine.pid) == CORES
    finally:
        for process in (mine, roots):
            process.kill()
            process.wait()
        call("stop", check=False)
        shutil.rmtree(folder, ignore_errors=True)
