"""Runs one program in three ways, plain, unsealed and sealed, and says what came of it.

Every run gets the same folder, emptied before: what a program prints may name it. What comes of
a run is its exit status, all that it printed and the tree that it left behind. All three ways
run without capabilities, because a sealed program has none: root's own would make differences
that are not the seal's.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shutil
import stat
import sys
from dataclasses import dataclass, field
from pathlib import Path

from heliostat_run import BINARY, Harness, Program, Side, Way

HERE = Path(__file__).resolve().parent
SECONDS = 100
# The lines that `heliostat run` adds: for a program that it cannot preload anything into, and for a
# sealed one that was refused something and ends with an error.
OWN = re.compile("heliostat: (.* runs natively: it is statically linked|[0-9]+ refusals?; --verbose names)")


@dataclass(frozen=True)
class Case:
    """A program and what it needs to be granted beside the system and its own folder."""

    words: tuple = ()
    grants: tuple = ()
    flags: tuple = ()


@dataclass
class Outcome:
    """What a run came to."""

    status: int
    output: list[str]
    tree: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        return [f"status {self.status}", *self.output, *self.tree]


def without_rights() -> list[str]:
    """Words before a command that take root's capabilities away; none for anybody else."""
    return [] if os.getuid() else ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]


def seal(case: Case, folder: Path | None) -> list[str]:
    """The words that run a case sealed, its own folder writable, with the whole environment."""
    grants = [*case.grants, *([f"{folder}:rw"] if folder else [])]
    return [
        str(BINARY),
        "run",
        "--sealed",
        *(word for grant in grants for word in ("--grant", str(grant))),
        *("--env", "*"),
        *case.flags,
        "--",
    ]


def command(way: Way, case: Case, folder: Path | None) -> list[str]:
    """The whole command line of a run."""
    before = {Way.PLAIN: [], Way.UNSEALED: [str(BINARY), "run", "--"]}
    before[Way.SEALED] = seal(case, folder) if way is Way.SEALED else []
    return [*without_rights(), *before[way], *(str(word) for word in case.words)]


def surroundings(folder: Path) -> dict[str, str]:
    """The environment of every run: one place for everything, no language, no time zone."""
    return {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(folder), "TMPDIR": str(folder / "tmp"), "LC_ALL": "C.UTF-8",
            "TZ": "UTC", "TERM": "dumb", "PYTHONDONTWRITEBYTECODE": "1", "XDG_CONFIG_HOME": str(folder / "none"), "SOURCES": str(HERE / "sources")}  # fmt: skip


def start(harness: Harness, way: Way, case: Case, name: str, **more) -> tuple[Program, Path]:
    """Starts a case in a fresh folder; the program and the folder."""
    folder = harness.folder / "work" / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    environment = surroundings(folder) | {"XDG_CACHE_HOME": str(harness.folder / "cache")} | more.pop("env", {})
    program = harness.start(Side.PLAIN, command(way, case, folder), name=name, cwd=folder, env=environment, **more)
    return program, folder


def outcome(harness: Harness, way: Way, case: Case, name: str, seconds: float = SECONDS, **more) -> Outcome:
    """Runs a case to its end."""
    program, folder = start(harness, way, case, name, **more)
    status = program.wait(seconds)
    said = program.output().splitlines() + [
        "! " + line for line in program.errors().splitlines() if not OWN.match(line)
    ]
    return Outcome(status, [steady(line) for line in said], tree(folder))


def steady(line: str) -> str:
    """A line without the process numbers that a shell prints, as wide as they may be."""
    return re.sub(r"(line \d+:|^\[\d+\]|kill: \() *\d{2,}\b", r"\1 PID", line)


def tree(folder: Path) -> list[str]:
    """Type, mode, length and checksum of everything below a folder."""
    found = []
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest()[:12] if stat.S_ISREG(state.st_mode) else ""
        found.append(f"{stat.filemode(state.st_mode)} {path.relative_to(folder)} {content}")
    return found


def difference(expected: Outcome, found: Outcome, way: Way) -> str:
    """What differs, as a unified diff; empty when nothing does."""
    return "\n".join(difflib.unified_diff(expected.lines(), found.lines(), "plain", way.value, lineterm="", n=1))


def python_grants() -> tuple:
    """What this Python itself needs to be read, where it is not the system's."""
    own = {sys.prefix, sys.base_prefix, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))}
    return tuple(f"{path}:ro" for path in sorted(own) if not path.startswith("/usr"))
