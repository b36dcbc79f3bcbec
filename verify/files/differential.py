"""The same operations on the same files, by a plain reader and by one under Heliostat.

`python verify/files/differential.py --operations 1000000 [--seed N] [--sealed]`. This process is the writer
from outside: between batches it overwrites, appends, truncates, punches holes, maps and writes,
renames over and unlinks. Each batch goes to both readers, and each answer (number, errno, bytes)
must be equal. The share of reads that made no system call is the kernel's own count
(/proc/PID/io), so that a pass is not a native pass. The seed is printed; it replays the run.
"""

from __future__ import annotations

import argparse
import errno
import mmap
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent)]

from heliostat_run import BINARY, Harness, Side  # noqa: E402

OPERATIONS = (
    "OPEN CLOSE PREAD READ SEEK READV PREADV DUP SIZE CHILD_READS INTO_NOWHERE SENDFILE PWRITE "
    "TRUNCATE SPLICE THREAD_READS HALF_NOWHERE PREADV2 LOCK_HERE"
).split()
COMMAND, ANSWER = struct.Struct("<IIqQq"), struct.Struct("<qiI")
SLOTS, FILES, BATCH = 6, 6, 200
SIZES = [0, 1, 100, 4095, 4096, 4097, 20000, 65536, 300_000, 1_048_576]
LENGTHS = [0, 1, 7, 16, 64, 100, 511, 512, 513, 4096, 8192, 65536, 100_000]
# How often each operation is drawn. A file is mapped after hundreds of reads, so most slots keep theirs
# for long; after a fork every offset is shared for good.
WEIGHTS = {
    "PREAD": 300, "READ": 150, "SEEK": 60, "READV": 25, "PREADV": 25, "PREADV2": 10, "OPEN": 0.5,
    "CLOSE": 0.1, "DUP": 0.3, "SIZE": 20, "INTO_NOWHERE": 2, "HALF_NOWHERE": 2, "SENDFILE": 2,
    "SPLICE": 2, "LOCK_HERE": 2, "CHILD_READS": 0.05, "THREAD_READS": 0.6,
}  # fmt: skip
SEEK_DATA, SEEK_HOLE = 3, 4


@dataclass(frozen=True)
class Command:
    """One line for the readers."""

    operation: str
    slot: int
    offset: int = 0
    length: int = 0
    argument: int = 0

    def packed(self) -> bytes:
        number = OPERATIONS.index(self.operation)
        return COMMAND.pack(number, self.slot, self.offset, self.length, self.argument)


class Reader:
    """A running reader program."""

    def __init__(self, harness: Harness, prefix: list[str], program: Path, paths: list[Path]):
        command = [*prefix, str(program), *map(str, paths)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, env=harness.environment())

    def ask(self, commands: list[Command]) -> list[tuple[int, int, bytes]]:
        """(result, errno, bytes) of each command."""
        batch = struct.pack("<I", len(commands)) + b"".join(one.packed() for one in commands)
        self.process.stdin.write(batch)
        self.process.stdin.flush()
        return [self.one_answer() for _ in commands]

    def one_answer(self) -> tuple[int, int, bytes]:
        head = self.process.stdout.read(ANSWER.size)
        if len(head) < ANSWER.size:
            raise AssertionError(f"the reader ended with {self.process.wait()}")
        result, error, count = ANSWER.unpack(head)
        return result, error, self.process.stdout.read(count)

    def reads(self) -> int:
        """Read calls that reached the kernel."""
        lines = Path(f"/proc/{self.process.pid}/io").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("syscr"))

    def end(self) -> None:
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def commands(chance: random.Random, count: int) -> list[Command]:
    """A batch that changes no file."""
    names = chance.choices(list(WEIGHTS), list(WEIGHTS.values()), k=count)
    return [command(chance, name) for name in names]


def command(chance: random.Random, name: str) -> Command:
    """One drawn command; now and then with an offset or a size that is wrong."""
    size = chance.choice(SIZES)
    offset = chance.choice([0, size, max(0, size - 5), chance.randrange(size + 2), -1 if chance.random() < 0.02 else 3])
    argument = chance.randrange(SLOTS)
    if name == "OPEN":
        flags = chance.choice([os.O_RDONLY] * 40 + [os.O_RDWR, os.O_RDONLY | os.O_CLOEXEC, os.O_DIRECTORY])
        argument = chance.randrange(FILES + 1) | flags << 8
    if name == "SEEK":
        argument = chance.choice([os.SEEK_SET, os.SEEK_CUR, os.SEEK_END, SEEK_DATA, SEEK_HOLE, 9])
        offset = chance.choice([0, offset, -7 if argument else offset])
    return Command(name, chance.randrange(SLOTS), offset, chance.choice(LENGTHS), argument)


