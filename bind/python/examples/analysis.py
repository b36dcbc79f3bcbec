"""Looks into a running simulation: a wave on a string, and its spectrum drawn as it goes on.

The simulation knows nothing of the analysis, and never waits for it.
"""

import multiprocessing
import time

import heliostat
import numpy as np

POINTS, STEPS = 4096, 4000


def simulate(seconds: float) -> None:
    """Publishes every tenth step of the wave equation."""
    place = np.linspace(0, 1, POINTS)
    with heliostat.Region.allocate((2, POINTS), name="example/wave") as region:
        now, before = region.array
        now[:] = before[:] = np.exp(-(((place - 0.3) / 0.02) ** 2))
        ends = time.monotonic() + seconds
        for step in range(STEPS):
            bend = np.zeros(POINTS)
            bend[1:-1] = now[2:] - 2 * now[1:-1] + now[:-2]
            before[:] = 2 * now - before + 0.25 * bend
            now[:], before[:] = before.copy(), now.copy()
            if step % 10 == 0:
                region.publish()
            if time.monotonic() > ends:
                break


def draw(spectrum: np.ndarray) -> str:
    """Eight octaves as a line of blocks."""
    octaves = [spectrum[2**k : 2 ** (k + 1)].mean() for k in range(1, 10)]
    heights = np.log10(np.array(octaves) + 1e-12)
    return "".join(" ▁▂▃▄▅▆▇█"[int(np.clip((height + 6) * 8 / 8, 0, 8))] for height in heights)


def main() -> None:
    work = multiprocessing.Process(target=simulate, args=(2.0,))
    work.start()
    seen = 0
    for snapshot in heliostat.attach("example/wave", timeout=10).versions():
        now, before = snapshot.array()
        energy = ((now - before) ** 2).sum()
        if seen % 20 == 0:
            print(f"version {snapshot.number:4}  energy {energy:.3e}  {draw(abs(np.fft.rfft(now)))}")
        seen += 1
        time.sleep(0.005)
    work.join()
    print(f"{seen} of {snapshot.number} versions were looked at")


if __name__ == "__main__":
    main()
