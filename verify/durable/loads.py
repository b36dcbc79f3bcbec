"""Clients that write into a Redis server, one under Heliostat and one plain, and what was acknowledged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kernel_view
from heliostat_run import Harness, Program, Side

HERE = Path(__file__).resolve().parent
# Each client's numbers begin at a multiple of this.
NUMBERS = 10**8


class Load:
    """One client program; it outlives the servers that it writes to."""

    def __init__(self, harness: Harness, side: Side, place: int, connections: int) -> None:
        self.connections, self.first = connections, place * NUMBERS
        self.next = self.first
        self.acknowledged: set[int] = set()
        self.read, self.ended = 0, True
        words = [sys.executable, HERE / "redis_load.py", place]
        self.program: Program = harness.start(side, words, name=f"load-{side.value}", stdin=subprocess.PIPE)

    def begin(self, port: int) -> None:
        """Writes to the server of this port until that is gone."""
        self.ended = False
        self.program.process.stdin.write(f"{port} {self.next} {self.connections}\n".encode())
        self.program.process.stdin.flush()

    def sent(self) -> int:
        """How many numbers have been used up, by runs that have ended."""
        return self.next - self.first

    def look(self) -> int:
        """Takes note of what was acknowledged since; how many there are in all."""
        with open(self.program.stdout, "rb") as output:
            output.seek(self.read)
            lines = output.read()
        whole = lines[: lines.rfind(b"\n") + 1]
        self.read += len(whole)
        for line in whole.splitlines():
            if line.startswith(b"end "):
                self.ended, self.next = True, int(line[4:])
            else:
                self.acknowledged.add(int(line))
        return len(self.acknowledged)

    def await_more(self, number: int, seconds: float = 60) -> None:
        """Waits for so many more acknowledged writes: the server goes on."""
        wanted = self.look() + number
        kernel_view.wait_until(lambda: self.look() >= wanted, seconds, f"{number} more writes of {self.program.name}")

    def await_end(self) -> None:
        """Waits until the client has seen that the server is gone."""

        def is_over() -> bool:
            self.look()
            if self.program.process.poll() is not None:
                raise RuntimeError(f"the client ended\n{self.program.errors()[-2000:]}")
            return self.ended

        kernel_view.wait_until(is_over, 60, f"the end of {self.program.name}'s run")
