"""Runs the tests of programs; the few that failed run once more, alone, and are named as unstable.

These tests start thousands of real processes that race each other as their users' do, so one
failure can hide behind a second run. It is not hidden: a test that passes only alone is printed
with its first failure, and more than `UNSTABLE_AT_MOST` of them fail the run. `--strict` fails
for the first. Absolute paths choose folders of tests; every other word goes to pytest.

```text
all but two kinds -----+
BESIDE ----------------+--> LAST --> what failed, alone
```
A test keeps half a processor busy, so two lanes of them take little longer than one; `--one-lane` has one.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

VERIFY = Path(__file__).resolve().parent
# One in five hundred, on two cores that are kept busy all the time.
UNSTABLE_AT_MOST = 6
STRICT = "--strict"
ONE_LANE = "--one-lane"
# A lane of its own process: writes into the file after it what has failed, and runs nothing again.
FAILURES = "--failures="
# About half of all, and nothing that looks at processes or files which it has not started or made.
BESIDE = ["python", "applications", "lint", "sealed", "faults", "conformance", "lean", "snapshot", "container"]
# What compares all of /dev/shm before and after, and what measures beside busy loops: when the others have ended.
LAST = ["containment", "programs/test_contended.py"]
# They have commands of their own.
ELSEWHERE = ["suites", "package"]


class Failed:
    """Notes which tests failed in a run, in their set-up, their call or their end."""

    def __init__(self) -> None:
        self.tests: dict[str, str] = {}

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.tests.setdefault(report.nodeid, report.longreprtext)


class Lane:
    """Tests in another process. What they print comes at once, or when they have ended."""

    def __init__(self, paths: list[str], words: list[str], is_shown: bool = True) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="helio-lane-")
        self.failures, self.printed = (Path(self.folder.name) / name for name in ("failures", "printed"))
        command = [sys.executable, str(Path(__file__).resolve()), FAILURES + str(self.failures), *paths, *words]
        with open(self.printed, "wb") as file:
            out = None if is_shown else file
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdout=out, stderr=out)

    def end(self, failed: Failed) -> int:
        """Waits for them and adds what has failed; their status."""
        status = self.process.wait()
        if printed := self.printed.read_text(errors="replace"):
            print(f"\nbeside these: {', '.join(BESIDE)}\n{printed}", flush=True)
        if self.failures.exists():
            failed.tests.update(json.loads(self.failures.read_text()))
        self.folder.cleanup()
        return status


def main(words: list[str]) -> int:
    strict = STRICT in words
    file = next((Path(word.removeprefix(FAILURES)) for word in words if word.startswith(FAILURES)), None)
    paths = [word for word in words if Path(word).is_absolute() and Path(word).is_relative_to(VERIFY)]
    of_lanes = [] if paths or ONE_LANE in words else lanes()
    words = [word for word in words if word not in [*paths, STRICT, ONE_LANE] and not word.startswith(FAILURES)]
    first = Failed()
    if file:
        status = pytest.main([*paths, *words], plugins=[first])
        file.write_text(json.dumps(first.tests))
        return status
    status = run_lanes(of_lanes, words, first) if of_lanes else pytest.main([*(paths or [str(VERIFY)]), *words], plugins=[first])
    if status != pytest.ExitCode.TESTS_FAILED or strict:
        return status
    if len(first.tests) > UNSTABLE_AT_MOST:
        print(f"{len(first.tests)} tests failed: more than the {UNSTABLE_AT_MOST} that are run again")
        return status
    status = run_again(list(first.tests), words)
    if status == pytest.ExitCode.OK:
        tell_unstable(first.tests)
    return status


def run_lanes(of_lanes: list[list[str]], words: list[str], failed: Failed) -> int:
    """Runs the first two at once and then the third; the worst status."""
    first, beside, last = of_lanes
    meanwhile = Lane(beside, words, is_shown=False) if beside else None
    statuses = [pytest.main([*first, *words], plugins=[failed])] if first else []
    statuses += [meanwhile.end(failed)] if meanwhile else []
    statuses += [Lane(last, words).end(failed)] if last else []
    # Words that choose tests may leave a lane none.
    none = pytest.ExitCode.NO_TESTS_COLLECTED
    return max((one for one in statuses if one != none), default=none)


def lanes() -> list[list[str]]:
    """All files with tests: of the first lane, beside it, and the last."""
    found = sorted(path.relative_to(VERIFY) for path in [*VERIFY.glob("test_*.py"), *VERIFY.glob("*/test_*.py")])
    found = [path for path in found if path.parts[0] not in ELSEWHERE]
    last = [path for path in found if path.parts[0] in LAST or str(path) in LAST]
    beside = [path for name in BESIDE for path in found if path.parts[0] == name and path not in last]
    first = [path for path in found if path not in [*last, *beside]]
    return [[str(VERIFY / path) for path in some] for some in (first, beside, last)]


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
