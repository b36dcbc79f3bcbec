"""Publishers of programs that know nothing of it, as tests start and follow them."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, Harness, Program, Side

# A program whose memory is known: `held` is at the printed address.
HOLDER = """
import ctypes, sys, time
held = ctypes.create_string_buffer(b"first value", 1 << 20)
print(ctypes.addressof(held), flush=True)
step = 0
while True:
    time.sleep(0.01)
    step += 1
    ctypes.memmove(ctypes.addressof(held) + (1 << 19), b"step %08d" % step, 13)
"""


def publish(harness: Harness, *words) -> Program:
    """`heliostat snapshot publish ...` as a program of its own."""
    return harness.start(Side.PLAIN, [BINARY, "snapshot", "publish", *words], name="publish")


def lines(program: Program) -> list[dict]:
    """What it has said of its versions so far."""
    return [json.loads(line) for line in program.output().splitlines() if line.endswith("}")]


def await_versions(program: Program, count: int, seconds: float = 60) -> list[dict]:
    """Waits until it has made so many versions."""
    ends = time.monotonic() + seconds
    while len(lines(program)) < count:
        assert program.process.poll() is None, program.errors()
        assert time.monotonic() < ends, program.errors()
        time.sleep(0.02)
    return lines(program)


def holder(harness: Harness) -> tuple[Program, int]:
    """The program above, and where its bytes are."""
    return telling(harness, [sys.executable, "-c", HOLDER], "holder")


def telling(harness: Harness, argv: list, name: str) -> tuple[Program, int]:
    """A program that says first where its bytes are, and that address."""
    program = harness.start(Side.PLAIN, argv, name=name)

    def said() -> bool:
        assert program.process.poll() is None, program.errors()
        return "\n" in program.output()

    kernel_view.wait_until(said, 60, "an address")
    return program, int(program.output().splitlines()[0])


def bytes_of(harness: Harness, region: str) -> bytes:
    """The newest version of a region, by way of a file."""
    stem = harness.folder / f"{region.replace('/', '-')}-{time.monotonic_ns()}"
    harness.call("snapshot", "save", region, f"{stem}.hsnap", "--no-compress")
    harness.call("snapshot", "export", f"{stem}.hsnap", "-o", f"{stem}.raw")
    return Path(f"{stem}.raw").read_bytes()


def is_running(program: Program) -> bool:
    """True while it goes on writing: its processor time grows."""
    def used() -> int:
        with open(f"/proc/{program.pid}/schedstat") as file:
            return int(file.read().split()[0])

    before = used()
    kernel_view.wait_until(lambda: program.process.poll() is not None or used() > before, what="its processor time")
    return program.process.poll() is None
