"""Unmodified programs plain, unsealed and sealed: what they print, return and leave is the same.

A case is a script in scripts/ or a program in sources/, with the least that it has to be granted.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from heliostat_run import Harness, copies_descriptors
from ways import HERE, Case, Outcome, Way, difference, outcome, python_grants

SCRIPTS = sorted((HERE / "scripts").glob("*.sh"))
SOURCES = HERE / "sources"
JOURNALS = ["delete", "truncate", "persist", "wal"]
COMPILED = {
    "c": ["cc", "-O1", "-w", "-pthread", "-static", "-o", "{out}", SOURCES / "work.c"],
    "rust": ["rustc", "-o", "{out}", SOURCES / "work.rs"],
    "rust-static": ["rustc", "-C", "target-feature=+crt-static", "-o", "{out}", SOURCES / "work.rs"],
    "go": ["go", "build", "-o", "{out}", SOURCES / "work.go"],
}
# What a program listens at and connects to.
FLAGS = {"go": ("--listen", "127.0.0.1:*", "--connect", "127.0.0.1:*")}
# What tail says where inotify does not exist: docs/sealed.md, In containers.
UNWATCHED = "tail: inotify cannot be used, reverting to polling: Function not implemented"
# Bash says so, plain as well, when a job changes its state while it is about to wait: on a busy machine only.
LOST = "wait_for: No record of process"
references: dict[str, Outcome] = {}


def is_long(script: Path) -> bool:
    """A script says of itself that it takes long."""
    return "\n# long\n" in script.read_text()


def granted(script: Path) -> tuple:
    """Itself, the sources, and what its lines `# grant: PATH:WAY` say that its programs cannot do without."""
    named = re.findall(r"^# grant: (\S+)$", script.read_text(), re.M)
    return (f"{script}:ro", f"{SOURCES}:ro", *named)


def programs() -> dict[str, object]:
    """Every case by its name; compiled ones are known by their language until they are built."""
    found = {script.stem: Case(("bash", script), granted(script)) for script in SCRIPTS}
    for mode in JOURNALS:
        writers = SOURCES / "writers.py"
        found[f"sqlite-{mode}"] = Case(("/usr/bin/python3", writers, mode), (f"{writers}:ro",))
    if shutil.which("node"):
        found["node"] = Case(("node", SOURCES / "work.js", "word"), (f"{SOURCES / 'work.js'}:ro",))
    if importlib.util.find_spec("duckdb"):
        words = (sys.executable, SOURCES / "columns.py", ".")
        found["duckdb"] = Case(words, (f"{SOURCES / 'columns.py'}:ro", *python_grants()))
    return found


CASES = programs()
LONG = {script.stem for script in SCRIPTS if is_long(script)}
every_case = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in CASES]
)
every_language = pytest.mark.parametrize("language", [name for name in COMPILED if shutil.which(COMPILED[name][0])])


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Compiles a source once and gives its path."""
    folder, made = tmp_path_factory.mktemp("built"), {}

    def build(language: str) -> Path:
        if language not in made:
            target = folder / language
            words = [target if word == "{out}" else word for word in COMPILED[language]]
            # Without cgo, so that the program is static whatever it imports.
            environment = {**os.environ, "CGO_ENABLED": "0"}
            subprocess.run(words, check=True, capture_output=True, env=environment)
            made[language] = target
        return made[language]

    return build


def counted(harness: Harness, way: Way, case: Case, name: str) -> Outcome:
    """The outcome of a run in which bash has not lost count of a job of its own, if one of three is such."""
    for _ in range(3):
        found = outcome(harness, way, case, name)
        if not any(LOST in line for line in found.output):
            break
    return found


def assert_same(harness: Harness, name: str, case: Case, way: Way) -> None:
    """Runs the plain side once, then this one, and shows what differs."""
    if name not in references:
        references[name] = counted(harness, Way.PLAIN, case, name)
    expected, found = references[name], counted(harness, way, case, name)
    if way is Way.SEALED and not copies_descriptors():
        found.output = [line for line in found.output if line.removeprefix("! ") != UNWATCHED]
    assert expected.output and not difference(expected, found, way), "\n" + difference(expected, found, way)


@pytest.mark.heliostat
@pytest.mark.parametrize("way", [Way.UNSEALED, Way.SEALED], ids=lambda way: way.value)
@every_case
def test_program_prints_returns_and_leaves_what_it_does_under_plain_linux(harness, name, way):
    assert_same(harness, name, CASES[name], way)


# Go builds its whole library where nothing of it is in the user's cache yet.
@pytest.mark.timeout(900)
@pytest.mark.heliostat
@pytest.mark.parametrize("way", [Way.UNSEALED, Way.SEALED], ids=lambda way: way.value)
@every_language
def test_compiled_program_does_what_it_does_under_plain_linux(harness, built, language, way):
    program = built(language)
    case = Case((program, "word"), (f"{program}:ro",), FLAGS.get(language, ()))
    assert_same(harness, language, case, way)
