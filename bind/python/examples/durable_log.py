"""A journal that many tasks append to and share flushes in, and a queue whose worker is killed amid its job."""

import asyncio
import multiprocessing
import os
import tempfile
from pathlib import Path

import heliostat

TASKS, ENTRIES = 20, 10


async def account(log: heliostat.log.Log, number: int) -> None:
    for entry in range(ENTRIES):
        await log.append(f"{number}:{entry}".encode())  # durable from here on


async def accounts(log: heliostat.log.Log) -> None:
    await asyncio.gather(*(account(log, number) for number in range(TASKS)))


def die_at_work(place: Path) -> None:
    queue = heliostat.log.open_queue(place)
    done, lost = queue.pop(), queue.pop()
    done.acknowledge(wait=True)
    os._exit(len(lost))


def main(folder: Path) -> None:
    with heliostat.log.open(folder / "journal", create=1 << 20) as log:
        asyncio.run(accounts(log))
        with heliostat.log.read(folder / "journal") as reader:  # any other process could
            print(sum(1 for _ in reader), "entries")
        log.trim(log.end)

    with heliostat.log.open_queue(folder / "jobs", create=1 << 20) as queue:
        for job in (b"first", b"second", b"third"):
            queue.push_sync(job)
    worker = multiprocessing.get_context("spawn").Process(target=die_at_work, args=(folder / "jobs",))
    worker.start()
    worker.join()
    with heliostat.log.open_queue(folder / "jobs") as queue:
        for item in queue:
            with item:
                print(bytes(item).decode(), "again" if len(item) == worker.exitcode else "")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
