"""One side of one arm: `worker.py producer|consumer ARM NAME FOLDER BYTES ADDRESS`.

It connects to the harness and does what it is told until it is told to end: a step (write,
publish), a look (wait for a version, attach, read), or either of both for some seconds without
being told again. Times are CLOCK_MONOTONIC, which both processes share; a step's processor time
is that of all threads of its process, which other programs on the machine disturb less.
"""

from __future__ import annotations

import sys
import time
from multiprocessing.connection import Client
from pathlib import Path

import arms
from load import ELEMENTS_PER_PAGE, Load
from place import Place

clock, cpu_clock = time.monotonic_ns, time.process_time_ns
# The part that the reader of a part reads, of the whole.
PART = 100


def look(consumer, load: Load, order: dict) -> dict | None:
    """Waits for a version and reads it; None when there is none in time."""
    if not consumer.wait(order["limit"]):
        return None
    middle, count = load.elements // 2, max(ELEMENTS_PER_PAGE, load.elements // PART)
    began, began_cpu = clock(), cpu_clock()
    consumer.attach()
    consumer.part(middle, ELEMENTS_PER_PAGE).sum()
    touched = clock()
    if order["want"] == "part":
        consumer.part(middle, count).sum()
        done, read_cpu, whole = clock(), cpu_clock() - began_cpu, True
    else:
        seen = consumer.all()
        seen.sum()
        done, read_cpu = clock(), cpu_clock() - began_cpu
        whole = load.is_whole(seen, order["pattern"])
        del seen
    consumer.release()
    spans = {"first_ns": touched - began, "read_ns": done - began, "read_cpu_ns": read_cpu}
    return spans | {"touched": touched, "done": done, "whole": whole}


def drain(consumer, _load: Load, _order: dict) -> dict:
    """Leaves behind what was published before now, so that the next look meets a new version."""
    seen = 0
    while consumer.wait(0.05):
        consumer.attach()
        consumer.release()
        seen += 1
    return {"seen": seen}


def follow(consumer, load: Load, order: dict) -> dict:
    """Looks at versions until some seconds have passed."""
    ends, seen, torn = clock() + int(order["seconds"] * 1e9), 0, 0
    order = order | {"limit": 0.05}
    while clock() < ends:
        found = look(consumer, load, order)
        seen += found is not None
        torn += found is not None and not found["whole"]
    return {"seen": seen, "torn": torn}


def step(producer, load: Load, order: dict) -> dict:
    """One step: writes, publishes."""
    began, began_cpu = clock(), cpu_clock()
    load.write(producer.memory, order["pattern"])
    written, written_cpu = clock(), cpu_clock()
    producer.publish()
    done, done_cpu = clock(), cpu_clock()
    inside = producer.report() if hasattr(producer, "report") else None
    spans = {"write_ns": written - began, "publish_ns": done - written}
    spans |= {"write_cpu_ns": written_cpu - began_cpu, "publish_cpu_ns": done_cpu - written_cpu}
    return spans | {"at": written, "inside": inside}


def produce(producer, load: Load, order: dict) -> dict:
    """Steps for some seconds, as fast as it can."""
    began, before = clock(), getattr(producer, "forked", 0)
    ends, steps = began + int(order["seconds"] * 1e9), 0
    while clock() < ends:
        load.write(producer.memory, order["pattern"])
        producer.publish()
        steps += 1
    answer = {"steps": steps, "ns": clock() - began}
    if hasattr(producer, "report"):
        answer["seen"] = producer.forked - before
        producer.report()
    return answer


def serve(side, load: Load, wire, jobs: dict) -> None:
    """Does what the harness says until it says None."""
    while (order := wire.recv()) is not None:
        wire.send(jobs[order["job"]](side, load, order))


def serve_consumer(consumer, place: Place, address: str) -> None:
    """The consumer's side over a connection of its own."""
    with Client(address) as wire:
        wire.send("consumer")
        serve(consumer, Load(place.size_bytes), wire, CONSUMER_JOBS)


CONSUMER_JOBS = {"look": look, "follow": follow, "drain": drain}


def serve_producer(arm: arms.Arm, place: Place, address: str) -> None:
    """The producer's side; also reads for itself where the arm's consumer is its child."""
    load = Load(place.size_bytes)
    producer = arm.load(arm.producer)(place)
    with Client(address) as wire:
        wire.send("producer")
        if arm.starts_consumer:
            producer.start_consumer(place, address)
        if arm.consumer == arm.producer:
            order = {"limit": 0, "want": "all", "pattern": "0.1 % scattered"}
            producer.read_child = lambda it: look(it, load, order)

            def with_order(job):
                return lambda it, load, told: (order.update(told), job(it, load, told))[1]

            serve(producer, load, wire, {"step": with_order(step), "produce": with_order(produce)})
        else:
            serve(producer, load, wire, {"step": step, "produce": produce})
    producer.close()


def main() -> None:
    side, name, meeting, folder, size, address = sys.argv[1:]
    arm, place = arms.ARMS[name], Place(meeting, Path(folder), int(size))
    if side == "producer":
        serve_producer(arm, place, address)
    else:
        serve_consumer(arm.load(arm.consumer)(place), place, address)


if __name__ == "__main__":
    main()
