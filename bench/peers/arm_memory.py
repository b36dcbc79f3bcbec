"""Arms that every Python has: no snapshots at all, a copy under a lock, fork.

`Locked` is the plain copy: the producer copies its array into a SharedMemory under a lock, and
the consumer reads there under the same lock. `Copied` lets go of the lock sooner: its consumer
copies the array out first. Both are what the multiprocessing documentation shows.
"""

from __future__ import annotations

import json
import os
import select
import signal
from multiprocessing import resource_tracker, shared_memory

import numpy
from place import Bell, Lock, Place


def shared(place: Place, create: bool) -> tuple[shared_memory.SharedMemory, numpy.ndarray]:
    """The block of a place and its elements. Its creator unlinks it."""
    memory = shared_memory.SharedMemory(place.name, create, place.size_bytes if create else 0)
    if not create:
        # Python before 3.13 would also unlink it when a process that only attached ends.
        resource_tracker.unregister(memory._name, "shared_memory")
    return memory, numpy.ndarray(place.elements, dtype=numpy.int64, buffer=memory.buf)


class Nothing:
    """No snapshots: what the writes cost by themselves."""

    def __init__(self, place: Place):
        self.memory = numpy.zeros(place.elements, dtype=numpy.int64)

    def publish(self) -> None:
        pass

    def close(self) -> None:
        pass


class Copier:
    """Copies its array into the shared block under the lock."""

    def __init__(self, place: Place):
        self.memory = numpy.zeros(place.elements, dtype=numpy.int64)
        self.block, self.target = shared(place, create=True)
        self.bell, self.lock = Bell(place), Lock(place)

    def publish(self) -> None:
        with self.lock:
            numpy.copyto(self.target, self.memory)
        self.bell.ring()

    def close(self) -> None:
        del self.target
        self.block.close()
        self.block.unlink()


class Locked:
    """Reads the shared block itself, with the lock held from `attach` to `release`."""

    def __init__(self, place: Place):
        self.block, self.target = shared(place, create=False)
        self.bell, self.lock = Bell(place), Lock(place)

    def wait(self, seconds: float) -> bool:
        return self.bell.wait(seconds)

    def attach(self) -> None:
        self.lock.take()

    def part(self, start: int, count: int) -> numpy.ndarray:
        return self.target[start : start + count]

    def all(self) -> numpy.ndarray:
        return self.target

    def release(self) -> None:
        self.lock.give()


class Copied(Locked):
    """Copies the block out under the lock and reads its copy."""

    def __init__(self, place: Place):
        super().__init__(place)
        self.copy = numpy.zeros(place.elements, dtype=numpy.int64)

    def attach(self) -> None:
        with self.lock:
            numpy.copyto(self.copy, self.target)

    def part(self, start: int, count: int) -> numpy.ndarray:
        return self.copy[start : start + count]

    def all(self) -> numpy.ndarray:
        return self.copy

    def release(self) -> None:
        pass


class Forked(Nothing):
    """Each version is a child that reads it. One child at a time: more would only slow it more.

    While a child still reads, a version is dropped, as a consumer that keeps to the latest would.
    The child ends when it has read, which spares the producer most copies of pages.
    """

    STAYS = False

    def __init__(self, place: Place):
        super().__init__(place)
        self.child, self.pipe, self.read_child = 0, -1, None
        self.forked, self.staying = 0, 0

    def publish(self) -> None:
        if self.child and not select.select([self.pipe], [], [], 0)[0]:
            return
        if self.child:
            self.report()
        self.end_child()
        self.forked += 1
        self.pipe, outwards = os.pipe()
        self.child = os.fork()
        if self.child == 0:
            os.write(outwards, json.dumps(self.read_child(self)).encode())
            os.close(outwards)
            if self.STAYS:
                signal.pause()
            os._exit(0)
        os.close(outwards)

    def report(self) -> dict:
        """What the newest child saw; waits until it has read, and for its end unless it stays."""
        with os.fdopen(self.pipe, "rb") as pipe:
            text = pipe.read()
        self.child, self.staying = 0, self.child
        if not self.STAYS:
            self.end_child()
        return json.loads(text)

    def end_child(self) -> None:
        """Ends a child that has read."""
        if self.staying:
            os.kill(self.staying, signal.SIGKILL)
            os.waitpid(self.staying, 0)
            self.staying = 0

    def close(self) -> None:
        self.end_child()

    def wait(self, _seconds: float) -> bool:
        return True

    def attach(self) -> None:
        pass

    def part(self, start: int, count: int) -> numpy.ndarray:
        return self.memory[start : start + count]

    def all(self) -> numpy.ndarray:
        return self.memory

    def release(self) -> None:
        pass


class ForkedAndHeld(Forked):
    """The child keeps its version until the next one is made, as a consumer that goes on reading
    does: the producer's writes copy pages meanwhile."""

    STAYS = True
