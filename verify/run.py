"""Runs the tests of programs; the few that failed run once more, alone, and are named as unstable.

These tests start thousands of real processes that race each other as their users' do, so one
failure can hide behind a second run. It is not hidden: a test that passes only alone is printed
with its first failure, and more than `UNSTABLE_AT_MOST` of them fail the run. `--strict` fails
for the first. Absolute paths choose folders of tests; every other word goes to pytest.

```text
all folders but two kinds ----------------------> LAST -+-> what failed, alone
BESIDE: in a process of its own ------------------------+
```
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

VERIFY = Path(__file__).resolve().parent
UNSTABLE_AT_MOST = 2
STRICT = "--strict"
# A lane: writes into the file after it what has failed, and runs nothing again.
FAILURES = "--failures="
# What mostly waits for compilers and installers, and looks at nothing that it has not started.
BESIDE = ["python", "applications", "lint"]
# It compares all of /dev/shm, before and after.
LAST = ["containment"]
# They have commands of their own.
ELSEWHERE = ["suites", "package"]


class Failed:
    """Notes which tests failed in a run, in their set-up, their call or their end."""

    def __init__(self) -> None:
        self.tests: dict[str, str] = {}

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.tests.setdefault(report.nodeid, report.longreprtext)


class Beside:
    """Tests that run in another process meanwhile; what they print comes when they have ended."""

    def __init__(self, paths: list[str], words: list[str]) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="helio-beside-")
        self.failures, self.printed = (Path(self.folder.name) / name for name in ("failures", "printed"))
        command = [sys.executable, str(Path(__file__).resolve()), FAILURES + str(self.failures), *paths, *words]
        with open(self.printed, "wb") as out:
            dies = ["setpriv", "--pdeathsig", "KILL"]
            self.process = subprocess.Popen([*dies, *command], stdout=out, stderr=subprocess.STDOUT)

    def end(self, failed: Failed) -> int:
        """Waits for them and adds what has failed; their status."""
        status = self.process.wait()
        print(f"\nbeside these: {', '.join(BESIDE)}\n{self.printed.read_text(errors='replace')}", flush=True)
        if self.failures.exists():
            failed.tests.update(json.loads(self.failures.read_text()))
        self.folder.cleanup()
        return status


def main(words: list[str]) -> int:
    strict = STRICT in words
    file = next((Path(word.removeprefix(FAILURES)) for word in words if word.startswith(FAILURES)), None)
    paths = [word for word in words if Path(word).is_absolute() and Path(word).is_relative_to(VERIFY)]
    words = [word for word in words if word not in [*paths, STRICT] and not word.startswith(FAILURES)]
    first = Failed()
    if file:
        status = pytest.main([*paths, *words], plugins=[first])
        file.write_text(json.dumps(first.tests))
        return status
    status = run_first(paths, words, first)
    if status != pytest.ExitCode.TESTS_FAILED or strict:
        return status
    if len(first.tests) > UNSTABLE_AT_MOST:
        print(f"{len(first.tests)} tests failed: more than the {UNSTABLE_AT_MOST} that are run again")
        return status
    status = run_again(list(first.tests), words)
    if status == pytest.ExitCode.OK:
        tell_unstable(first.tests)
    return status


def run_first(paths: list[str], words: list[str], failed: Failed) -> int:
    """Runs the folders that are named, or all of them in two lanes; the worse status."""
    if paths:
        return pytest.main([*paths, *words], plugins=[failed])
    others, beside = lanes()
    meanwhile = Beside(beside, words) if beside else None
    status = pytest.main([*others, *words], plugins=[failed])
    statuses = [status, *([meanwhile.end(failed)] if meanwhile else [])]
    # Words that choose tests may leave a lane none.
    none = pytest.ExitCode.NO_TESTS_COLLECTED
    return max((one for one in statuses if one != none), default=none)


def lanes() -> tuple[list[str], list[str]]:
    """All folders and files with tests, those of the first lane in order."""
    found = sorted({path.parent.name for path in VERIFY.glob("*/test_*.py")} - set(ELSEWHERE))
    first = [name for name in found if name not in [*BESIDE, *LAST]] + [name for name in LAST if name in found]
    files = [str(path) for path in sorted(VERIFY.glob("test_*.py"))]
    beside = [str(VERIFY / name) for name in BESIDE if name in found]
    return files + [str(VERIFY / name) for name in first], beside


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
