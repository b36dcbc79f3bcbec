"""Ray: ray.put by a driver, ray.get in an actor, over the object store of a local cluster.

Large arrays come out of ray.get without a copy, as its documentation promises; the reference
travels to the actor as an argument inside a list, which is how one passes it without fetching
it. The store has room for five arrays, so nothing is spilled. No dashboard, no logs to the driver.
"""

from __future__ import annotations

import os
import queue

import numpy
import ray
from place import Place

ROOM = 5


class Offers:
    """The consumer's side: references that the producer offered; only the newest counts."""

    def __init__(self):
        self.queue = queue.SimpleQueue()
        self.refs, self.seen = None, None

    def wait(self, seconds: float) -> bool:
        try:
            self.refs = self.queue.get(timeout=seconds)
            while not self.queue.empty():
                self.refs = self.queue.get()
        except queue.Empty:
            return False
        return True

    def attach(self) -> None:
        self.seen = ray.get(self.refs[0])

    def part(self, start: int, count: int) -> numpy.ndarray:
        return self.seen[start : start + count]

    def all(self) -> numpy.ndarray:
        return self.seen

    def release(self) -> None:
        self.seen = self.refs = None


class Actor:
    """An actor process with the harness's consumer in it."""

    def __init__(self):
        self.offers = Offers()

    def offer(self, refs: list) -> None:
        self.offers.queue.put(refs)

    def serve(self, folder: str, place: Place, address: str) -> None:
        import sys

        sys.path.insert(0, folder)
        import worker

        worker.serve_consumer(self.offers, place, address)


class Putter:
    """The driver. It starts the cluster and the consumer's actor."""

    def __init__(self, place: Place):
        self.memory = numpy.zeros(place.elements, dtype=numpy.int64)
        ray.init(
            num_cpus=2, object_store_memory=max(ROOM * place.size_bytes, 200 << 20),
            include_dashboard=False, log_to_driver=False, logging_level="ERROR",
            _temp_dir=str(place.folder / "ray"),
            runtime_env={"env_vars": {"PYTHONPATH": os.path.dirname(__file__)}},
        )  # fmt: skip
        self.actor = ray.remote(Actor).options(num_cpus=0, max_concurrency=2).remote()

    def start_consumer(self, place: Place, address: str) -> None:
        self.actor.serve.remote(os.path.dirname(__file__), place, address)

    def publish(self) -> None:
        self.actor.offer.remote([ray.put(self.memory)])

    def close(self) -> None:
        ray.shutdown()
