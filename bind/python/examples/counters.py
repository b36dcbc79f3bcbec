"""A histogram that four processes fill at once, in memory that all of them write.

Each counter is a word of a memory region, so that no increment is lost and nobody takes a lock; the
parent looks at all of them as an array.
"""

import multiprocessing
import random

import heliostat

NAME, WORKERS, BINS, DRAWS = "example/histogram", 4, 10, 5000


def fill(seed: int) -> None:
    draw = random.Random(seed)
    with heliostat.memory.open().map(NAME, "atomic") as histogram:
        for _ in range(DRAWS):
            histogram.fetch_add(8 * draw.randrange(BINS), 1)


def main() -> None:
    with heliostat.memory.open().allocate(8 * BINS, name=NAME) as histogram:
        counters = histogram.array("u8")
        with multiprocessing.Pool(WORKERS) as pool:
            pool.map(fill, range(WORKERS))
        print(counters, counters.sum())
        assert counters.sum() == WORKERS * DRAWS


if __name__ == "__main__":
    main()
