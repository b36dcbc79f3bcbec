"""Libraries and programs whose system calls are their own instructions, and not libc's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Program, Side
from test_rings import ECHO

CASES = Path(__file__).resolve().parent / "cases"
GCC = "gcc -O2 -Wall -Wextra -Werror -Wno-unused-result".split()

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The library in its forms, and programs that use it: linked with it, opening it, holding it."""
    folder = tmp_path_factory.mktemp("own_calls")
    library, user = str(CASES / "own_calls.c"), str(CASES / "own_calls_user.c")
    shared = [*GCC, "-shared", "-fPIC"]
    linked = [f"-L{folder}", f"-Wl,-rpath,{folder}", "-Wl,--no-as-needed"]
    for command in (
        [*shared, "-o", folder / "libown.so", library],
        [*shared, "-DFORM=2", "-o", folder / "libopened.so", library],
        [*shared, "-DFORM=3", "-o", folder / "libinner.so", library],
        [*shared, "-DUNPROVABLE", "-o", folder / "libunprovable.so", library],
        [*shared, "-Wl,--build-id=none", "-o", folder / "libnameless.so", library],
        [*GCC, "-o", folder / "linked", user, *linked, "-lown"],
        [*GCC, "-o", folder / "inner", user, *linked, "-linner"],
        [*GCC, "-o", folder / "nameless", user, *linked, "-lnameless"],
        [*GCC, "-o", folder / "unprovable", user, *linked, "-lunprovable"],
        [*GCC, "-o", folder / "opening", user],
        [*GCC, "-rdynamic", "-o", folder / "whole", user, library],
        [*GCC, "-rdynamic", "-no-pie", "-fno-pie", "-o", folder / "fixed", user, library],
    ):
        subprocess.run(command, check=True)
    return folder


def start(harness: Harness, side: Side, program: list) -> tuple[Program, Program]:
    """An echo server and the program, which is done and waits for its input to end."""
    port = kernel_view.free_port()
    server = harness.start(side, [sys.executable, "-c", ECHO, port], name="echo")
    kernel_view.wait_listening(port, server.process)
    words = [port if word == "PORT" else word for word in program]
    client = harness.start(side, words, stdin=subprocess.PIPE)
    done = lambda: "over\n" in client.output() or client.process.poll() is not None  # noqa: E731
    kernel_view.wait_until(done, 45, f"the end of {program[0]}")
    return server, client


def compare(harness: Harness, program: list) -> dict:
    """Runs it plainly and under Heliostat, with the same output; what is explained of the latter."""
    transcripts, explained = [], {}
    for side in (Side.PLAIN, Side.HELIOSTAT):
        server, client = start(harness, side, program)
        if side is Side.HELIOSTAT:
            explained = json.loads(harness.call("explain", str(client.pid), "--json"))
        client.process.stdin.close()
        transcripts.append([client.wait(10), client.output(), client.errors()])
    assert transcripts[0] == transcripts[1]
    return explained


@pytest.mark.parametrize("name", ["linked", "nameless", "whole", "fixed"])
def test_calls_of_their_own_stay_on_the_direct_path(harness, built, name):
    explained = compare(harness, [built / name, "PORT"])
    counted = explained["counters"]
    assert counted.get("direct_streams", 0) == 1, explained
    assert counted.get("demoted_streams", 0) == 0, explained


def test_a_call_that_cannot_be_caught_makes_the_program_native_and_is_told(harness, built):
    explained = compare(harness, [built / "unprovable", "PORT"])
    assert explained["native_as_a_whole"] == "OwnCalls", explained
    assert explained["counters"].get("direct_streams", 0) == 0, explained


def test_a_call_that_cannot_be_caught_is_refused_where_direct_is_required(harness, built):
    words = [BINARY, "run", "--require", "--", built / "unprovable", "1"]
    done = subprocess.run(
        list(map(str, words)), env=harness.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (125, "")
    assert "libunprovable.so makes system call" in done.stderr, done.stderr


def test_a_library_that_is_opened_later_is_caught_before_it_runs(harness, built):
    explained = compare(harness, [built / "opening", "PORT", built / "libopened.so"])
    assert explained["counters"].get("direct_streams", 0) == 1, explained


def test_a_program_that_another_one_becomes_has_its_libraries_examined_too(harness, built):
    explained = compare(harness, ["/bin/sh", "-c", f'exec {built / "inner"} "$0"', "PORT"])
    assert explained["counters"].get("direct_streams", 0) == 1, explained
