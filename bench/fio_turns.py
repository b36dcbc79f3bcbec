"""Several fio on one core by turns of a twentieth of a second: what each reads in its turns.

A virtual machine is faster in one second than in the next by more than what is looked for here;
so the arms of a comparison share each second.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from pathlib import Path

from heliostat_run import Program, Side
from measure import Bench

TURN_S = 0.05
# How often it is looked whether fio has forked its worker. What that reads before it is stopped, in
# some milliseconds of which most are its setting up, counts in none of its turns.
LOOK_S = 0.001
# Until all have set themselves up.
SETTLE_S = 0.2


class Reader:
    """One fio whose worker runs only in its turns."""

    def __init__(self, bench: Bench, side: Side, words: list, core: int, folder: Path) -> None:
        words = [*words, "--runtime=600", "--time_based", "--output-format=json"]
        self.program = bench.harness.start(side, words, core=core, cwd=folder)
        self.turns_s = 0.0
        try:
            self.worker = worker_of(self.program)
            self.signal_worker(signal.SIGSTOP)
        except BaseException:
            self.program.kill()
            raise

    def turn(self) -> None:
        began = time.monotonic()
        self.signal_worker(signal.SIGCONT)
        time.sleep(TURN_S)
        self.signal_worker(signal.SIGSTOP)
        self.turns_s += time.monotonic() - began

    def give_up(self) -> None:
        """Ends it at once; its worker may be gone already, which must not hide why."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.worker, signal.SIGCONT)
        self.program.kill()
        self.program.process.wait()

    def signal_worker(self, number: int) -> None:
        """Signals the worker; where it is gone, says what fio said."""
        try:
            os.kill(self.worker, number)
        except ProcessLookupError:
            raise RuntimeError(f"fio's worker is gone: {self.program.output()[-500:]} {self.program.errors()[-500:]}") from None

    def end(self) -> float:
        """Ends it; reads per second of its turns, by its own count."""
        os.kill(self.program.pid, signal.SIGINT)
        self.signal_worker(signal.SIGCONT)
        self.program.wait(30)
        text = self.program.output()
        return json.loads(text[text.index("{"):])["jobs"][0]["read"]["total_ios"] / self.turns_s


def worker_of(program: Program) -> int:
    """The process that fio has forked for its job."""
    for _ in range(5000):
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        named = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text() == "fio\n"]
        if named:
            return named[-1]
        time.sleep(LOOK_S)
    raise RuntimeError(f"fio has no job: {program.errors()[-500:]}")


def by_turns(bench: Bench, arms: dict[str, tuple[Side, list]], turns: int, core: int, folder: Path) -> dict[str, float]:
    """Runs each arm's fio for so many turns, in another order each time; reads per second."""
    readers: dict[str, Reader] = {}
    try:
        for name, (side, words) in arms.items():
            readers[name] = Reader(bench, side, words, core, folder)
        time.sleep(SETTLE_S)
        for _ in range(turns):
            for name in random.sample(list(readers), len(readers)):
                readers[name].turn()
        return {name: reader.end() for name, reader in readers.items()}
    finally:
        for reader in readers.values():
            if reader.program.process.poll() is None:
                reader.give_up()
