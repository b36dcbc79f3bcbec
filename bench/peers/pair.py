"""A producer and a consumer of one arm as two processes, and what can be asked of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from multiprocessing.connection import Connection, Listener
from pathlib import Path

from arms import Arm

WORKER = Path(__file__).with_name("worker.py")
# A cluster takes ten seconds to start on a small machine; a gigabyte over sockets takes two.
PATIENCE_S = 60.0


class Missing(RuntimeError):
    """The arm could not be installed, started, or stopped answering: with the reason."""


class Pair:
    """Both sides of one arm over one array, until `close`."""

    def __init__(self, arm_name: str, arm: Arm, size_bytes: int):
        self.arm, self.name = arm, arm_name
        self.folder = tempfile.TemporaryDirectory(prefix="peers-", dir="/tmp")
        meeting = f"peers-{os.getpid()}-{Path(self.folder.name).name[-4:]}"
        self.words = [arm_name, meeting, self.folder.name, str(size_bytes)]
        self.address = f"{self.folder.name}/harness"
        self.listener = Listener(self.address)
        self.sides: dict[str, Connection] = {}
        self.processes: list[subprocess.Popen] = []
        try:
            self._start()
        except BaseException:
            self.close()
            raise

    def _start(self) -> None:
        # SST's writer waits for its reader while it opens: both must be on their way.
        self._spawn("producer")
        overlaps = self.name == "ADIOS2 SST"
        if overlaps:
            self._spawn("consumer")
        else:
            self._greet()
        if self.arm.has_consumer() and not (overlaps or self.arm.starts_consumer):
            self._spawn("consumer")
        while len(self.sides) < 1 + self.arm.has_consumer():
            self._greet()

    def _spawn(self, side: str) -> None:
        errors = open(f"{self.folder.name}/{side}.err", "wb")
        words = [sys.executable, str(WORKER), side, *self.words, self.address]
        self.processes.append(subprocess.Popen(words, stderr=errors, stdout=errors))

    def _greet(self) -> None:
        """Takes one side's connection; a process that ended first is the reason for no pair."""
        stop = threading.Timer(PATIENCE_S, self._poke)
        watch = threading.Thread(target=self._watch, daemon=True)
        stop.start(), watch.start()
        try:
            wire = self.listener.accept()
            self.sides[wire.recv()] = wire
        except EOFError:
            raise Missing(self._reason()) from None
        finally:
            stop.cancel()

    def _watch(self) -> None:
        """Ends the wait for a side whose process has ended."""
        expected = len(self.sides) + 1
        for process in list(self.processes):
            process.wait()
            if len(self.sides) < expected:
                self._poke()

    def _poke(self) -> None:
        """A connection that says nothing wakes `accept`."""
        import socket

        with socket.socket(socket.AF_UNIX) as poke:
            try:
                poke.connect(self.address)
            except OSError:
                pass

    def _reason(self) -> str:
        """The last line that a side printed, or that it did not answer."""
        for side in ("producer", "consumer"):
            path = Path(self.folder.name) / f"{side}.err"
            lines = path.read_text(errors="replace").strip().splitlines() if path.exists() else []
            if lines:
                return lines[-1][:200]
        return f"no answer in {PATIENCE_S:.0f} s"

    def ask(self, **orders: dict) -> dict:
        """Gives each named side its order, the consumer first; {side: answer}."""
        for side in ("consumer", "producer"):
            if side in orders:
                self.sides[side].send(orders[side])
        answers = {}
        for side in orders:
            if not self.sides[side].poll(PATIENCE_S):
                raise Missing(f"{side}: {self._reason()}")
            try:
                answers[side] = self.sides[side].recv()
            except (EOFError, ConnectionResetError):
                raise Missing(f"{side} ended: {self._reason()}") from None
        return answers

    def memory_bytes(self) -> int:
        """Proportional set size of both sides and of every process they started."""
        return sum(pss_bytes(pid) for pid in tree(os.getpid()) if pid != os.getpid())

    def close(self) -> None:
        for wire in self.sides.values():
            try:
                wire.send(None)
            except OSError:
                pass
        for process in self.processes:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.listener.close()
        self.folder.cleanup()


def tree(root: int) -> list[int]:
    """A process and all below it."""
    found = [root]
    for task in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            found += [pid for child in task.read_text().split() for pid in tree(int(child))]
        except OSError:
            pass  # It ended meanwhile.
    return found


def pss_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:"))
