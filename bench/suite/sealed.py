"""Sealed programs beside plain Linux, runsc, proot and bubblewrap: reads, calls, programs, start, sets.

Aims: reads 10 times as fast as runsc's and, as unsealed ones, 8 times (64 B) and 4 times
(4 KiB) as plain Linux's; a mix of opens, stats, small files and exec 3 times as fast as
runsc's; four that read one set read the device once (1.05 times at most).
SEALED=reads,calls,programs,start,share picks parts; SANDBOXES=plain,sealed,... ways.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import struct
import subprocess
import time
from pathlib import Path

import sandboxes
import sealed_programs
import sealed_share
from contest import Contest, Value, Workload
from measure import REPORT, Bench, Result, last_json
from pictures import sealed as picture
from sandboxes import PLAIN, RUNSC, SEALED, Sandboxes
from suite.files import numbered

PARTS = ["reads", "calls", "programs", "start", "share"]
READS = [
    # (way, bytes, aim against plain Linux)
    ("pread", 64, 8.0), ("pread", 4096, 4.0), ("read", 64, None), ("read", 4096, None),
]  # fmt: skip
CALLED = {
    "stat": "stat", "open": "open, close", "small": "open, fstat, read 1000 B twice, close",
    "readdir": "readdir of 100", "change": "create, write, rename, unlink", "exec": "fork, exec, wait",
    "mix": "mix of all these",
}  # fmt: skip
AIM_READS, AIM_MIX = 10.0, 3.0


def reads(contest: Contest) -> list[Workload]:
    """The tight loops of the files benchmark and fio, one core."""
    hot, big = numbered(contest.boxes.folder / "hot", 1 << 20), numbered(contest.boxes.folder / "big", 64 << 20)
    program, seconds = contest.bench.program("pread"), contest.bench.seconds / 2

    def loop(way: str, size: int, how: str) -> dict:
        return last_json(contest.run(way, [program, hot, size, seconds, how], core=0))

    found = []
    for how, size, aim in READS:
        aims = {RUNSC: AIM_READS} | ({PLAIN: aim} if aim else {})
        value = Value(f"{how} of {size} B, hot 1 MiB file", "ns", aims=aims)
        found.append(Workload("reads", {"ns_per_call": value}, lambda way, s=size, h=how: loop(way, s, h), "one core"))
    fio = Value("fio psync, 4 KiB random, 64 MiB cached", "IOPS", "more", {RUNSC: AIM_READS})
    found.append(Workload("reads", {"iops": fio}, lambda way: sealed_programs.fio(contest, way, big), "one core"))
    return found


def calls(contest: Contest) -> list[Workload]:
    """Each kind of call alone, and the mix; where the kernel likes, and on one core."""
    program, seconds = contest.bench.program("calls"), contest.bench.seconds / 5
    values = {key: Value(called, "ns") for key, called in CALLED.items()}
    values["mix"].aims = {RUNSC: AIM_MIX}

    spread_folders(contest.boxes.folder)
    numbers = itertools.count()

    def sample(way: str, core: int | None) -> dict:
        folder = contest.boxes.folder / f"calls-{next(numbers)}"
        return last_json(contest.run(way, [program, folder, seconds], core=core))

    return [
        Workload("calls", values, lambda way: sample(way, None)),
        Workload("calls", values, lambda way: sample(way, 0), "one core"),
    ]


def spread_folders(folder: Path) -> None:
    """Has ext4 keep the folders made in here apart, as it does with homes (chattr +T).

    It passes over each inode that was freed nearby in the last minutes, one by one: else each
    sample would pay for the files that those before it removed.
    """
    get_flags, set_flags, top_folder = 0x8008_6601, 0x4008_6602, 0x0002_0000
    opened = os.open(folder, os.O_RDONLY)
    try:
        flags = struct.unpack("l", fcntl.ioctl(opened, get_flags, bytes(8)))[0]
        fcntl.ioctl(opened, set_flags, struct.pack("l", flags | top_folder))
    except OSError as error:
        print(f"  folders lie together: {error}", flush=True)
    finally:
        os.close(opened)


def start(contest: Contest) -> list[Workload]:
    """From nothing to the end of /bin/true, the sandbox made and gone."""
    environment = contest.bench.harness.environment()

    def sample(way: str) -> dict:
        # Not by `contest.run`: waiting with a time limit looks only every 50 ms.
        commands = [contest.boxes.command(way, ["/bin/true"]) for _ in range(10)]
        began = time.monotonic()
        for command in commands:
            subprocess.run(command, check=True, env=environment, cwd=contest.boxes.folder)
        return {"ms": (time.monotonic() - began) / len(commands) * 1e3}

    return [Workload("start", {"ms": Value("start and end of /bin/true", "ms")}, sample)]


def measure(bench: Bench) -> list[Result]:
    folder = bench.harness.folder / "sealed"
    folder.mkdir()
    boxes = Sandboxes(bench.harness, folder, REPORT / "bin")
    (REPORT / "bin").mkdir(parents=True, exist_ok=True)
    wanted = os.environ.get("SANDBOXES", ",".join(sandboxes.ALL)).split(",")
    contest = Contest(bench, boxes, boxes.probe([way for way in wanted if way != SEALED or not bench.harness.plain]))
    for way, reason in boxes.missing.items():
        print(f"  {way} is missing: {reason}")
    print("  " + ", ".join(f"{way}: {version}" for way, version in boxes.versions().items()), flush=True)
    makers = {
        "reads": reads, "calls": calls, "programs": sealed_programs.workloads, "start": start,
        "share": sealed_share.workloads,
    }  # fmt: skip
    parts = os.environ.get("SEALED", ",".join(PARTS)).split(",")
    found = [one for part in parts for work in makers[part](contest) for one in contest.measure(work)]
    (REPORT / "sealed-runs.json").write_text(json.dumps(contest.rows, indent=1) + "\n")
    picture.draw(contest.rows, REPORT / "sealed.png")
    return found
