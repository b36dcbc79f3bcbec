"""Targets of every kind, published from outside: Go, heaps that grow, publishers killed in a stop."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import Harness, Program
from publishers import await_versions, bytes_of, is_running, lines, publish, telling

pytestmark = pytest.mark.heliostat

CASES = Path(__file__).resolve().parent / "cases"
RECORD_WORDS = 1024

# A heap that grows by 64 MiB, by brk as an allocator does it, when it is told so.
GROWER = """
import ctypes, signal, threading
libc = ctypes.CDLL(None)
libc.sbrk.restype, libc.sbrk.argtypes = ctypes.c_void_p, [ctypes.c_ssize_t]
print(libc.sbrk(0), flush=True)
def grow(*_):
    at = libc.sbrk(64 << 20)
    ctypes.memmove(at + (63 << 20), b"this is what it grew by", 23)
    print("grown", flush=True)
signal.signal(signal.SIGUSR1, grow)
while True:
    signal.pause()
"""

# 64 MiB, most of it written, in which a word counts up for ever.
COUNTER = """
import ctypes
held = ctypes.create_string_buffer(bytes([7]) * (64 << 20))
word = ctypes.c_uint64.from_buffer(held)
print(ctypes.addressof(held), flush=True)
while True:
    word.value += 1
"""


def check_record(record: tuple[int, ...]) -> None:
    """One instant: all words of one stamp, or (odd count) the new one and then the old one."""
    count, words = record[0], record[1:]
    stamp = (count + 1) // 2
    new = next((at for at, word in enumerate(words) if word != stamp), len(words))
    assert all(word == stamp - 1 for word in words[new:]), f"record {count} is of several instants"
    assert count % 2 == 1 or new == len(words), f"record {count} is torn"


def built_go(harness: Harness) -> Path:
    """The Go program, built without a network."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no go to build the program with")
    program = harness.folder / "records"
    words = [go, "build", "-o", program, CASES / "records.go"]
    built = subprocess.run(words, env={**os.environ, "GOFLAGS": "-mod=mod", "GOPROXY": "off"}, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return program


def test_a_go_program_is_published_and_its_goroutines_and_collector_go_on(harness):
    program, address = telling(harness, [built_go(harness)], "records")
    publisher = publish(harness, program.pid, "--memory", f"{address}+{4 * 8 * RECORD_WORDS}", "--as", "go", "--every", "2ms", "--json")
    for count in (20, 100, 200):
        made = await_versions(publisher, count)
        words = struct.unpack(f"<{4 * RECORD_WORDS}Q", bytes_of(harness, "go"))
        for start in range(0, len(words), RECORD_WORDS):
            check_record(words[start : start + RECORD_WORDS])
    engine = "whole" if kernel_view.refuses_tracking() else "tracked"
    assert made[-1]["regions"][0]["engine"] == engine and made[-1]["threads"] > 1
    publisher.kill(signal.SIGINT)
    assert publisher.wait(60) == 0, publisher.errors()
    before = int(program.output().splitlines()[-1])
    kernel_view.wait_until(lambda: int(program.output().split("\n")[-2]) > before + 100, 60, "its rounds")
    assert program.process.poll() is None, "it found its own memory wrong"


def test_a_heap_that_outgrows_its_region_goes_on_under_the_next_generation(harness):
    program, _ = telling(harness, [sys.executable, "-c", GROWER], "grower")
    publisher = publish(harness, program.pid, "--memory", "heap", "--as", "grower", "--every", "5ms", "--json")
    first = await_versions(publisher, 5)[0]["regions"][0]
    program.process.send_signal(signal.SIGUSR1)
    kernel_view.wait_until(lambda: "grown" in program.output(), 60, "the growth")

    def newest() -> dict:
        return lines(publisher)[-1]["regions"][0]

    kernel_view.wait_until(lambda: newest()["generation"] > first["generation"] and newest()["number"], 60, "the next generation")
    grown = newest()
    assert (grown["address"], grown["error"]) == (first["address"], None)
    assert grown["bytes"] >= first["bytes"] + (56 << 20)
    assert b"this is what it grew by" in bytes_of(harness, "grower/heap")


def state(program: Program) -> str:
    """The state letter of /proc; t for stopped by a tracer."""
    fields = Path(f"/proc/{program.pid}/stat").read_text()
    return fields.rsplit(") ", 1)[1][0]


def stands(program: Program) -> bool:
    """True once a look has found it stopped; many looks, for a stop may be short."""
    return any(state(program) == "t" for _ in range(1000))


@pytest.mark.parametrize("tracking", ["--force-tracking", "--no-tracking"])
def test_a_publisher_that_is_killed_within_a_stop_leaves_the_program_running(harness, tracking):
    program, address = telling(harness, [sys.executable, "-c", COUNTER], "counter")
    words = [program.pid, "--memory", f"{address}+{64 << 20}", "--as", "counter", "--every", "1ms", "--json", tracking]
    for _ in range(5):
        publisher = publish(harness, *words)
        # Only then: the one call in the program's name, before the first version, is another matter.
        await_versions(publisher, 1)
        kernel_view.wait_until(lambda: stands(program), 60, "a stop")
        publisher.kill(signal.SIGKILL)
        publisher.process.wait()
        kernel_view.wait_until(lambda: state(program) in "RS", 60, "the program to go on")
        assert "TracerPid:\t0" in Path(f"/proc/{program.pid}/status").read_text()
        assert is_running(program)
    assert program.process.poll() is None
