"""Delegated operations: round trips, batches, the device, one cache for many, and fairness.

Aims: a cached 4 KiB read within twice (a cache line there and back, and a copy of 4 KiB); reads
past the caches at 95 % of fio's io_uring engine on the same file; many readers of one set read
the device once; a quiet session's latency while another floods within twice of alone.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

from heliostat_run import ROOT, Program, Side
from measure import Bench, Result, by_rounds, last_json, placements

PACKAGE = "heliostat-bench-delegated"
MIB = 1 << 20
READERS = 4
SHARED_MIB = 64
SESSIONS = 4
BATCHES = (1, 2, 4, 8, 16, 32, 64)
# A reader's turn, and the moment before and behind it that does not count.
SLICE_S, SETTLE_S = 0.05, 0.01
DEVICE = [
    # (name, rounds for each second of measuring, bytes, under way, fio's word, ours); the last is
    # the nearest to its aim, and single ratios of it differ by a tenth.
    ("1 MiB in order", 20, MIB, 16, "read", "seq"),
    ("64 KiB random", 20, 64 * 1024, 32, "randread", "rand"),
    ("4 KiB random", 80, 4096, 64, "randread", "rand"),
]


def built() -> Path:
    """The measuring program, built."""
    cargo = os.environ.get("CARGO", "cargo")
    subprocess.run([cargo, "build", "--release", "--quiet", "--package", PACKAGE], cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / PACKAGE


class Loop:
    """The program, and the server loop that it speaks to, each on a core of its own."""

    def __init__(self, bench: Bench) -> None:
        place = placements()[-1]
        self.bench, self.program = bench, built()
        self.core, self.server = place.client, place.server
        # Building took its time, and a control plane that nobody uses ends.
        bench.harness.call("run", "--", "/bin/true")

    def run(self, *words: object) -> dict:
        return last_json(self.bench.harness.run(Side.PLAIN, [self.program, *words], seconds=120))

    def pin(self) -> None:
        """Puts the server loop on its core; it has started with the first session."""
        pid = self.bench.harness.status()["pid"]
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().startswith("server-loop"):
                os.sched_setaffinity(int(task.name), {self.server})

    def status(self) -> dict:
        return self.bench.harness.status()["delegated"]


def sample(path: Path, mib: int) -> Path:
    """A file that is on the disk, and whose last change is past."""
    with open(path, "wb") as file:
        file.writelines(number.to_bytes(8, "little") * (MIB // 8) for number in range(mib))
        os.fsync(file.fileno())
    os.utime(path, (0, 0))
    return path


def forget(path: Path) -> None:
    """Lets the kernel forget the file's pages."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def round_trip(bench: Bench, loop: Loop, hot: Path) -> list[Result]:
    """One cached read after the other, against line and copy.

    Many short sessions: which pages its rings get decides how long a line travels, by half.
    """
    arms = {"ours": ["roundtrip", hot, bench.seconds / SESSIONS, loop.core], "line": ["line", loop.core, loop.server]}
    rounds = [bench.alternate(arms, lambda words: loop.run(*words)) for _ in range(SESSIONS)]
    ours = [one["trip_ns"] for samples in rounds for one in samples["ours"]]
    theirs = [one["line_ns"] + one["copy_ns"] for samples in rounds for one in samples["line"]]
    note = "cached round trip: theirs is a bare cache-line ping-pong and a hot copy of 4 KiB, summed; each sample is a session or a line of its own"
    return [bench.compare("cached 4 KiB, round trip", ours, theirs, "ns", better="less", aim=0.5, cores="two cores", note=note)]


def batches(bench: Bench, loop: Loop, hot: Path) -> list[Result]:
    """Batches against as many preads; the first that breaks even."""
    rows, even = [], None
    for size in (4096, 65536):
        for batch in BATCHES:
            found = [loop.run("batch", hot, bench.seconds / 4, loop.core, size, batch) for _ in range(3)]
            ours, theirs = ([one[key] for one in found] for key in ("ours_ns", "pread_ns"))
            row = bench.compare(f"{size // 1024} KiB cached in batches of {batch}, per read", ours, theirs, "ns", better="less", cores="two cores")
            if even is None and size == 4096 and row.ratio and row.ratio >= 1:
                even = batch
            rows.append(row)
    rows[0].note = f"theirs is pread(2); delegation of 4 KiB breaks even at a batch of {even or 'more than 64'}"
    return rows


