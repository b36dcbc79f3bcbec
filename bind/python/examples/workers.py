"""Worker processes that share the work on one version, while the producer goes on.

Every worker attaches by itself and pins the version by its number, so that all of them see the
same one; nothing is pickled but the number.
"""

import multiprocessing

import heliostat
import numpy as np

NAME, PARTS = "example/field", 4


def part_of_sum(number: int, part: int) -> float:
    with heliostat.attach(NAME).numbered(number) as snapshot:
        return float(np.array_split(snapshot.array(), PARTS)[part].sum())


def main() -> None:
    field = np.zeros((2000, 500))
    with heliostat.Region.from_array(field, name=NAME, keep=2, colours=5) as region:
        with multiprocessing.Pool(PARTS) as pool:
            for step in range(1, 6):
                field[:] = step
                number = region.publish().number
                jobs = [(number, part) for part in range(PARTS)]
                answer = pool.starmap_async(part_of_sum, jobs)
                field += 0.5  # the workers read the version, not this
                total = sum(answer.get())
                print(f"step {step}: {total}")
                assert total == step * field.size


if __name__ == "__main__":
    main()
