"""An unmodified Redis under a write load, checkpointed from outside and by its own BGSAVE.

Both ways run in turn on one server, which this benchmark starts itself: `heliostat snapshot
publish` with `save` of every region, and BGSAVE, which forks. A client pings all the time; what it
feels is the figure, beside what each way says of its own stop. *First* is a publisher that begins,
so all memory is copied; *further* are versions of a publisher that has been there for a while.
"""

from __future__ import annotations

import array
import json
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, ROOT, Program, Side
from measure import Bench, Result

PINGS = ROOT / "bench/python/redis_pings.py"
PERIOD_US = 500
VALUE_BYTES = 1024
BEFORE_S = 1.0
FURTHER = 3
FILL = "for i=0,ARGV[1]-1 do redis.call('set', string.format('key:%012d', i), string.rep(string.char(i%251), 1024)) end"
NOTES = {
    "stop": "what each way says itself: threads held (publish), time of fork(2) (BGSAVE)",
    "max": "longest wait of a client that pings every 0.5 ms, from the start of a checkpoint to the end of its files",
    "p999": "99.9 % of those pings take at most this long",
    "rate": "SET per second meanwhile, relative to the second before, in per cent",
    "memory": "greatest Pss of server, fork and publisher together (looked at every 20 ms), less the server's before",
    "within": "bytes copied within the stop",
}


