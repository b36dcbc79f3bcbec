"""The commands of docs/specification.md: each names something that is there, and rows of a benchmark its own."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from records import page  # noqa: E402

COMMAND = re.compile(r"\| `([^`]+)` \|")
ROWS = [line for line in page.PAGE.read_text().splitlines() if COMMAND.search(line)]
COMMANDS = sorted({COMMAND.search(line)[1] for line in ROWS})
MAKEFILE = (ROOT / "Makefile").read_text()


def benchmarks() -> set[str]:
    # By its path: other folders have a run.py as well.
    found = importlib.util.spec_from_file_location("bench_run", ROOT / "bench/run.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return set(module.NAMES)


def folders() -> Iterator[Path]:
    """Folders of sources. What is built is not looked at: tests beside this one make and remove files there."""
    for path, names, _ in os.walk(ROOT):
        names[:] = [name for name in names if name != "target" and not name.startswith(".")]
        yield Path(path)


def crates() -> dict[str, Path]:
    """Folders of the workspace's crates by name."""
    manifests = [path / "Cargo.toml" for path in folders() if (path / "Cargo.toml").exists()]
    named = {path: re.search(r'^name = "([^"]+)"', path.read_text(), re.M) for path in manifests}
    return {name[1]: path.parent for path, name in named.items() if name}


def missing(command: str) -> list[str]:
    """What a command names that is not there."""
    tool, *words = shlex.split(command)
    if tool.startswith("BENCH="):
        return [name for name in tool.removeprefix("BENCH=").split(",") if name not in benchmarks()]
    if tool == "make":
        return [word for word in words if not re.search(rf"^{word}:", MAKEFILE, re.M)]
    if tool in ("pytest", "python"):
        return [word for word in words if "/" in word and not (ROOT / word).exists()]
    if tool == "cargo":
        return missing_of_cargo(words)
    return [tool]


def missing_of_cargo(words: list[str]) -> list[str]:
    """Crates and test files of `cargo test`."""
    pairs, known = list(zip(words, words[1:])), crates()
    wanted = [name for flag, name in pairs if flag == "-p"]
    if unknown := [name for name in wanted if name not in known]:
        return unknown
    folders = [known[name] for name in wanted] or list(known.values())
    tests = [name for flag, name in pairs if flag == "--test"]
    there = {name for name in tests for folder in folders if any((folder / "tests").glob(f"{name}.rs")) or any((folder / "tests").glob(f"{name}/main.rs"))}  # fmt: skip
    return [name for name in tests if name not in there]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_a_command_names_is_there(command):
    assert not missing(command)


@pytest.mark.parametrize("command", ["BENCH=none-such", "make none-such", "pytest verify/none-such", "cargo test -p none-such",
                                     "cargo test -p heliostatd --test none-such", "none-such"])  # fmt: skip
def test_what_is_not_there_is_found(command):
    assert missing(command)


def test_every_row_with_a_recorded_result_names_its_own_benchmark():
    bound = [(COMMAND.search(line)[1], page.ROW.match(line)) for line in ROWS]
    # A record of another machine holds results of several benchmarks, each before its name.
    benchmark = lambda match: match["name"].split(":")[0] if match["benchmark"] == "sixteen-cores" else match["benchmark"]  # noqa: E731
    other = [(command, match["benchmark"]) for command, match in bound if match and command != f"BENCH={benchmark(match)}"]
    assert not other


def test_every_row_of_a_table_has_a_command():
    rows = [line for line in page.PAGE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| promise")]
    assert rows and [line for line in rows if line not in ROWS] == []
