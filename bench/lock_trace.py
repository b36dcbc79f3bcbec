"""How often and how long the threads of a process wait for locks of the kernel, by its own trace points.

`lock:contention_begin` and `lock:contention_end` (Linux 5.19) are traced in an instance of this process's own,
for one process and what it makes. It takes root and tracefs; without them there is no such figure.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

TRACING = Path("/sys/kernel/tracing")
BUFFER_KIB = 16384
LINE = re.compile(r"-(\d+)\s+\[\d+\]\s+\S+\s+(\d+\.\d+): contention_(begin|end): ")
COUNT = re.compile(r"(entries|overrun): (\d+)")


def is_possible() -> bool:
    return os.geteuid() == 0 and (TRACING / "events/lock/contention_begin").exists()


class LockTrace:
    """Traces one process while it is entered; then `waits` and `waited_ns` say what was found."""

    def __init__(self, pid: int):
        self.pid, self.waits, self.waited_ns = pid, 0, 0.0
        self.at = TRACING / f"instances/heliostat-{os.getpid()}"

    def write(self, name: str, text: str) -> None:
        (self.at / name).write_text(text)

    def __enter__(self) -> LockTrace:
        self.at.mkdir()
        self.write("buffer_size_kb", str(BUFFER_KIB))
        self.write("options/event-fork", "1")
        self.write("set_event_pid", str(self.pid))
        for event in ("begin", "end"):
            self.write(f"events/lock/contention_{event}/enable", "1")
        self.write("tracing_on", "1")
        return self

    def __exit__(self, *_) -> None:
        self.write("tracing_on", "0")
        try:
            self.read()
        finally:
            self.at.rmdir()

    def read(self) -> None:
        """Pairs begins and ends of each thread; what the buffers have lost is taken to be like the rest."""
        began: dict[str, float] = {}
        with open(self.at / "trace") as lines:
            for line in lines:
                found = LINE.search(line)
                if not found:
                    continue
                thread, seconds, which = found.groups()
                if which == "begin":
                    began.setdefault(thread, float(seconds))
                    continue
                since = began.pop(thread, None)
                if since is not None:
                    self.waits += 1
                    self.waited_ns += (float(seconds) - since) * 1e9
        kept, lost = self.counts()
        scale = (kept + lost) / kept if kept else 1.0
        self.waits, self.waited_ns = round(self.waits * scale), self.waited_ns * scale

    def counts(self) -> tuple[int, int]:
        """Events in the buffers, and events that they have lost."""
        kept = lost = 0
        for stats in self.at.glob("per_cpu/cpu*/stats"):
            for name, count in COUNT.findall(stats.read_text()):
                if name == "entries":
                    kept += int(count)
                elif name == "overrun":
                    lost += int(count)
        return kept, lost
