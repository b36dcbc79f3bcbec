"""Runs the tests of programs; the few that failed run once more, alone, and are named as unstable.

These tests start thousands of real processes that race each other as their users' do, so one
failure can hide behind a second run. It is not hidden: a test that passes only alone is printed
with its first failure, and more than `UNSTABLE_AT_MOST` of them fail the run. `--strict` fails
for the first. Absolute paths choose folders of tests; every other word goes to pytest.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

VERIFY = Path(__file__).resolve().parent
UNSTABLE_AT_MOST = 2
STRICT = "--strict"


class Failed:
    """Notes which tests failed in a run, in their set-up, their call or their end."""

    def __init__(self) -> None:
        self.tests: dict[str, str] = {}

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.tests.setdefault(report.nodeid, report.longreprtext)


def main(words: list[str]) -> int:
    strict = STRICT in words
    paths = [word for word in words if Path(word).is_absolute() and Path(word).is_relative_to(VERIFY)]
    words = [word for word in words if word not in [*paths, STRICT]]
    first = Failed()
    status = pytest.main([*(paths or [str(VERIFY)]), *words], plugins=[first])
    if status != pytest.ExitCode.TESTS_FAILED or strict:
        return status
    if len(first.tests) > UNSTABLE_AT_MOST:
        print(f"{len(first.tests)} tests failed: more than the {UNSTABLE_AT_MOST} that are run again")
        return status
    status = run_again(list(first.tests), words)
    if status == pytest.ExitCode.OK:
        tell_unstable(first.tests)
    return status


def run_again(tests: list[str], words: list[str]) -> int:
    """Runs these tests alone, with fixtures of their own, in a process of their own."""
    print(f"\nrunning {len(tests)} failed tests once more, alone", flush=True)
    named = [f"{VERIFY}/{test}" for test in tests]
    return subprocess.run([sys.executable, "-m", "pytest", *named, *words]).returncode


def tell_unstable(tests: dict[str, str]) -> None:
    """Names each test that failed first and passed alone, with its first failure."""
    for test, failure in tests.items():
        print(f"\nUNSTABLE: {test} failed beside the others and passed alone. Its failure:\n{failure}")
    print(f"\nUNSTABLE: {len(tests)} tests. Each is a defect, of the product or of the test: find its cause.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