class Writer:
    """Changes files from outside."""

    def __init__(self, chance: random.Random, paths: list[Path]):
        self.chance, self.paths = chance, paths
        self.ways = [self.fill, self.overwrite, self.append, self.truncate]
        self.ways += [self.punch, self.by_mapping, self.replace, self.unlink]

    def change(self) -> str:
        path, way = self.chance.choice(self.paths), self.chance.choice(self.ways)
        way(path)
        return f"{way.__name__} {path.name}"

    def bytes(self, count: int) -> bytes:
        return self.chance.randbytes(count)

    def fill(self, path: Path) -> None:
        path.write_bytes(self.bytes(self.chance.choice(SIZES)))

    def overwrite(self, path: Path) -> None:
        with open(path, "r+b" if path.exists() else "wb") as file:
            file.seek(self.chance.choice(SIZES))
            file.write(self.bytes(self.chance.choice(LENGTHS)))

    def append(self, path: Path) -> None:
        with open(path, "ab") as file:
            file.write(self.bytes(self.chance.choice(LENGTHS)))

    def truncate(self, path: Path) -> None:
        if path.exists():
            os.truncate(path, self.chance.choice(SIZES))

    def punch(self, path: Path) -> None:
        """A hole, by writing far behind the end."""
        self.truncate(path)
        with open(path, "ab") as file:
            os.pwrite(file.fileno(), b"after a hole", 400_000)

    def by_mapping(self, path: Path) -> None:
        if not path.exists() or not path.stat().st_size:
            return
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
            at = self.chance.randrange(len(memory))
            memory[at : at + 1] = self.bytes(1)

    def replace(self, path: Path) -> None:
        fresh = path.with_suffix(".new")
        self.fill(fresh)
        os.rename(fresh, path)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)


def inside(chance: random.Random) -> Command:
    """A write or truncation by the readers themselves, the same by both."""
    if chance.random() < 0.5:
        return Command("PWRITE", chance.randrange(SLOTS), chance.choice(SIZES), 100, chance.randrange(256))
    return Command("TRUNCATE", chance.randrange(SLOTS), chance.choice(SIZES))


def compiled(folder: Path) -> Path:
    program = folder / "reader"
    gcc = ["gcc", "-O2", "-Wall", "-Wextra", "-pthread", "-o", str(program), str(HERE / "reader.c")]
    subprocess.run(gcc, check=True)
    return program


def show(one: tuple[int, int, bytes]) -> str:
    result, error, content = one
    return f"{result} {errno.errorcode.get(error, error)} {content[:16].hex()}...({len(content)})"


def same(batch: list[Command], answers: list, what: str) -> None:
    """Raises with the first difference."""
    for place, (told, plain, ours) in enumerate(zip(batch, *answers)):
        if plain != ours:
            raise AssertionError(f"{what}, command {place}: {told}\n  plain {show(plain)}\n  ours  {show(ours)}")


def run(harness: Harness, operations: int, seed: int, folder: Path, kills: bool = False, sealed: bool = False) -> dict:
    """Runs until so many operations were equal; counts of what was done."""
    chance = random.Random(seed)
    paths = [folder / f"file{number}" for number in range(FILES)]
    writer = Writer(chance, paths)
    for path in paths:
        writer.fill(path)
    program = compiled(folder)
    # One path more than is ever made: opening it fails.
    ours = harness.command(Side.HELIOSTAT, [])
    if sealed:
        ours = [str(BINARY), "run", "--sealed", "--grant", f"{folder}:rw", "--"]
    readers = [Reader(harness, prefix, program, [*paths, folder / "missing"]) for prefix in ([], ours)]
    done, changes = 0, 0
    begin = [Command("OPEN", slot, argument=slot % FILES) for slot in range(SLOTS)]
    try:
        same(begin, [reader.ask(begin) for reader in readers], f"seed {seed}, the first opens")
        while done < operations:
            what = "nothing"
            if chance.random() < 0.1:
                what, changes = writer.change(), changes + 1
            if chance.random() < 0.05:
                one = inside(chance)
                same([one], [reader.ask([one]) for reader in readers], f"seed {seed}, operation {done}, inside")
            if kills and chance.random() < 0.002:
                os.kill(harness.control_plane(), signal.SIGKILL)
                harness.call("run", "--", "/bin/true")
            batch = commands(chance, BATCH)
            same(batch, [reader.ask(batch) for reader in readers], f"seed {seed}, operation {done}, after {what}")
            done += BATCH
        plain = readers[0].reads()
        # A sealed reader is not the process that was started.
        ours = None if sealed else readers[1].reads()
    finally:
        for reader in readers:
            reader.end()
    return {"operations": done, "changes": changes, "reads": plain, "in the kernel": ours}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--kills", action="store_true", help="kill the control plane now and then")
    parser.add_argument("--sealed", action="store_true", help="the reader under Heliostat is sealed")
    asked = parser.parse_args()
    print(f"replay: python verify/files/differential.py --operations {asked.operations} --seed {asked.seed}{' --sealed' * asked.sealed}", flush=True)
    with Harness() as harness, tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp")) as folder:
        print(run(harness, asked.operations, asked.seed, Path(folder), asked.kills, asked.sealed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
