"""Durable files whose log lies in an area of the store: `heliostat run --durable '*.aof' --log /store/NAME`.

By the direct way, where the program drives the device, and by the emulated one, where a server loop does; over
kill -9 of the program and of the control plane; and recovery when the control plane starts after a crash of the
machine, which is played: the program has run with another number of the machine's run, its file is put into a
state that a page cache may have left, and its times are of before the machine came up.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Program, Side, wait_control

pytestmark = [pytest.mark.heliostat, pytest.mark.timeout(300)]

STORE_BYTES = "160M"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
OTHER_RUN = "01234567-89ab-cdef-0123-456789abcdef"
LONG_AGO = 1_000_000_000
# Appends for each line of its input, flushed and told of.
PROGRAM = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
number = 0
def more(count):
    global number
    for _ in range(count):
        os.write(file, b"entry %06d\\n" % number)
        os.fdatasync(file)
        number += 1
more(100)
print("done", flush=True)
for line in sys.stdin:
    more(100)
    print("done", flush=True)
"""


class Scene:
    """A control plane with a store, and a program whose log lies in it."""

    def __init__(self, folder: Path, way: str, log: str = "/store/aof") -> None:
        self.folder, self.path, self.log = folder, folder / "kept.aof", log
        self.store = folder / "store"
        configuration = f'[store]\npath = "{self.store}"\n'
        if way == "emulated":
            configuration += "direct_max = 0\n"
        if way == "named":
            configuration += f'[[durable]]\nfiles = ["*.aof"]\nlog = "{log}"\n'
        words = [BINARY, "store", "init", self.store, "--size", STORE_BYTES]
        subprocess.run(list(map(str, words)), check=True, capture_output=True, timeout=60)
        self.harness = Harness(configuration=configuration)

    def __enter__(self) -> Scene:
        self.harness.__enter__()
        return self

    def __exit__(self, *ends) -> None:
        self.harness.__exit__(*ends)

    def start(self, *before: str, path: Path | None = None, text: str = PROGRAM) -> Program:
        run = [BINARY, "run", "--verbose", "--durable", "*.aof", "--log", self.log, "--"]
        words = [*before, *run, sys.executable, "-c", text, path or self.path]
        program = self.harness.start(Side.PLAIN, words, stdin=subprocess.PIPE)
        self.await_done(program, 1)
        return program

    def await_done(self, program: Program, times: int) -> None:
        def is_done() -> bool:
            return program.output().count("done") >= times or program.process.poll() is not None

        kernel_view.wait_until(is_done, 60, "the appends")
        assert program.process.poll() is None, program.errors()

    def more(self, program: Program, times: int) -> None:
        program.process.stdin.write(b"\n")
        program.process.stdin.flush()
        self.await_done(program, times)

    def explained(self, program: Program) -> dict:
        return json.loads(self.harness.call("explain", str(program.pid), "--json"))

    def kill(self, program: Program) -> bytes:
        """What the program has left."""
        program.kill()
        program.process.wait(60)
        return self.path.read_bytes()

    def kill_control_plane(self) -> None:
        pid = self.harness.control_plane()
        os.kill(pid, signal.SIGKILL)
        kernel_view.wait_until(lambda: pid not in self.harness.processes(), 60, "its end")

    def start_control_plane(self) -> None:
        self.harness.call("start", *self.harness.configured())
        wait_control(f"{self.harness.folder}/control.sock")

    def said(self) -> str:
        """What the control plane has said."""
        return (self.harness.folder / "control.sock.log").read_text()

    def recover(self, *words: str) -> str:
        command = list(map(str, [BINARY, "recover", *words, self.log]))
        done = subprocess.run(command, env=self.harness.environment(), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stderr


def in_another_run(folder: Path) -> list[str]:
    """Words before a command that runs as if the machine had been started for it."""
    told = folder / "boot_id"
    told.write_text(OTHER_RUN + "\n")
    apart = ["unshare", "--mount"] if os.getuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    return [*apart, "sh", "-c", f'mount --bind {told} {BOOT_ID} && exec "$@"', "sh"]


@pytest.mark.parametrize("way", ["direct", "emulated"])
def test_flushes_go_to_the_area_and_what_a_crash_takes_is_put_back(tmp_path, way):
    with Scene(tmp_path, way) as scene:
        program = scene.start()
        counters = scene.explained(program)["counters"]
        assert counters["logged_flushes"] >= 95, scene.explained(program)
        [area] = json.loads(scene.harness.call("area", "list", "--json"))
        assert (area["name"], area["kind"]) == ("aof", "log")
        shown = json.loads(scene.harness.call("area", "inspect", "/store/aof", "--json"))
        assert shown["way"] == way
        whole = scene.kill(program)
        with scene.path.open("r+b") as file:
            file.truncate(100)
        assert "bytes were put back" in scene.recover("--force")
        assert scene.path.read_bytes() == whole
        assert scene.recover() == ""


def test_a_program_that_has_an_area_goes_on_without_the_control_plane(tmp_path):
    with Scene(tmp_path, "direct") as scene:
        program = scene.start()
        scene.kill_control_plane()
        scene.more(program, 2)
        whole = scene.kill(program)
        assert whole.count(b"\n") == 200
        with scene.path.open("r+b") as file:
            file.truncate(1500)
        scene.start_control_plane()
        assert "bytes were put back" in scene.recover("--force")
        assert scene.path.read_bytes() == whole


def test_a_served_program_flushes_its_file_while_there_is_no_control_plane(tmp_path):
    with Scene(tmp_path, "emulated") as scene:
        program = scene.start()
        scene.kill_control_plane()
        scene.more(program, 2)
        assert scene.path.read_bytes().count(b"\n") == 200
        scene.start_control_plane()
        time.sleep(0.2)
        scene.more(program, 3)
        # It is served again: the log is emptied, and kept as before.
        assert scene.explained(program)["counters"]["logged_flushes"] > 90
        whole = scene.kill(program)
        with scene.path.open("r+b") as file:
            file.truncate(3000)
        assert "bytes were put back" in scene.recover("--force")
        assert scene.path.read_bytes() == whole


@pytest.mark.parametrize("way", ["direct", "emulated"])
def test_one_program_at_a_time_has_the_area(tmp_path, way):
    with Scene(tmp_path, way) as scene:
        first, second = scene.start(), scene.start(path=tmp_path / "other.aof")
        assert scene.explained(first)["counters"]["logged_flushes"] > 0
        told = scene.explained(second)
        assert told["counters"]["logged_flushes"] == 0 and told["unlogged_reasons"]["LogInUse"] > 0, told
        # Even where the control plane that has given it is another one.
        if way == "direct":
            scene.kill_control_plane()
            scene.start_control_plane()
            third = scene.start(path=tmp_path / "third.aof")
            assert scene.explained(third)["unlogged_reasons"]["LogInUse"] > 0


def test_without_a_store_the_file_is_flushed_and_that_is_told(tmp_path):
    with Harness() as harness:
        told = {"HELIOSTAT_DURABLE": "*.aof", "HELIOSTAT_DURABLE_LOG": "/store/aof"}
        words = [sys.executable, "-c", PROGRAM, tmp_path / "kept.aof"]
        program = harness.start(Side.HELIOSTAT, words, env=told, stdin=subprocess.PIPE)
        kernel_view.wait_until(lambda: "done" in program.output(), 60, "the appends")
        assert "durable files are flushed themselves" in program.errors()
        explained = json.loads(harness.call("explain", str(program.pid), "--json"))
        assert explained["unlogged_reasons"]["NoArea"] > 90


# It may be the program's number 5 for whatever is its own.
CLOSING = PROGRAM.replace("for line", "for fd in range(3, 1024):\n    fd != file and os.closerange(fd, fd + 1)\nfor line")


@pytest.mark.parametrize("way", ["direct", "emulated"])
def test_a_program_that_closes_all_numbers_closes_none_of_the_logs(tmp_path, way):
    with Scene(tmp_path, way) as scene:
        program = scene.start(text=CLOSING)
        before = scene.explained(program)["counters"]["logged_flushes"]
        scene.more(program, 2)
        assert scene.explained(program)["counters"]["logged_flushes"] >= before + 95, scene.explained(program)
        assert scene.kill(program).count(b"\n") == 200


def crashed(scene: Scene, program: Program) -> bytes:
    """The machine has crashed: nobody lives, and the file has its beginning only. What it had."""
    whole = scene.kill(program)
    scene.kill_control_plane()
    with scene.path.open("r+b") as file:
        file.truncate(100)
    os.utime(scene.path, (LONG_AGO, LONG_AGO))
    return whole


@pytest.mark.parametrize("way", ["direct", "emulated", "named"])
def test_a_control_plane_that_starts_after_a_crash_recovers(tmp_path, way):
    log = str(tmp_path / "log") if way == "named" else "/store/aof"
    with Scene(tmp_path, way, log) as scene:
        whole = crashed(scene, scene.start(*in_another_run(tmp_path)))
        scene.start_control_plane()
        kernel_view.wait_until(lambda: scene.path.read_bytes() == whole, 60, "recovery")
        # The log is empty, and has said what it has done.
        kernel_view.wait_until(lambda: "recovered" in scene.said(), 60, "what is said")
        assert scene.recover() == ""


def test_a_log_that_others_may_write_is_recovered_by_hand_only(tmp_path):
    with Scene(tmp_path, "direct") as scene:
        program = scene.start(*in_another_run(tmp_path))
        scene.harness.call("area", "appoint", "aof", "--others", "read,write")
        whole = crashed(scene, program)
        scene.start_control_plane()
        kernel_view.wait_until(lambda: "others may have written this log" in scene.said(), 60, "what is said")
        assert scene.path.read_bytes() == whole[:100]
        assert "bytes were put back" in scene.recover()
        assert scene.path.read_bytes() == whole


def test_a_sealed_program_has_no_log(tmp_path):
    log = tmp_path / "log"
    with Scene(tmp_path, "direct", str(log)) as scene:
        run = [BINARY, "run", "--sealed", "--durable", "*.aof", "--log", log, "--", "/bin/echo", "ran"]
        ran = scene.harness.run(Side.PLAIN, run)
        assert "flushed themselves" in ran.errors() and ran.output() == "ran\n" and not log.exists()


@pytest.mark.parametrize("way", ["direct", "named"])
def test_a_program_that_comes_at_once_finds_its_file_whole(tmp_path, way):
    log = str(tmp_path / "log") if way == "named" else "/store/aof"
    with Scene(tmp_path, way, log) as scene:
        program = scene.start(*in_another_run(tmp_path))
        scene.more(program, 2)
        whole = crashed(scene, program)
        words = [BINARY, "run", *scene.harness.configured(), "--durable", "*.aof", "--log", log, "--", "cat", scene.path]
        reader = scene.harness.run(Side.PLAIN, words)
        assert reader.output().encode() == whole, reader.errors()


def test_a_control_plane_that_starts_again_leaves_what_the_kernel_has(tmp_path):
    with Scene(tmp_path, "direct") as scene:
        program = scene.start()
        scene.kill(program)
        scene.kill_control_plane()
        # Somebody changes it, in this very run of the machine.
        scene.path.write_bytes(b"newer")
        scene.start_control_plane()
        assert "nothing was missing" in scene.recover()
        assert scene.path.read_bytes() == b"newer"


def test_what_cannot_be_recovered_is_told_and_stays_in_the_log(tmp_path):
    with Scene(tmp_path, "direct") as scene:
        whole = crashed(scene, scene.start(*in_another_run(tmp_path)))
        aside = tmp_path / "aside"
        aside.mkdir()
        os.rename(scene.path, aside / "kept.aof")
        scene.start_control_plane()
        kernel_view.wait_until(lambda: "not recovered" in scene.said(), 60, "what is said")
        os.rename(aside / "kept.aof", scene.path)
        assert "bytes were put back" in scene.recover()
        assert scene.path.read_bytes() == whole
