"""Request and response beside busy loops: what waiting costs where others want the cores too.

A cell is: where the two programs and the loops live (one session, a session each, a control
group each), how many busy loops there are, how much each side works for a turn, and how many
connections ask at once. Arms by turns: direct, `--no-direct`, plain. Aim in every cell: median,
p99 and CPU time per turn of both programs never more than 10 % above plain's.

`--quick` takes a choice of cells in 3 minutes, the whole takes more than an hour;
CONTENDED=WORD[,WORD] takes the cells whose names hold each of the words.
"""

from __future__ import annotations

import os
import statistics
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, Program, Side
from measure import Bench, Result, Value, last_json

PLACES = ("one session", "own sessions", "own cgroups")
LOOPS_PER_CORE = (0, 1, 2, 4, 8)
WORK_US = (0, 30, 60, 300)
CONNECTIONS = (1, 16, 64)
ARMS = {"direct": ["run", "--"], "--no-direct": ["run", "--no-direct", "--"], "plain": None}
VALUES = (
    Value("p50_us", "p50", "us", "less"),
    Value("p99_us", "p99", "us", "less"),
    Value("cpu_us", "CPU of both", "us/turn", "less"),
)
AIM = 1 / 1.1
CGROUP_ROOTS = ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup")
# Dies with the shell that started it, which dies with this process.
BUSY = "setpriv --pdeathsig KILL sh -c 'while :; do :; done'"
INTO_GROUP = 'echo $$ > "$0" && exec "$@"'


@dataclass(frozen=True)
class Cell:
    """One condition. `how` is what both ends wait in: threads that block, or epoll."""

    place: str
    loops: int
    work_us: int
    connections: int
    how: str = "threads"

    def __str__(self) -> str:
        busy = f"{self.loops} loops" if self.loops != 1 else "1 loop"
        return f"{self.place}, {busy}, {self.work_us} us, {self.connections} by {self.how}"


def all_cells() -> list[Cell]:
    """Every condition; one loop alone beside those that burden each core, and epoll at one load."""
    loops = sorted({1, *(len(os.sched_getaffinity(0)) * per_core for per_core in LOOPS_PER_CORE)})
    blocking = [
        Cell(place, busy, work, count)
        for place in PLACES for busy in loops for work in WORK_US for count in CONNECTIONS
    ]  # fmt: skip
    return blocking + [
        Cell(place, busy, work, count, "epoll")
        for place in PLACES for busy in (0, 1, loops[-2]) for work in (0, 60) for count in (1, 16)
    ]  # fmt: skip


def few_cells() -> list[Cell]:
    """One of each kind, for a minute's look."""
    cores = len(os.sched_getaffinity(0))
    here, apart, groups = PLACES
    return [
        Cell(here, 0, 0, 1), Cell(here, 0, 30, 1), Cell(here, 0, 60, 1), Cell(here, 0, 300, 1),
        Cell(here, 0, 0, 16), Cell(here, 0, 60, 1, "epoll"),
        Cell(here, 1, 0, 1), Cell(here, cores, 30, 1), Cell(here, 4 * cores, 0, 1),
        Cell(here, 4 * cores, 30, 1), Cell(here, 8 * cores, 300, 1), Cell(here, 4 * cores, 30, 16),
        Cell(apart, 0, 0, 1), Cell(apart, 1, 0, 1), Cell(apart, 1, 0, 1, "epoll"),
        Cell(apart, 1, 30, 16), Cell(apart, 4 * cores, 30, 1), Cell(apart, 4 * cores, 0, 1, "epoll"),
        Cell(groups, 1, 0, 1), Cell(groups, 4 * cores, 30, 1),
    ]  # fmt: skip


def cells(quick: bool) -> list[Cell]:
    """The chosen cells, less those in control groups where none can be made."""
    words = [word for word in os.environ.get("CONTENDED", "").split(",") if word]
    chosen = few_cells() if quick and not words else all_cells()
    return [
        cell for cell in chosen
        if all(word in str(cell) for word in words) and (cell.place != PLACES[2] or cgroup_root())
    ]  # fmt: skip


def cgroup_root() -> Path | None:
    """The folder in which groups with a share of CPU time can be made, if there is one."""
    for root in map(Path, CGROUP_ROOTS):
        shares = [root / "cpu.shares", root / "cgroup.subtree_control"]
        has_cpu = shares[0].exists() or (shares[1].exists() and "cpu" in shares[1].read_text().split())
        if has_cpu and os.access(root, os.W_OK):
            return root
    return None


