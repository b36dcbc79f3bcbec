"""Runs the tests of the crates; the few that failed run once more, alone, and are named as unstable.

The rule is that of `verify/run.py`: these tests race as their users do, so one failure can hide behind
a second run, and is not hidden. A program of tests that says nothing for ten minutes has failed, and is
ended. Every word goes to `cargo test`, but `--strict`, which fails for the first.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from run import STRICT, UNSTABLE_AT_MOST

# What cargo prints behind each target that failed, and the harness of Rust's tests in its list.
RERUN = re.compile(r"^error: (?:doc)?test failed, to rerun pass `(.*)`$")
LISTED = re.compile(r"^    (\S+)$")
# What cargo prints before a program of tests, and the harness when it has ended.
RUNNING = re.compile(r"^ +Running .* \((.*)\)$")
RESULT = "test result:"
# How soon the end of cargo is seen.
LOOK_SECONDS = 1
# No test here takes half as long, on a machine that has much else to do.
SILENT_SECONDS = float(os.environ.get("HELIOSTAT_SILENT_SECONDS", "600"))


@dataclass
class Failures:
    """Failed tests by the words that choose their target; a target that died without a list has none."""

    targets: dict[str, list[str]] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)
    in_list: bool = False

    def see(self, line: str) -> None:
        """Takes a line of the output. A target's list comes before cargo says which target it was."""
        if line == "failures:":
            # The first such part has what they printed, the second their names alone.
            self.in_list, self.listed = True, []
        elif found := RERUN.match(line):
            self.targets.setdefault(found[1], self.listed)
            self.in_list, self.listed = False, []
        elif self.in_list and (found := LISTED.match(line)):
            self.listed.append(found[1])
        elif line.startswith(RESULT):
            self.in_list = False

    def count(self) -> int:
        """How many tests failed; a target without a list counts as one."""
        return sum(max(1, len(tests)) for tests in self.targets.values())


@dataclass
class Silence:
    """The program of tests that runs, and when something was last said."""

    program: str | None = None
    since: float = field(default_factory=time.monotonic)

    def see(self, line: str) -> None:
        """Takes a line of the output."""
        self.since = time.monotonic()
        if found := RUNNING.match(line):
            self.program = found[1]
        elif line.startswith(RESULT):
            self.program = None

    def end_after(self, seconds: float) -> None:
        """Ends the program where it has said nothing for so long; cargo goes on with the next one."""
        if self.program is None or time.monotonic() - self.since < seconds:
            return
        print(f"\n{self.program} says nothing for {seconds:.0f} s: it is ended", flush=True)
        wanted, self.program = os.path.realpath(self.program), None
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "exe") == wanted:
                    os.kill(int(process.name), signal.SIGABRT)
            except OSError:
                continue  # It has ended, or is another user's.


def main(words: list[str]) -> int:
    strict = STRICT in words
    words = [word for word in words if word != STRICT]
    command = [*shlex.split(os.environ.get("CARGO", "cargo")), "test"]
    failures = Failures()
    status = run([*command, *words, "--no-fail-fast"], failures)
    # Without a target it is no test that failed: it does not compile.
    if status == 0 or strict or not failures.targets:
        return status
    if failures.count() > UNSTABLE_AT_MOST:
        print(f"{failures.count()} tests failed: more than the {UNSTABLE_AT_MOST} that are run again")
        return status
    print(f"\nrunning {failures.count()} failed tests once more, alone", flush=True)
    for target, tests in failures.targets.items():
        chosen = [*target.split(), "--", "--test-threads=1", *(["--exact", *tests] if tests else [])]
        if again := subprocess.run([*command, *chosen]).returncode:
            return again
    for target, tests in failures.targets.items():
        print(f"\nUNSTABLE: {target}: {', '.join(tests) or 'all of it'} failed beside the others and passed alone.")
    print("Each is a defect, of the product or of the test: find its cause.")
    return 0


def run(command: list[str], failures: Failures) -> int:
    """Runs it, shows what it prints and notes what failed; its status. What a test has left running may keep
    the pipe open: nothing more is read once cargo has ended and the pipe is empty."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        pipe, rest, silence = running.stdout.fileno(), b"", Silence()
        os.set_blocking(pipe, False)
        while True:
            has_ended = running.poll() is not None
            part = os.read(pipe, 1 << 16) if select.select([pipe], [], [], LOOK_SECONDS)[0] else None
            if part == b"" or (part is None and has_ended):
                break
            silence.end_after(SILENT_SECONDS)
            *lines, rest = (rest + (part or b"")).split(b"\n")
            for line in lines:
                print(text := line.decode(errors="replace"), flush=True)
                failures.see(text)
                silence.see(text)
    return running.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
