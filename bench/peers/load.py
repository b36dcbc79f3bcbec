"""What a producer writes in a step, and how a consumer knows that it saw a whole step.

Every written page gets one store of the step's number, at "all" every byte is written. Four
sets of pages take turns, because a program that always writes the same pages flatters whoever
remembers them. The first element always holds the step.
"""

from __future__ import annotations

import numpy

PAGE_BYTES = 4096
ELEMENTS_PER_PAGE = PAGE_BYTES // 8
SETS = 4
PATTERNS = ("0.1 % scattered", "10 % scattered", "10 % contiguous", "100 %")
# Elements looked at when a version is checked: enough to meet a stale chunk, cheap enough to stay.
PROBES = 64


def pages_of(pattern: str, pages: int, turn: int) -> numpy.ndarray:
    """The pages that a step of this pattern writes, in its turn; every page for "100 %"."""
    share = {"0.1": 0.001, "10": 0.1, "100": 1.0}[pattern.split()[0]]
    count = max(1, int(pages * share))
    if count == pages:
        return numpy.arange(pages)
    if pattern.endswith("contiguous"):
        start = turn * (pages - count) // SETS
        return numpy.arange(start, start + count)
    return numpy.random.default_rng(turn).choice(pages, count, replace=False)


class Load:
    """The writes of all patterns over an array of 8-byte integers."""

    def __init__(self, size_bytes: int):
        self.pages = size_bytes // PAGE_BYTES
        self.elements = size_bytes // 8
        self.step = 0
        self.sets = {
            pattern: [
                pages_of(pattern, self.pages, turn) * ELEMENTS_PER_PAGE for turn in range(SETS)
            ]
            for pattern in PATTERNS
        }

    def written_pages(self, pattern: str) -> int:
        return len(self.sets[pattern][0])

    def write(self, memory: numpy.ndarray, pattern: str) -> None:
        """One step: the next number into the pages whose turn it is."""
        self.step += 1
        if pattern == "100 %":
            memory.fill(self.step)
        else:
            memory[self.sets[pattern][self.step % SETS]] = self.step
        memory[0] = self.step

    def is_whole(self, seen: numpy.ndarray, pattern: str) -> bool:
        """Whether `seen` is one step of this pattern: all that it wrote is there, nothing later."""
        step = int(seen[0])
        chosen = self.sets[pattern][step % SETS]
        probes = seen[chosen[:: max(1, len(chosen) // PROBES)]]
        return bool((probes == step).all() and (seen[:: self.elements // PROBES] <= step).all())