@contextmanager
def groups_of(cell: Cell):
    """{role: file that takes a process into its control group}; the groups go at the end."""
    if cell.place != PLACES[2]:
        yield {}
        return
    folders = {
        role: cgroup_root() / f"heliostat-bench-{os.getpid()}-{role}" for role in ("server", "client", "loops")
    }
    try:
        for folder in folders.values():
            folder.mkdir()
        yield {role: folder / "cgroup.procs" for role, folder in folders.items()}
    finally:
        for folder in folders.values():
            kernel_view.wait_until(lambda at=folder: _is_removed(at), 20, f"an end of {folder}")


def _is_removed(folder: Path) -> bool:
    try:
        folder.rmdir()
    except FileNotFoundError:
        pass
    except OSError:
        return False
    return True


def start(bench: Bench, cell: Cell, groups: dict, role: str, words: list) -> Program:
    """Starts one program at its cell's place."""
    if role in groups:
        words = ["sh", "-c", INTO_GROUP, groups[role], *words]
    return bench.harness.start(Side.PLAIN, words, name=role, session=cell.place != PLACES[0])


def end(programs: list[Program]) -> None:
    for program in programs:
        program.kill()
        program.process.wait()


@contextmanager
def busy_loops(bench: Bench, cell: Cell, groups: dict):
    """The cell's loops, all in one session or group of their own."""
    loops = " & ".join([BUSY] * cell.loops) + " & wait"
    started = [start(bench, cell, groups, "loops", ["sh", "-c", loops])] if cell.loops else []
    try:
        yield
    finally:
        end(started)


def once(bench: Bench, cell: Cell, groups: dict, prefix: list | None) -> dict:
    """One arm's figures in one cell."""
    under = [] if prefix is None else [BINARY, *prefix]
    turns, port = bench.program("turns"), kernel_view.free_port()
    server = start(bench, cell, groups, "server", [*under, turns, "server", port, cell.how, cell.work_us])
    try:
        kernel_view.wait_listening(port, server.process, 60)
        words = [turns, "client", port, cell.how, cell.work_us, cell.connections, bench.seconds]
        client = start(bench, cell, groups, "client", [*under, *words])
        client.wait(120)
        figures = last_json(client)
    finally:
        end([server])
    return {**figures, "cpu_us": figures["client_cpu_us"] + figures["server_cpu_us"]}


def sample(bench: Bench, cell: Cell) -> dict:
    """{arm: [figures, ...]} of one cell, the arms in turn."""
    arms = {"plain": None} if bench.harness.plain else ARMS
    with groups_of(cell) as groups, busy_loops(bench, cell, groups):
        return bench.alternate(arms, lambda prefix: once(bench, cell, groups, prefix))


def compare(bench: Bench, cell: Cell, samples: dict) -> list[Result]:
    """Direct against plain, with the aim, and against `--no-direct`."""
    found = []
    for value in VALUES:
        series = {arm: [one[value.key] for one in rounds] for arm, rounds in samples.items()}
        for other, aim in (("plain", AIM), ("--no-direct", None)):
            if other in series:
                found.append(bench.compare(
                    f"{cell}: {value.called} against {other}", series.get("direct", []), series[other],
                    value.unit, better="less", aim=aim,
                ))  # fmt: skip
    return found


def summary(results: list[Result]) -> list[Result]:
    """For each value, in how many cells the aim is met."""
    found = []
    for value in VALUES:
        judged = [one for one in results if f": {value.called} against plain" in one.name and one.ratio]
        if judged:
            met = sum(one.ratio >= AIM for one in judged)
            name = f"cells of {len(judged)} whose {value.called} is at most 1.1 of plain's"
            spread = {"ours": [min(one.ratio for one in judged), max(one.ratio for one in judged)], "theirs": [0, 0]}
            found.append(Result(
                name, met, len(judged), "cells", met / len(judged), 1.0, "ratio at least", spread, "",
                "spread of the first rows: the worst and the best ratio",
            ))  # fmt: skip
    return found


def show(cell: Cell, samples: dict) -> None:
    shown = []
    for arm, rounds in samples.items():
        middle = [statistics.median(one[value.key] for one in rounds) for value in VALUES]
        shown.append(f"{arm} " + " ".join(f"{figure:,.0f}" for figure in middle))
    print(f"  {cell}: p50, p99, CPU us: " + "; ".join(shown), flush=True)


def measure(bench: Bench) -> list[Result]:
    found = []
    for cell in cells(quick=bench.quick):
        samples = sample(bench, cell)
        show(cell, samples)
        found += compare(bench, cell, samples)
    return summary(found) + found
