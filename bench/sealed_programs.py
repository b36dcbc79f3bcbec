"""Real programs for the comparison of sandboxes: fio, tar, git, gcc, Python, sqlite3, Redis.

A program is run again and again by bench/programs/again.c inside the sandbox, so that the
sandbox's own start is not counted; Redis is a server inside with its load outside.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import kernel_view
import redis_load
from contest import Contest, Value, Workload
from heliostat_run import Side
from measure import Placement, last_json

FOLDERS, FILES_EACH = 20, 15
INSERTS = 100
SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int count, char **words) { return count > 1 ? atoi(words[1]) : printf("%zu\\n", strlen(words[0])) < 0; }
"""
TREE_NAME = "tree"


def fio(contest: Contest, way: str, path: Path) -> dict[str, float]:
    """fio's own count of reads per second, psync, 4 KiB at random."""
    runtime = max(1, int(contest.bench.seconds))
    words = [
        "fio", "--name=cached", f"--filename={path}", "--rw=randread", "--bs=4k", "--ioengine=psync",
        "--size=64m", "--invalidate=0", "--time_based", f"--runtime={runtime}", "--ramp_time=1", "--thread",
        "--output-format=json", "--randrepeat=0", "--norandommap",
    ]  # fmt: skip
    text = contest.run(way, words, core=0).output()
    return {"iops": json.loads(text[text.index("{"):])["jobs"][0]["read"]["iops"]}


def tree(folder: Path) -> Path:
    """A committed git work tree of 300 small files in 20 folders."""
    root = folder / TREE_NAME
    for number in range(FOLDERS):
        (root / f"part-{number:02}").mkdir(parents=True)
        for file in range(FILES_EACH):
            (root / f"part-{number:02}/file-{file:02}.txt").write_text(f"{number} {file}\n" * 100)
    git = ["git", "-C", str(root), "-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "all"]):
        subprocess.run([*git, *words], check=True, capture_output=True)
    return root


def commands(folder: Path) -> dict[str, list]:
    """What is run again and again, by what it is called."""
    root = tree(folder)
    (folder / "one.c").write_text(SOURCE)
    insert = "".join(f"insert into t values({number}, 'text');" for number in range(INSERTS))
    table = f"create table if not exists t(a, b); delete from t; {insert}"
    return {
        "tar of 300 files": ["tar", "-cf", folder / "out.tar", "-C", root, "."],
        "git status of 300 files": ["git", "-C", root, "status", "--short"],
        "gcc -c": ["gcc", "-O1", "-c", folder / "one.c", "-o", folder / "one.o"],
        "python3 with five imports": ["/usr/bin/python3", "-c", "import json, argparse, subprocess, sqlite3, tempfile"],
        f"sqlite3, {INSERTS} inserts": ["sqlite3", folder / "rows.db", f"pragma synchronous=off; {table}"],
        "sh, ls -lR and wc": ["/bin/sh", "-c", f"ls -lR {root} | wc -l"],
    }  # fmt: skip


def workloads(contest: Contest) -> list[Workload]:
    """Every program whose tool is installed, and Redis."""
    again, seconds, found = contest.bench.program("again"), contest.bench.seconds / 4, []
    for name, words in commands(contest.boxes.folder).items():
        if not shutil.which(str(words[0])):
            print(f"  {words[0]} is not installed: {name} is left out")
            continue

        def sample(way: str, words: list = words) -> dict:
            return last_json(contest.run(way, [again, seconds, *words]))

        found.append(Workload("programs", {"ms": Value(name, "ms")}, sample))
    values = {"c1": Value("Redis GET, 1 connection", "req/s", "more"), "c50": Value("Redis GET, 50 connections", "req/s", "more")}
    return [*found, Workload("programs", values, lambda way: redis(contest, way))]


def redis(contest: Contest, way: str) -> dict[str, float]:
    """GET by a plain redis-benchmark from a server inside, which has one granted port."""
    harness, port = contest.bench.harness, kernel_view.free_port()
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
             "--dir", contest.boxes.folder]  # fmt: skip
    program = harness.start(Side.PLAIN, contest.boxes.command(way, words, port), cwd=contest.boxes.folder, name=way)
    try:
        kernel_view.wait_listening(port, program.process)
        anywhere = Placement("any core", 0, 0)
        server = redis_load.Server(program, redis_load.TCP, anywhere, port, Path())
        return {key: rate(contest, server, clients) for key, clients in (("c1", 1), ("c50", 50))}
    finally:
        program.kill()
        program.process.wait()


def rate(contest: Contest, server: redis_load.Server, clients: int) -> float:
    """Requests per second of one load of about a fifth of the bench's seconds."""
    requests = int(contest.bench.seconds * 5_000)
    words = redis_load.command(server, redis_load.Load(clients), "get", requests)
    program = contest.bench.harness.run(Side.PLAIN, words, seconds=120)
    rows = redis_load.csv_part(program).splitlines()
    if len(rows) != 2:
        raise RuntimeError(f"redis-benchmark said: {program.output()[-300:]}{program.errors()[-300:]}")
    return float(rows[1].split(",")[1].strip('"'))
