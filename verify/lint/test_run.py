"""The runner of the tests: what fails once is run again and named; what fails twice, or often, fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

VERIFY = Path(__file__).resolve().parents[1]
RUN = "import sys, pathlib, run; run.VERIFY = pathlib.Path.cwd(); sys.exit(run.main(sys.argv[1:]))"
# Fails for as long as its mark is not there; the first failure makes the mark.
ONCE = "    mark = pathlib.Path('mark{0}')\n    there = mark.exists()\n    mark.touch()\n    assert there\n"


def run_tests(folder: Path, body: str, count: int, *words: str) -> subprocess.CompletedProcess:
    """Runs a folder with `count` tests of this body."""
    tests = [f"def test_{number}():\n{body.format(number)}" for number in range(count)]
    (folder / "test_drawn.py").write_text("\n".join(["import pathlib", *tests]))
    command = [sys.executable, "-c", RUN, *words]
    # Where the tests' own modules are, if they are not the interpreter's.
    modules = [str(VERIFY), *filter(None, [os.environ.get("PYTHONPATH")])]
    place = {"PYTHONPATH": os.pathsep.join(modules), "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, cwd=folder, env=place, capture_output=True, text=True, timeout=60)


def test_a_test_that_passes_alone_is_named_as_unstable(tmp_path):
    ran = run_tests(tmp_path, ONCE, 2)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "UNSTABLE: 2 tests" in ran.stdout and "assert there" in ran.stdout


def test_folders_that_are_named_are_run_and_no_others(tmp_path):
    for name, body in (("chosen", ONCE.format(0)), ("left", "    assert False\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(f"import pathlib\n\n\ndef test_it():\n{body}")
    ran = run_tests(tmp_path, "    assert False\n", 1, str(tmp_path / "chosen"))
    assert ran.returncode == 0 and "UNSTABLE: 1 tests" in ran.stdout, ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("body", "count", "words"),
    [("    assert False\n", 1, []), (ONCE, 7, []), (ONCE, 1, ["--strict"])],
    ids=["fails twice", "too many", "strict"],
)
def test_what_fails_twice_or_often_fails(tmp_path, body, count, words):
    ran = run_tests(tmp_path, body, count, *words)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "UNSTABLE" not in ran.stdout


def write_test(folder: Path, name: str, body: str) -> None:
    (folder / name).mkdir()
    (folder / name / f"test_{name}.py").write_text(f"import pathlib\n\n\ndef test_it():\n{body}")


@pytest.mark.parametrize("words", [[], ["--one-lane"]], ids=["lanes", "one lane"])
def test_all_folders_are_run_and_each_failure_is_run_again(tmp_path, words):
    for name, body in (("lint", ONCE.format(0)), ("containment", ONCE.format(1)), ("programs", "    pass\n")):
        write_test(tmp_path, name, body)
    ran = run_tests(tmp_path, "    pass\n", 1, *words)
    assert ran.returncode == 0 and "UNSTABLE: 2 tests" in ran.stdout, ran.stdout + ran.stderr
    assert ("beside these: python" in ran.stdout) == (not words)


@pytest.mark.parametrize("name", ["programs", "lint", "containment"])
def test_a_failure_in_any_lane_fails(tmp_path, name):
    for other in {"programs", "lint", "containment"} - {name}:
        write_test(tmp_path, other, "    pass\n")
    write_test(tmp_path, name, "    assert False\n")
    ran = run_tests(tmp_path, "    pass\n", 1)
    assert ran.returncode == 1 and "UNSTABLE" not in ran.stdout, ran.stdout + ran.stderr


def test_folders_with_commands_of_their_own_are_left_out(tmp_path):
    write_test(tmp_path, "package", "    assert False\n")
    ran = run_tests(tmp_path, "    pass\n", 1)
    assert ran.returncode == 0, ran.stdout + ran.stderr
