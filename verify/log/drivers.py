"""The same driver of logs and queues in three languages, each a program that takes a command a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from heliostat_run import BINARY, BUILT, ROOT

HERE = Path(__file__).resolve().parent
LANGUAGES = ("rust", "c", "python")
SECONDS = 120


class Driver:
    """A running driver."""

    def __init__(self, words: list[str | Path], environment: dict[str, str] | None = None, user: int | None = None) -> None:
        environment = {**os.environ, **(environment or {})}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(words, text=True, env=environment, user=user, bufsize=1, **pipes)

    def ask(self, command: str) -> str:
        """What it answers to one command."""
        print(command, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().rstrip("\n")
        assert answer, f"{command}: the driver has ended: {self.process.stderr.read()}"
        return answer

    def close(self) -> None:
        """Lets it come to its end."""
        try:
            _, errors = self.process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        assert self.process.returncode == 0, errors

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.process.kill()
            self.process.communicate()


def is_reachable(path: Path) -> bool:
    """Whether every folder of a path may be passed by all users."""
    return all(folder.stat().st_mode & 1 for folder in path.parents)


class Drivers:
    """Builds what the drivers need, once."""

    def __init__(self) -> None:
        # Other users have to reach it, and pytest's folders are its user's alone.
        self.made = tempfile.TemporaryDirectory(prefix="helio-drivers-", dir="/var/tmp")
        self.folder = Path(self.made.name)
        self.folder.chmod(0o755)

    def words(self, language: str) -> tuple[list[str | Path], dict[str, str]]:
        """How the driver of a language is started."""
        if language == "rust":
            return [self._copy(BUILT / "log-driver")], {}
        if language == "c":
            return [self._compiled()], {}
        environment = {"PYTHONPATH": str(self._package()), "HELIOSTAT_BIN": str(BINARY)}
        return [sys.executable, self._copy(HERE / "driver.py")], environment

    def start(self, language: str, user: int | None = None, surroundings: dict[str, str] | None = None) -> Driver:
        if user is not None and language == "python" and not is_reachable(Path(sys.executable).resolve()):
            pytest.skip("this Python lies where other users do not reach it")
        words, environment = self.words(language)
        return Driver(words, {**(surroundings or {}), **environment}, user)

    def _copy(self, path: Path) -> Path:
        there = self.folder / path.name
        if not there.exists():
            shutil.copy(path, there)
        return there

    def _compiled(self) -> Path:
        program = self.folder / "driver-c"
        if not program.exists():
            command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "bind/c/include"]
            libraries = [BUILT / "libheliostat_c.a", "-lpthread", "-ldl", "-lm"]
            subprocess.run([*command, HERE / "driver.c", *libraries, "-o", program], check=True)
        return program

    def _package(self) -> Path:
        """The package as it lies in the tree, with the module as it was built."""
        place = self.folder / "package"
        if not place.exists():
            shutil.copytree(ROOT / "bind/python/python", place, ignore=shutil.ignore_patterns("_bin", "__pycache__"))
            shutil.copy(BUILT / "libheliostat_python.so", place / "heliostat/_native.abi3.so")
        return place


def log_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder on a disk: the usual temporary one may be memory."""
    folder = tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="log-")
    Path(folder.name).chmod(0o777)
    return folder