@dataclass
class Server:
    """A redis-server of our own, filled, with its clients."""

    bench: Bench
    mib: int
    share: int
    program: Program
    socket: Path
    samples: dict = field(default_factory=lambda: {"first": [], "further": [], "bgsave": []})

    def ask(self, *words: str) -> str:
        command = ["redis-cli", "-s", str(self.socket), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def info(self, name: str) -> int:
        lines = self.ask("info", "everything").splitlines()
        return int(next(line for line in lines if line.startswith(f"{name}:")).split(":")[1])


def measure(bench: Bench) -> list[Result]:
    """Rows by size of the store and share of it that is written."""
    is_quick = bench.seconds < 1
    sizes = [64] if is_quick else [64, 256, 512] if bench.full else [256]
    rows: list[Result] = []
    for mib in sizes:
        for share in [100] if is_quick else [10, 100]:
            server = start(bench, mib, share)
            for _ in range(2 if is_quick else min(bench.repetitions, 3)):
                checkpoint(server, outside)
                checkpoint(server, bgsave)
            server.program.kill()
            server.program.process.wait()
            rows += results(server)
    return rows


def start(bench: Bench, mib: int, share: int) -> Server:
    """A server with `mib` MiB of values, on all cores, without persistence of its own accord."""
    path = bench.harness.folder / f"outside-{mib}-{share}.sock"
    words = ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no", "--rdbcompression", "no"]
    words += ["--dir", bench.harness.folder, "--dbfilename", f"outside-{mib}-{share}.rdb"]
    server = Server(bench, mib, share, bench.harness.start(Side.PLAIN, words), path)
    kernel_view.wait_until(path.exists, 20, "redis-server")
    server.ask("eval", FILL, "0", str(keys(mib)))
    return server


def keys(mib: int) -> int:
    return mib * 2**20 // VALUE_BYTES


def checkpoint(server: Server, way) -> None:
    """One checkpoint by `way` under load, watched by pings and looks at memory."""
    written = keys(server.mib) * server.share // 100
    load = ["redis-benchmark", "-s", server.socket, "-t", "set", "-d", VALUE_BYTES, "-r", written]
    load += ["-c", 2, "-n", 10**9]
    harness = server.bench.harness
    bare = pss([server.program.pid])
    with running(harness.start(Side.PLAIN, load)), pinged(server) as pings:
        time.sleep(0.5)
        before = window(server, lambda: time.sleep(BEFORE_S))[1]
        for name, sample in way(server):
            sample["kept"] = 100 * sample.pop("rate") / before
            sample["memory"] = sample.pop("peak") - bare
            server.samples[name].append(sample)
    for samples in server.samples.values():
        for sample in samples:
            if "between" in sample:
                feel(sample, pings)


def feel(sample: dict, pings: dict) -> None:
    """What the pings felt between begin and end."""
    begin, end = sample.pop("between")
    felt = sorted(us for due, us in pings["all"] if begin <= due <= end)
    sample["max"], sample["p999"] = felt[-1] / 1e3, felt[len(felt) * 999 // 1000] / 1e3


def window(server: Server, work) -> tuple[tuple[float, float], float]:
    """When `work` began and ended, and commands per second meanwhile."""
    begun, count = time.monotonic(), server.info("total_commands_processed")
    work()
    count = server.info("total_commands_processed") - count
    ended = time.monotonic()
    return (begun, ended), count / (ended - begun)


def watched(server: Server, work, *more: int) -> dict:
    """The same as the beginning of a sample, with the greatest memory of everybody involved."""
    peak, over = [0.0], threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            peak[0] = max(peak[0], pss([server.program.pid, *children(server.program.pid), *more]))

    looker = threading.Thread(target=look)
    looker.start()
    try:
        between, rate = window(server, work)
    finally:
        over.set()
        looker.join()
    return {"between": between, "rate": rate, "peak": peak[0]}


def bgsave(server: Server) -> list[tuple[str, dict]]:
    """Redis's own checkpoint: a fork that writes."""

    def work() -> None:
        server.ask("bgsave")
        kernel_view.wait_until(lambda: not server.info("rdb_bgsave_in_progress"), 60, "BGSAVE")

    sample = watched(server, work)
    return [("bgsave", {**sample, "stop": server.info("latest_fork_usec") / 1e3, "within": 0})]


def outside(server: Server) -> list[tuple[str, dict]]:
    """A publisher from its start to its first files, then further versions of it and their files."""
    harness, samples = server.bench.harness, []
    words = ["snapshot", "publish", server.program.pid, "--memory", "largest:4", "--as", "redis"]
    words += ["--every", "1200ms", "--count", FURTHER + 1, "--json"]
    publisher = harness.start(Side.PLAIN, [BINARY, *words], name="publish")
    with running(publisher):
        for count in range(1, FURTHER + 2):
            sample = watched(server, lambda: saved(harness, publisher, count), publisher.pid)
            made = lines(publisher)[count - 1]
            if any(region["error"] for region in made["regions"]):
                raise RuntimeError(f"a version failed: {made}")
            sample["stop"] = made["stopped_ns"] / 1e6
            sample["within"] = made["copied_while_stopped_bytes"] / 2**20
            samples.append(("first" if count == 1 else "further", sample))
    return samples


def saved(harness, publisher: Program, count: int) -> None:
    """Waits for that version, and writes all its regions to files."""

    def is_made() -> bool:
        if publisher.process.poll() is not None:
            raise RuntimeError(f"the publisher ended: {publisher.errors()}")
        return len(lines(publisher)) >= count

    kernel_view.wait_until(is_made, 60, "a version")
    for region in lines(publisher)[count - 1]["regions"]:
        path = harness.folder / "outside.hsnap"
        path.unlink(missing_ok=True)
        # As the RDB is: how well values compress is not what is compared.
        harness.call("snapshot", "save", region["name"], str(path), "--no-compress")


def lines(program: Program) -> list[dict]:
    return [json.loads(line) for line in program.output().splitlines() if line.endswith("}")]


@contextmanager
def running(program: Program):
    try:
        yield program
    finally:
        program.kill()
        program.process.wait()


@contextmanager
def pinged(server: Server):
    """A client that pings meanwhile; afterwards {"all": [(due, us), ...]}."""
    out, found = server.bench.harness.folder / "pings", {}
    words = [sys.executable, PINGS, server.socket, str(PERIOD_US), out]
    client = subprocess.Popen([str(word) for word in words], stdin=subprocess.PIPE)
    try:
        yield found
    finally:
        client.stdin.close()
        client.wait(30)
    pairs = array.array("d", out.read_bytes())
    found["all"] = list(zip(pairs[::2], pairs[1::2]))


def children(pid: int) -> list[int]:
    """Forks of a process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def pss(pids: list[int]) -> float:
    """Proportional memory of some processes together, in MiB; of those that are there."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024


def results(server: Server) -> list[Result]:
    """First and further versions against BGSAVE."""
    rows = []
    theirs = server.samples["bgsave"]
    for kind in ("first", "further"):
        ours = server.samples[kind]
        head = f"{server.mib} MiB, {server.share} % of keys written: {kind} version vs BGSAVE"
        for key, called, unit, better in (
            ("stop", "own stop", "ms", "less"),
            ("max", "longest ping", "ms", "less"),
            ("p999", "ping p99.9", "ms", "less"),
            ("kept", "throughput kept", "%", "more"),
            ("memory", "extra memory", "MiB", "less"),
        ):
            lists = [[max(one[key], 0.001) for one in samples] for samples in (ours, theirs)]
            note = NOTES["rate" if key == "kept" else key]
            rows.append(
                server.bench.compare(f"{head}: {called}", *lists, unit, better=better, cores="two cores", note=note)
            )
        within = [one["within"] for one in ours]
        spread = {"ours": [min(within), max(within)], "theirs": [0, 0]}
        rows.append(
            Result(f"{head}: copied within the stop", statistics.median(within), 0, "MiB", None, None, "",
                   spread, "two cores", NOTES["within"])
        )  # fmt: skip
    return rows
