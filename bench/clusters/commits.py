"""Commits a second: the replicated log (`applications/log`) on three nodes, beside three members of etcd.

Both keep a commit in the memory of two nodes before they acknowledge it: etcd's files are in memory here (a majority
of three), the log has two copies. A commit is one entry of 64 bytes. All members and writers share this machine.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator

import kernel_view
from clusters.arms import Arms, end
from heliostat_run import BINARY, Side
from measure import ROOT, Result, last_json, own_package
from nodes import Cluster

PROGRAM = BINARY.with_name("heliostat-log")
BYTES = 64
WRITERS = (1, 4)
COUNT, QUICK_COUNT = 8_000, 2_000
RATE = re.compile(r"(\d+) transactions a second")


def commits(arms: Arms) -> list[Result]:
    """Each number of writers."""
    putting = own_package(ROOT / "bench/grpc", "heliostat-bench-grpc")
    has_etcd = bool(putting and shutil.which("etcd"))
    rows = []
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(3))
        port = stack.enter_context(etcd(arms)) if has_etcd else 0
        for writers in WRITERS:
            ways = {"log": "log", **({"etcd": "etcd"} if has_etcd else {})}
            found = arms.bench.alternate(
                ways, lambda way: log(arms, cluster, writers) if way == "log" else puts(arms, putting, port, writers)
            )
            what = f"commits of {BYTES} B on two of three nodes, {writers} {'writer' if writers == 1 else 'at once'}"
            rows += [arms.bench.compare(f"{what}, log vs etcd", found["log"], found["etcd"], "/s", aim=1.0)] if has_etcd else []
    return rows


def log(arms: Arms, cluster: Cluster, writers: int) -> float:
    """Transactions a second of writers on nodes in turn."""
    count = (QUICK_COUNT if arms.bench.quick else COUNT) // writers
    words = [PROGRAM, "append", f"commits-{writers}", "--nodes", "1,2,3", "--count", count, "--entries", 1, "--bytes", BYTES]
    # The first one makes the log, alone.
    cluster.run(1, [*words[:5], "--count", 1])
    programs = [cluster.start(1 + n % 3, [*words, "--writer", f"w{n}"]) for n in range(writers)]
    for program in programs:
        if program.wait(300) != 0:
            raise RuntimeError(f"{program.name}: {program.errors()[-500:]}")
    return sum(float(RATE.search(program.errors())[1]) for program in programs)


def puts(arms: Arms, program: Path, port: int, writers: int) -> float:
    """Puts a second of tasks of one process."""
    words = [program, "put", port, BYTES, writers, arms.bench.seconds]
    return last_json(arms.bench.harness.run(Side.PLAIN, [str(word) for word in words], seconds=120))["rate"]


@contextmanager
def etcd(arms: Arms) -> Iterator[int]:
    """Three members on loopback whose files are in memory; the port of one."""
    ports = [(kernel_view.free_port(), kernel_view.free_port()) for _ in range(3)]
    url = lambda port: f"http://127.0.0.1:{port}"  # noqa: E731
    all_members = ",".join(f"m{n}={url(peer)}" for n, (_, peer) in enumerate(ports))
    with tempfile.TemporaryDirectory(prefix="helio-etcd-", dir="/dev/shm") as folder, ExitStack() as stack:
        for n, (client, peer) in enumerate(ports):
            words = ["etcd", "--name", f"m{n}", "--data-dir", f"{folder}/m{n}", "--initial-cluster", all_members]
            words += ["--listen-client-urls", url(client), "--advertise-client-urls", url(client)]
            words += ["--listen-peer-urls", url(peer), "--initial-advertise-peer-urls", url(peer)]
            member = arms.bench.harness.start(Side.PLAIN, words)
            stack.callback(end, member)
        for client, _ in ports:
            kernel_view.wait_listening(client)
        yield ports[0][0]