class Slice:
    """A reader that is let run for a moment now and then: what it has read is counted outside it."""

    def __init__(self, program: Program, counted: int) -> None:
        self.program, self.counted = program, counted
        self.signal(signal.SIGSTOP)

    def signal(self, number: int) -> None:
        os.kill(self.program.pid, number)

    def run(self) -> float:
        """Lets it run; bytes per second."""
        if self.program.process.poll() is not None:
            raise RuntimeError(f"{self.program.name} has ended: {self.program.errors()[-500:]}")
        self.signal(signal.SIGCONT)
        time.sleep(SETTLE_S)
        before, began = fetched(self.counted), time.monotonic()
        time.sleep(SLICE_S)
        rate = (fetched(self.counted) - before) / (time.monotonic() - began)
        self.signal(signal.SIGSTOP)
        # What it has asked for is done before the next has its turn.
        time.sleep(SETTLE_S)
        return rate

    def end(self) -> None:
        self.signal(signal.SIGCONT)
        self.program.kill()
        self.program.process.wait()


def fio(bench: Bench, path: Path, size: int, depth: int, order: str, core: int) -> Slice:
    # One process, so that a signal stops all of it and /proc/PID/io counts all of it.
    words = [
        "fio", "--name=device", f"--filename={path}", f"--rw={order}", f"--bs={size}", "--ioengine=io_uring", "--direct=1",
        f"--iodepth={depth}", "--time_based", "--runtime=600", "--thread",
        "--norandommap", "--randrepeat=0", f"--iodepth_batch_complete_max={depth}", f"--cpus_allowed={core}",
    ]  # fmt: skip
    program = bench.harness.start(Side.PLAIN, words, cwd=path.parent)
    await_reads(program.pid)
    return Slice(program, program.pid)


def ours(loop: Loop, path: Path, size: int, depth: int, order: str, core: int) -> Slice:
    control = loop.bench.harness.status()["pid"]
    words = [loop.program, "device", path, 600, core, size, depth, order, "loop"]
    before = fetched(control)
    program = loop.bench.harness.start(Side.PLAIN, words)
    await_reads(control, before)
    return Slice(program, control)


def own_ring(loop: Loop, path: Path, size: int, depth: int, order: str, core: int) -> Slice:
    """The same program as a user starts it: it is lent the file, and reads by itself."""
    program = loop.bench.harness.start(Side.PLAIN, [loop.program, "device", path, 600, core, size, depth, order, "own"])
    await_reads(program.pid)
    return Slice(program, program.pid)


def await_reads(pid: int, before: int = 0) -> None:
    """Until a reader is at work."""
    for _ in range(500):
        if fetched(pid) > before + 64 * MIB:
            return
        time.sleep(0.01)
    raise RuntimeError(f"process {pid} reads nothing")


def device(bench: Bench, loop: Loop, folder: Path) -> list[Result]:
    """Reads past every cache, by turns of a twentieth of a second.

    The device of a virtual machine is twice as fast in one second as in the next; only what is
    measured side by side, many times, tells anything. A second fio says how much that is."""
    path = sample(folder / "device", 256)
    rows = []
    for name, rate, *case in DEVICE:
        rounds = max(7, int(bench.seconds * rate))
        rates: dict = {}
        # Begun anew several times: how scattered a process's buffers lie is decided at its start.
        for _ in range(bench.repetitions):
            for arm, found in readers_by_turns(bench, loop, path, case, rounds).items():
                rates.setdefault(arm, []).extend(found)
        rows += device_rows(bench, f"direct reads, {name}, {case[1]} under way", rates)
    return rows


def readers_by_turns(bench: Bench, loop: Loop, path: Path, case: list, rounds: int) -> dict:
    """Starts two fio and three of ours, and lets them read by turns."""
    size, depth, theirs, order = case
    arms: dict = {}
    try:
        arms["fio"] = fio(bench, path, size, depth, theirs, loop.server)
        arms["fio again"] = fio(bench, path, size, depth, theirs, loop.server)
        arms["own ring"] = own_ring(loop, path, size, depth, order, loop.server)
        arms["a core each"] = ours(loop, path, size, depth, order, loop.core)
        arms["one core"] = ours(loop, path, size, depth, order, loop.server)
        return by_turns(arms, rounds)
    finally:
        for arm in arms.values():
            arm.end()


