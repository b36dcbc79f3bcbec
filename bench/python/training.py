"""Trains a network with Adam and checkpoints it: by a blocking save, by a thread, by snapshots.

    training.py train WAY --folder DIR [--hidden N --steps N --every N --resume FILE --digests]
    training.py write NAME FOLDER

Parameters and both moments lie in one array, the step's number last, so a checkpoint is one
array. Prints one JSON object. `write` is the other process of the way `snapshot`: it pins each
newest version and writes it. With PyTorch, `--tensors` lets a tensor own the memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

WAYS = ["none", "save", "thread", "snapshot"]
INPUTS = 1024
BATCH = 64
RATE, DECAY, SQUARE_DECAY, TINY = 1e-3, 0.9, 0.999, 1e-8


class Network:
    """Two layers and a ReLU between; inputs are to be reconstructed."""

    def __init__(self, state: np.ndarray, hidden: int) -> None:
        self.state = state
        count = 2 * INPUTS * hidden
        self.weights, self.mean, self.square = (state[at * count : (at + 1) * count] for at in range(3))
        self.first = self.weights[: count // 2].reshape(INPUTS, hidden)
        self.second = self.weights[count // 2 :].reshape(hidden, INPUTS)
        self.gradient, self.scratch = np.empty(count, np.float32), np.empty(count, np.float32)

    @property
    def step(self) -> int:
        return int(self.state[-1])

    def begin(self) -> None:
        """Fresh weights, the same each time."""
        self.state[:] = 0
        random = np.random.default_rng(1)
        self.weights[:] = random.standard_normal(len(self.weights), np.float32) * 0.02

    def learn(self) -> float:
        """One step on the batch that its number says; the loss."""
        inputs = np.random.default_rng(self.step).standard_normal((BATCH, INPUTS), np.float32)
        hidden = np.maximum(inputs @ self.first, 0)
        error = hidden @ self.second - inputs
        half = len(self.gradient) // 2
        np.matmul(hidden.T, error, out=self.gradient[half:].reshape(self.second.shape))
        back = (error @ self.second.T) * (hidden > 0)
        np.matmul(inputs.T, back, out=self.gradient[:half].reshape(self.first.shape))
        self.adam(self.step + 1)
        self.state[-1] += 1
        return float(np.mean(error * error))

    def adam(self, step: int) -> None:
        """The update, in place: every page of the state is written."""
        gradient, scratch = self.gradient, self.scratch
        self.mean *= DECAY
        self.mean += np.multiply(gradient, 1 - DECAY, out=scratch)
        self.square *= SQUARE_DECAY
        np.multiply(gradient, gradient, out=scratch)
        scratch *= 1 - SQUARE_DECAY
        self.square += scratch
        np.sqrt(np.divide(self.square, 1 - SQUARE_DECAY**step, out=scratch), out=scratch)
        scratch += TINY
        np.divide(self.mean, scratch, out=scratch)
        scratch *= RATE / (1 - DECAY**step)
        self.weights -= scratch


def save(folder: Path, state: np.ndarray) -> None:
    """Writes a checkpoint, named by its step, and waits until the disk has it."""
    path = folder / f"step-{int(state[-1]):04}.npy"
    with open(path.with_suffix(".part"), "wb") as file:
        np.save(file, state)
        file.flush()
        os.fdatasync(file.fileno())
    path.with_suffix(".part").rename(path)


class Checkpoints:
    """One way to make them. `make` returns as soon as training may go on."""

    def __init__(self, way: str, state: np.ndarray, folder: Path) -> None:
        self.way, self.state, self.folder = way, state, folder
        self.thread: threading.Thread | None = None
        if way == "snapshot":
            import heliostat

            name = f"training-{os.getpid()}"
            self.region = heliostat.Region.from_array(state, name=name)
            for _ in range(2):  # the first use of a slot copies it whole
                self.region.declare(state)
                self.region.publish()
            words = [sys.executable, __file__, "write", name, str(folder)]
            self.writer = subprocess.Popen(words, stdout=subprocess.PIPE, preexec_fn=on_other_core)
            self.writer.stdout.readline()

    def make(self) -> None:
        if self.way == "save":
            save(self.folder, self.state)
        elif self.way == "thread":
            self.join()
            self.thread = threading.Thread(target=self.write, args=[self.state.copy()])
            self.thread.start()
        elif self.way == "snapshot":
            self.region.publish()

    def write(self, copy: np.ndarray) -> None:
        on_other_core()
        save(self.folder, copy)

    def join(self) -> None:
        if self.thread:
            self.thread.join()

    def end(self) -> None:
        """Waits for what is being written."""
        self.join()
        if self.way == "snapshot":
            self.region.close()
            if self.writer.wait(60) != 0:
                raise RuntimeError("the writer failed")


def on_other_core() -> None:
    """Moves this thread to the last core there is."""
    os.sched_setaffinity(0, {max(ALLOWED)})


ALLOWED = os.sched_getaffinity(0)


def memory(length: int, tensors: bool) -> np.ndarray:
    """Memory for the state; of a PyTorch tensor if asked for."""
    if tensors:
        import torch

        return torch.zeros(length, dtype=torch.float32).numpy()
    return np.zeros(length, np.float32)


def train(asked: argparse.Namespace) -> None:
    """Trains and checkpoints; times of steps and stalls, and digests if asked for."""
    state = memory(6 * INPUTS * asked.hidden + 1, asked.tensors)
    network = Network(state, asked.hidden)
    network.begin()
    if asked.resume:
        state[:] = np.load(asked.resume)
    checkpoints = Checkpoints(asked.way, state, asked.folder)
    os.sched_setaffinity(0, {min(ALLOWED)})
    steps, stalls, digests = [], [], {}
    network.learn()
    while network.step < asked.steps:
        began = time.perf_counter()
        loss = network.learn()
        learnt = time.perf_counter()
        if network.step % asked.every == 0:
            if asked.digests:
                digests[network.step] = zlib.crc32(state)
            before = time.perf_counter()
            checkpoints.make()
            stalls.append(time.perf_counter() - before)
        steps.append(learnt - began)
    checkpoints.end()
    final = zlib.crc32(state) if asked.digests else 0
    print(json.dumps({
        "way": asked.way, "bytes": state.nbytes, "steps": steps, "stalls": stalls, "loss": loss,
        "digests": digests, "final": final,
    }))  # fmt: skip


def write(name: str, folder: Path) -> None:
    """The other process: writes every version but the first ones, until the region ends."""
    import heliostat

    source = heliostat.attach(name)
    seen = source.latest_number
    print("ready", flush=True)
    for version in source.versions(after=seen):
        save(folder, version.array())
        version.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["train", "write"])
    parser.add_argument("way")
    parser.add_argument("where", nargs="?", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("."))
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=21)
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--resume", type=Path)
    parser.add_argument("--digests", action="store_true")
    parser.add_argument("--tensors", action="store_true")
    asked = parser.parse_args()
    train(asked) if asked.what == "train" else write(asked.way, asked.where)


if __name__ == "__main__":
    main()
