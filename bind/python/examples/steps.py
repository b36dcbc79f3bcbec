"""A simulation that writes all of its field in each step, and a process that reads every step.

A snapshot would copy everything each time; a queue's slot is written and read where it lies.
"""

import multiprocessing

import heliostat

NAME, STEPS = "example/steps", 20


def read(is_ready) -> None:
    steps = heliostat.attach_queue(NAME)
    is_ready.set()
    for item in steps.items():
        print(f"item {item.number}: mean {item.copy().mean():.1f}")


def main() -> None:
    context = multiprocessing.get_context("spawn")
    is_ready = context.Event()
    with heliostat.Queue.create(NAME, (1000, 100), "f8", slots=4) as queue:
        reader = context.Process(target=read, args=(is_ready,))
        reader.start()
        is_ready.wait()
        for step in range(STEPS):
            with queue.reserve(timeout=None) as field:
                field[...] = step
    reader.join()
    assert reader.exitcode == 0


if __name__ == "__main__":
    main()
