"""The ways in which another process gets at the flux, each with its producer's and consumer's side.

    own data   not at all; the consumer analyses as much memory of its own (the control)
    snapshot   a heliostat.Region over the flux, engine as probed
    spin lock  the flux in multiprocessing.RawArray, a multiprocessing.Lock held while a step changes
               it and while it is read. It is taken by `acquire(block=False)` in a loop: a
               compare-and-swap of a word in shared memory, and the nearest to a spin lock that
               Python has. Who wants it says so, and is let in between two steps.
    copy       a copy in RawArray, made and read under such a Lock, which sleeps

The bell of the ways without a region is a multiprocessing.Semaphore, which sleeps in a futex as a
region's does.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import time
import zlib

import numpy as np

WAYS = ["own data", "snapshot", "spin lock", "copy"]
CONTEXT = multiprocessing.get_context("fork")
READY, STEP, STOPPED, WANTED, ANALYSED, CHECKED, WRONG, BUSY_NS = range(8)
EXPECTED, REMEMBERED = 8, 1024
# Looks at the lock between two yields: spinning alone never ends where both share a core.
LOOKS = 200


def spectrum(flux: np.ndarray) -> int:
    """The analysis: population per group, and how many values lie in each power of two. Its digest,
    never 0, differs when a bit of it does."""
    powers = ((flux.view(np.uint64) >> 52) & 0x7FF).astype(np.int64) - 1023 + 48
    histogram = np.bincount(powers.clip(0, 63).ravel(), minlength=64)
    return zlib.crc32(histogram.tobytes(), zlib.crc32(flux.sum(axis=0).tobytes())) | 1 << 32


def private(shape: tuple[int, int]) -> np.ndarray:
    """Zeros of this process alone, whole pages."""
    memory = mmap.mmap(-1, shape[0] * shape[1] * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, np.float64).reshape(shape)


def shared(shape: tuple[int, int]) -> np.ndarray:
    """Zeros that a forked process shares."""
    return np.frombuffer(CONTEXT.RawArray("d", shape[0] * shape[1]), np.float64).reshape(shape)


class Sharing:
    """The producer's side, and what the forked consumer gets of it. Ends with `end`."""

    def __init__(self, way: str, shape: tuple[int, int], core: int) -> None:
        self.way, self.shape, self.region, self.shares = way, shape, None, 0
        self.words = np.frombuffer(CONTEXT.RawArray("q", EXPECTED + REMEMBERED), np.int64)
        self.lock, self.bell = CONTEXT.Lock(), CONTEXT.Semaphore(0)
        self.name = f"sweep-{os.getpid()}-{time.monotonic_ns()}"
        self.flux = shared(shape) if way == "spin lock" else None
        self.copy = shared(shape) if way == "copy" else None
        self.consumer = CONTEXT.Process(target=consume, args=(self, core), daemon=True)
        # Before the private memory exists: a child would have its pages too.
        self.consumer.start()
        if self.flux is None:
            self.flux = private(shape)
        if way == "snapshot":
            import heliostat

            self.region = heliostat.Region.from_array(self.flux, name=self.name)
        if way == "spin lock":
            # Held by the producer but for the moments in which it shares.
            spin(self.lock)
        self.await_consumer()

    def await_consumer(self) -> None:
        """Until the consumer is attached."""
        for _ in range(30_000):
            if self.words[READY]:
                return
            if not self.consumer.is_alive():
                break
            time.sleep(0.001)
        raise RuntimeError(f"{self.way}: the consumer does not start")

    def share(self) -> None:
        """Between two steps: shows the flux to the consumer as the next version."""
        self.shares += 1
        if self.region is not None:
            if self.region.publish().number != self.shares:
                raise RuntimeError(f"{self.way}: the version of step {self.shares} has another number")
            return
        if self.way == "copy":
            with self.lock:
                np.copyto(self.copy, self.flux)
                self.words[STEP] = self.shares
        else:
            self.words[STEP] = self.shares
        if self.way == "spin lock":
            self.lock.release()
            self.bell.release()
            while self.words[WANTED] and self.consumer.is_alive():
                os.sched_yield()
            spin(self.lock)
        else:
            self.bell.release()

    def expect(self) -> None:
        """Remembers this process's own analysis of what the next version will show."""
        self.words[EXPECTED + (self.shares + 1) % REMEMBERED] = spectrum(self.flux)

    def end(self) -> None:
        """Ends the consumer; RuntimeError if it failed."""
        self.words[STOPPED] = 1
        if self.way == "spin lock":
            self.lock.release()
        self.bell.release()
        if self.region is not None:
            self.region.close()
        self.consumer.join(30)
        if self.consumer.exitcode != 0:
            self.consumer.kill()
            raise RuntimeError(f"{self.way}: the consumer ended with {self.consumer.exitcode}")


def spin(lock) -> None:
    """Takes the lock without sleeping."""
    looks = 0
    while not lock.acquire(block=False):
        looks += 1
        if looks % LOOKS == 0:
            os.sched_yield()


def consume(sharing: Sharing, core: int) -> None:
    """The consumer's process: analyses each newest version until the end."""
    os.sched_setaffinity(0, {core})
    if sharing.way == "snapshot":
        import heliostat

        source = heliostat.attach(sharing.name, timeout=20)
        sharing.words[READY] = 1
        for version in source.versions():
            began = time.perf_counter_ns()
            note(sharing.words, version.number, spectrum(version.array()), began)
        return
    own = np.full(sharing.shape, 0.5)
    sharing.words[READY] = 1
    seen = 0
    while True:
        sharing.bell.acquire()
        if sharing.words[STOPPED]:
            return
        if sharing.words[STEP] > seen:
            seen = analyse(sharing, own)


def analyse(sharing: Sharing, own: np.ndarray) -> int:
    """The newest step of a way without versions; its number."""
    words, began = sharing.words, time.perf_counter_ns()
    if sharing.way == "spin lock":
        words[WANTED] = 1
        spin(sharing.lock)
        words[WANTED] = 0
        step, digest = int(words[STEP]), spectrum(sharing.flux)
        sharing.lock.release()
        if words[STOPPED]:
            # Let in by the end, after a step that was never shared.
            return step
    elif sharing.way == "copy":
        with sharing.lock:
            step, digest = int(words[STEP]), spectrum(sharing.copy)
    else:
        step, digest = int(words[STEP]), spectrum(own)
    note(words, step, digest, began)
    return step


def note(words: np.ndarray, step: int, digest: int, began: int) -> None:
    """Counts an analysis, and compares it with the producer's if that made one."""
    expected = words[EXPECTED + step % REMEMBERED]
    words[ANALYSED] += 1
    words[BUSY_NS] += time.perf_counter_ns() - began
    if expected:
        words[CHECKED] += 1
        words[WRONG] += expected != digest
