"""A training loop whose checkpoints are written by another process while it goes on.

The loop pays for a publishing, which copies what changed; writing the file costs it nothing. What
is in the file is one step's weights, never a mixture of two.
"""

import multiprocessing
import tempfile
from pathlib import Path

import heliostat
import numpy as np

STEPS, EVERY = 60, 10


def write_checkpoints(folder: Path) -> None:
    """Writes each version that it gets hold of; slow versions are passed over."""
    for snapshot in heliostat.attach("example/weights", timeout=10).versions():
        state = snapshot.array()
        part = folder / "part.npy"
        np.save(part, state)
        part.rename(folder / f"step-{state['step'][0]}.npy")


def train(region: heliostat.Region) -> None:
    """Least squares by gradient descent, publishing now and then."""
    state = region.array
    random = np.random.default_rng(0)
    wanted = random.random(state["weights"].shape[1])
    for step in range(1, STEPS + 1):
        batch = random.random((64, wanted.size))
        error = batch @ (state["weights"][0] - wanted)
        state["weights"][0] -= 0.1 * (error @ batch) / wanted.size
        state["step"][0] = step
        if step % EVERY == 0:
            print(f"step {step}: error {abs(error).mean():.4f}, {region.publish()}")


def main() -> None:
    kind = np.dtype([("step", "i8"), ("weights", "f8", (1000,))])
    with tempfile.TemporaryDirectory() as folder:
        work = multiprocessing.Process(target=write_checkpoints, args=(Path(folder),))
        with heliostat.Region.allocate(1, kind, name="example/weights") as region:
            work.start()
            train(region)
            last = region.array.copy()
        work.join()
        found = sorted(Path(folder).glob("step-*.npy"))
        print("written:", [path.name for path in found])
        assert np.array_equal(np.load(Path(folder) / f"step-{STEPS}.npy"), last)


if __name__ == "__main__":
    main()
