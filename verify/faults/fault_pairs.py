"""Starting the pairs that the fault tests hurt, and reading how they ended."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import kernel_view
from heliostat_run import Harness, Program, Side

HERE = Path(__file__).resolve().parent


@dataclass
class Pair:
    """A victim and a survivor with one connection between them."""

    victim: Program
    survivor: Program

    def kill_victim(self, number: int) -> int:
        """Sends the signal; the monotonic time just before, in nanoseconds."""
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.kill(self.victim.pid, number)
        return before

    def survivor_ended(self) -> tuple[str, int]:
        """How the survivor's connection ended, and when."""
        self.survivor.wait(60)
        lines = self.survivor.output().splitlines()
        if len(lines) != 2:
            raise AssertionError(f"{self.survivor.output()}\n{self.survivor.errors()}")
        word, at = lines[1].split()
        return word, int(at)


def start_pair(harness: Harness, side: Side, victim_role: str, victim_does: str, survivor_does: str) -> Pair:
    """Both ends under `side`, connected and ready."""
    port = kernel_view.free_port()
    does = {"accept": survivor_does, "connect": survivor_does, victim_role: victim_does}
    started = {}
    for role in ("accept", "connect"):
        words = [sys.executable, HERE / "stream_end.py", role, port, does[role]]
        started[role] = harness.start(side, words, name=role)
        if role == "accept":
            kernel_view.wait_listening(port, started[role].process)
    for program in started.values():
        kernel_view.wait_until(lambda: "ready" in program.output(), 60, f"{program.name} ready")
    other = "connect" if victim_role == "accept" else "accept"
    return Pair(started[victim_role], started[other])


def start_transfer(harness: Harness, side: Side, seconds: float) -> tuple[Program, Program]:
    """A checked transfer that runs for so long; (taker, sender)."""
    port = kernel_view.free_port()
    script = HERE / "checked_transfer.py"
    taker = harness.start(side, [sys.executable, script, "take", port, seconds], name="take")
    kernel_view.wait_listening(port, taker.process)
    sender = harness.start(side, [sys.executable, script, "send", port, seconds], name="send")
    for program in (taker, sender):
        kernel_view.wait_until(lambda: "ready" in program.output(), 60, f"{program.name} ready")
    return taker, sender


def transfer_result(taker: Program, sender: Program) -> tuple[str, str]:
    """The counts that both ends printed at the end."""
    for program in (sender, taker):
        program.wait(60)
    return sender.output().split("sent ")[-1].strip(), taker.output().split("taken ")[-1].strip()