def by_turns(arms: dict, rounds: int) -> dict:
    """What each arm has read in each round, MiB/s; the order is another in each round."""
    rates: dict = {arm: [] for arm in arms}
    for _ in range(rounds):
        for arm in random.sample(list(arms), len(arms)):
            rates[arm].append(arms[arm].run() / MIB)
    return rates


def device_rows(bench: Bench, name: str, rates: dict) -> list[Result]:
    note = (
        "direct reads: theirs is the mean of two fio (io_uring engine, as many under way, on the server loop's core); 'own "
        "ring' is how a program without limits reads, on that core as well, the next two are the server loop's reads; the "
        "ratio is the median of the ratios of each round, 'fio again' is the second against the first"
    )
    rows = []
    rates["fios"] = [(one + other) / 2 for one, other in zip(rates["fio"], rates["fio again"])]
    for arm in ("own ring", "a core each", "one core", "fio again"):
        aim = None if arm == "fio again" else 0.95
        theirs = rates["fio" if arm == "fio again" else "fios"]
        row = bench.compare(f"{name}; {arm}", rates[arm], theirs, "MiB/s", aim=aim, cores=arm, note=note)
        rows.append(by_rounds(row, rates[arm], theirs))
    return rows


def fetched(pid: int) -> int:
    """Bytes that the process has had read from devices, readahead included (proc_pid_io(5))."""
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


def shared(bench: Bench, loop: Loop, folder: Path) -> list[Result]:
    """Many readers of one set at once: what the device has read, in sizes of the set."""
    read = []
    for number in range(3):
        path = sample(folder / f"shared-{number}", SHARED_MIB)
        forget(path)
        harness = bench.harness
        control = harness.status()["pid"]
        before = fetched(control)
        words = [loop.program, "scan", path, 65536, 2]
        readers = [harness.start(Side.PLAIN, words, core=core % 2) for core in range(READERS)]
        for reader in readers:
            reader.wait(120)
            last_json(reader)
        read.append((fetched(control) - before) / (SHARED_MIB * MIB))
    note = f"{READERS} processes read {SHARED_MIB} MiB twice each; ours is what the control plane had the device read, in sizes of the set (/proc/PID/io)"
    return [bench.compare("one set, many readers: read from the device", read, [float(READERS)] * 3, "x", better="less", aim=1.1, aim_is="ours at most", note=note)]


def fairness(bench: Bench, loop: Loop, hot: Path) -> list[Result]:
    """A session that reads 4 KiB now and then, alone and beside one that floods."""
    quiet = ["now", hot, bench.seconds, loop.core, 20]

    def beside(flood: list) -> dict:
        seconds = bench.seconds * 3 + 5
        program = bench.harness.start(Side.PLAIN, [loop.program, "flood", hot, seconds, loop.core, *flood])
        try:
            found = loop.run(*quiet)
            if program.process.poll() is not None:
                raise RuntimeError(f"the flood has ended: {program.errors()[-500:]}")
            return found
        finally:
            program.kill()
            program.process.wait()

    floods = {"reads of 1 MiB": [MIB, 256], "reads of 4 KiB": [4096, 256]}
    arms = {"alone": lambda: loop.run(*quiet)} | {name: lambda words=words: beside(words) for name, words in floods.items()}
    samples = bench.alternate(arms, lambda arm: arm())
    median = {arm: [one["p50_ns"] for one in found] for arm, found in samples.items()}
    note = (
        "quiet session: ours is beside a flood of 256 under way, theirs is alone; both clients share one core, "
        "so beside small reads, whose client is always awake, it waits for that core as well"
    )
    return [
        bench.compare(f"quiet session's 4 KiB beside {name}, p50", median[name], median["alone"], "ns", better="less", aim=0.5, cores="two cores", note=note)
        for name in floods
    ]


PIECES = {"trip": round_trip, "batches": batches, "fairness": fairness, "shared": shared, "device": device}


def measure(bench: Bench) -> list[Result]:
    """All of it, or the pieces that DELEGATED names."""
    if bench.harness.plain:
        return []
    folder = bench.harness.folder / "delegated"
    folder.mkdir()
    loop, hot = Loop(bench), sample(folder / "hot", 1)
    loop.run("scan", hot, 65536, 1)
    loop.pin()
    wanted = os.environ.get("DELEGATED", ",".join(PIECES)).split(",")
    return [row for name in wanted for row in PIECES[name](bench, loop, hot if name in ("trip", "batches", "fairness") else folder)]
