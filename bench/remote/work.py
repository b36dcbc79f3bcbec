"""What a workload is, how its programs are run, and what all share: harness, namespace, folders."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import kernel_view
from far_clients import FarClients
from heliostat_run import BINARY, Harness, Program, Side
from measure import Bench


@dataclass(frozen=True)
class Run:
    """How a program is run: plainly, under Heliostat, or with flags of `heliostat run`."""

    side: Side
    flags: tuple[str, ...] = ()

    def words(self, harness: Harness, words: list) -> list:
        """The program's words with what is before them."""
        if not self.flags:
            return harness.command(self.side, words)
        return [str(BINARY), "run", *self.flags, "--", *map(str, words)]

    @property
    def label(self) -> str:
        return "".join([self.side.value, *self.flags])


PLAIN, COVERED = Run(Side.PLAIN), Run(Side.HELIOSTAT)


@dataclass
class Workload:
    """A server, or nothing, and one measurement of it."""

    name: str
    unit: str
    start: Callable[[Run], object]
    sample: Callable[[Run, object], float]
    # Loops can carry its connections: not those of a server that makes a process for each.
    is_carried: bool = True
    # What its best partition is to reach, and what a reader should know.
    aim: float | None = None
    about: str = ""


@dataclass
class Far:
    """What the workloads share."""

    bench: Bench
    clients: FarClients

    @property
    def harness(self) -> Harness:
        return self.bench.harness

    def folder(self, name: str, run: Run) -> Path:
        folder = self.harness.folder / f"{name}-{run.label}"
        folder.mkdir(mode=0o755, exist_ok=True)
        return folder

    def run_there(self, words: list, seconds: float = 120) -> str:
        """A program in the other namespace, plainly; what it printed."""
        return self.run_all_there([words], seconds)[0]

    def run_all_there(self, commands: list[list], seconds: float = 120) -> list[str]:
        """Programs in the other namespace, plainly and at once; what each printed."""
        started = [self.harness.start(Side.PLAIN, self.clients.command(words), name=str(words[0])) for words in commands]
        for program in started:
            if program.wait(seconds) != 0:
                for one in started:
                    one.kill()
                raise RuntimeError(f"{program.name}: {program.errors()[-500:]}{program.output()[-500:]}")
        return [program.output() for program in started]

    def serve(self, run: Run, words: list, name: str, port: int) -> Program:
        program = self.harness.start(Side.PLAIN, run.words(self.harness, words), name=name)
        kernel_view.wait_listening(port, program.process)
        return program


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if not found:
        raise RuntimeError(f"no figure at {pattern} in: {text[-500:]}")
    return float(found[1])


def found(program: str) -> str | None:
    """A program, also where Debian keeps it outside PATH; of PostgreSQL the newest."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return shutil.which(program, path=os.pathsep.join([*places, os.environ.get("PATH", os.defpath), "/usr/sbin"]))


def is_there(need: str) -> bool:
    """Whether a program is installed, a user exists (`user NAME`), or Python has a module (`module NAME`)."""
    kind, _, name = need.rpartition(" ")
    if kind == "user":
        return subprocess.run(["id", name], capture_output=True, check=False).returncode == 0
    return importlib.util.find_spec(name) is not None if kind == "module" else found(name) is not None
