"""Delegated operations: round trips, batches, the device, one cache for many, and fairness.

Aims: a cached 4 KiB read within twice (a cache line there and back, and a copy of 4 KiB); reads
past the caches at 95 % of fio's io_uring engine on the same file; many readers of one set read
the device once; a quiet session's latency while another floods within twice of alone.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from heliostat_run import ROOT, Side
from measure import Bench, Result, last_json, placements

PACKAGE = "heliostat-bench-delegated"
MIB = 1 << 20
READERS = 4
SHARED_MIB = 64
SESSIONS = 4
BATCHES = (1, 2, 4, 8, 16, 32, 64)
DEVICE = [
    # (name, bytes, under way, fio's word, ours)
    ("1 MiB in order", MIB, 16, "read", "seq"),
    ("64 KiB random", 64 * 1024, 32, "randread", "rand"),
    ("4 KiB random", 4096, 64, "randread", "rand"),
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
        bench.house.call("run", "--", "/bin/true")

    def run(self, *words: object) -> dict:
        return last_json(self.bench.house.run(Side.PLAIN, [self.program, *words], seconds=120))

    def pin(self) -> None:
        """Puts the server loop on its core; it has started with the first session."""
        pid = self.bench.house.status()["pid"]
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text().startswith("server-loop"):
                os.sched_setaffinity(int(task.name), {self.server})

    def status(self) -> dict:
        return self.bench.house.status()["delegated"]


def sample(path: Path, mib: int) -> Path:
    """A file that is on the disk, and whose last change is past."""
    with open(path, "wb") as file:
        for number in range(mib):
            file.write(number.to_bytes(8, "little") * (MIB // 8))
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


def fio(bench: Bench, path: Path, size: int, depth: int, order: str, core: int) -> float:
    words = [
        "fio", "--name=device", f"--filename={path}", f"--rw={order}", f"--bs={size}", "--ioengine=io_uring", "--direct=1",
        f"--iodepth={depth}", "--time_based", f"--runtime={max(1, int(bench.seconds))}", "--output-format=json",
        "--norandommap", "--randrepeat=0", f"--iodepth_batch_complete_max={depth}", f"--cpus_allowed={core}",
    ]  # fmt: skip
    program = bench.house.run(Side.PLAIN, words, cwd=path.parent)
    text = program.output()
    return json.loads(text[text.index("{"):])["jobs"][0]["read"]["bw_bytes"]


def device(bench: Bench, loop: Loop, folder: Path) -> list[Result]:
    """Reads past every cache."""
    path = sample(folder / "device", 256)
    rows = []
    for name, size, depth, theirs, ours in DEVICE:
        arms = {
            "ours": lambda: loop.run("device", path, max(1, int(bench.seconds)), loop.core, size, depth, ours)["bytes_per_s"],
            # On the loop's core: how far the core is from the device's interrupts is worth 30 %.
            "fio": lambda: fio(bench, path, size, depth, theirs, loop.server),
        }
        samples = bench.alternate(arms, lambda arm: arm())
        mib = {arm: [value / MIB for value in values] for arm, values in samples.items()}
        note = "direct reads: theirs is fio's io_uring engine with as many under way, on the server loop's core"
        rows.append(bench.compare(f"direct reads, {name}, {depth} under way", mib["ours"], mib["fio"], "MiB/s", aim=0.95, cores="two cores", note=note))
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
        house = bench.house
        control = house.status()["pid"]
        before = fetched(control)
        words = [loop.program, "scan", path, 65536, 2]
        readers = [house.start(Side.PLAIN, words, core=core % 2) for core in range(READERS)]
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
        program = bench.house.start(Side.PLAIN, [loop.program, "flood", hot, seconds, loop.core, *flood])
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
    if bench.house.plain:
        return []
    folder = bench.house.folder / "delegated"
    folder.mkdir()
    loop, hot = Loop(bench), sample(folder / "hot", 1)
    loop.run("scan", hot, 65536, 1)
    loop.pin()
    wanted = os.environ.get("DELEGATED", ",".join(PIECES)).split(",")
    return [row for name in wanted for row in PIECES[name](bench, loop, hot if name in ("trip", "batches", "fairness") else folder)]
