"""Ends, signals and terminals of sealed programs as whoever started them sees them."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import time

import kernel_view
import pytest
from ways import HERE, Case, Way, difference, outcome, seal, start, surroundings, without_rights

pytestmark = pytest.mark.heliostat
ENDS = {
    "status": ("sh", "-c", "exit 42"), "true": ("true",), "false": ("false",),
    "terminated": ("sh", "-c", "kill -TERM $$"), "killed": ("sh", "-c", "kill -KILL $$"),
    "aborted": ("sh", "-c", "ulimit -c 0; kill -ABRT $$"), "not found": ("/no/such/program",),
    "not executable": ("/etc/passwd",), "a folder": ("/usr",), "closed output": ("sh", "-c", "exec >&-; echo x"),
    "standard input": ("sh", "-c", "cat; echo $?"), "child": ("sh", "-c", "(exit 3); (kill -9 $BASHPID); exit $?"),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDS)
def test_command_ends_as_the_program_does(harness, name):
    case = Case(ENDS[name])
    plain, sealed = outcome_or_missing(harness, Way.PLAIN, case), outcome_or_missing(harness, Way.SEALED, case)
    assert sealed == plain


def outcome_or_missing(harness, way: Way, case: Case):
    """Status and output; what cannot be started has the statuses of env(1) in every way."""
    words = case.words if way is Way.SEALED else ("env", *case.words)
    found = outcome(harness, way, Case(words, case.grants), "ends")
    return found.status, [line for line in found.output if not line.startswith("! ")]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signal_to_the_command_reaches_the_program(harness, number):
    name = signal.Signals(number).name[3:]
    words = ("bash", "-c", f"trap 'echo heard; exit 5' {name}; echo ready; while :; do sleep 0.02; done")
    program, _ = start(harness, Way.SEALED, Case(words), "signalled")
    kernel_view.wait_until(lambda: "ready" in program.output(), 60, "the program")
    os.kill(program.pid, number)
    assert program.wait(60) == 5
    assert program.output().split() == ["ready", "heard"]


def test_nothing_is_left_when_the_command_is_killed(harness):
    program, folder = start(
        harness, Way.SEALED, Case(("bash", "-c", "setsid sleep 321 & sleep 321 & echo ready; wait")), "left"
    )
    kernel_view.wait_until(lambda: "ready" in program.output(), 60, "the program")
    inside = kernel_view.descendants(program.pid)
    assert len(inside) >= 3
    os.kill(program.pid, signal.SIGKILL)
    program.wait(60)
    kernel_view.wait_until(lambda: not set(inside) & set(kernel_view.processes()), 60, "the end of what was inside")


def still(path) -> int | None:
    """The length of a file, unless it grows."""
    before = path.stat().st_size
    time.sleep(0.3)
    return before if path.stat().st_size == before else None


def test_stopped_command_stops_and_goes_on(harness):
    program, folder = start(
        harness, Way.SEALED, Case(("bash", "-c", "while :; do echo x >>ticks; sleep 0.02; done")), "stopped"
    )
    ticks = folder / "ticks"
    kernel_view.wait_until(lambda: ticks.exists() and ticks.stat().st_size > 10, 60, "ticks")
    program.kill(signal.SIGSTOP)
    before = kernel_view.wait_until(lambda: still(ticks), 60, "the stop")
    program.kill(signal.SIGCONT)
    kernel_view.wait_until(lambda: ticks.stat().st_size > before, 60, "more ticks")
    program.kill(signal.SIGTERM)
    assert program.wait(60) in (-15, 143)


@pytest.mark.parametrize("story", ["of_all", "of_the_other", "broken_stream", "crowd", "long_message"])
def test_threads_that_wait_hear_of_signals_as_without_the_seal(harness, story):
    case = Case(("/usr/bin/python3", HERE / "sources/waiting.py", story), (HERE / "sources",))
    plain, sealed = (outcome(harness, way, case, story) for way in (Way.PLAIN, Way.SEALED))
    assert plain.status == 0 and not difference(plain, sealed, Way.SEALED), difference(plain, sealed, Way.SEALED)


class Terminal:
    """A sealed program on a terminal of its own."""

    def __init__(self, folder, *words: str):
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        argv = [*without_rights(), *seal(Case(), folder), *words]
        self.pid, self.end = pty.fork()
        if not self.pid:
            os.chdir(folder)
            os.execvpe(argv[0], argv, {**os.environ, **surroundings(folder)})
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self.end, keys.encode())

    def expect(self, pattern: str, seconds: float = 60) -> str:
        """Reads on until something matches; what came before it is forgotten."""
        ends = time.monotonic() + seconds
        while not (found := re.search(pattern, self.seen)):
            assert time.monotonic() < ends, f"{pattern} not in {self.seen!r}"
            if select.select([self.end], [], [], 0.1)[0]:
                self.seen += os.read(self.end, 4096).decode(errors="replace")
        self.seen = self.seen[found.end() :]
        return found[0]

    def await_foreground(self, name: str) -> None:
        """Waits until keys are this program's: before, they are the shell's."""
        is_it = lambda: kernel_view.command_name(os.tcgetpgrp(self.end)) == name  # noqa: E731
        kernel_view.wait_until(is_it, 60, f"{name} in the foreground")

    def status(self) -> int:
        """The wait status, as os.waitstatus_to_exitcode has it."""
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def terminal(tmp_path):
    made = []

    def open_terminal(*words: str) -> Terminal:
        made.append(Terminal(tmp_path, *words))
        return made[-1]

    yield open_terminal
    for one in made:
        try:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass
        os.close(one.end)


def test_control_c_interrupts_the_program_and_the_command_ends_by_it(terminal):
    screen = terminal("sh", "-c", "echo ready; sleep 30")
    screen.expect("ready")
    screen.type("\x03")
    assert screen.status() == -signal.SIGINT


def test_control_c_may_be_caught_by_the_program(terminal):
    screen = terminal("bash", "-c", "trap 'echo caught; exit 6' INT; echo ready; while :; do sleep 0.02; done")
    screen.expect("ready")
    screen.type("\x03")
    screen.expect("caught")
    assert screen.status() == 6


def test_interactive_shell_has_jobs_and_stops_them(terminal):
    screen = terminal("bash", "--norc", "--noediting", "-i")
    screen.type("PS1='> '; test -t 0 && echo on a terminal; stty -echo\n")
    screen.expect("on a terminal\r\n")
    screen.type("sleep 40\n")
    screen.await_foreground("sleep")
    screen.type("\x1a")
    screen.expect("Stopped")
    screen.type("bg\njobs\n")
    screen.expect("Running")
    screen.type("fg\n")
    screen.await_foreground("sleep")
    screen.type("\x03")
    screen.type("echo status $?\n")
    screen.expect("status 130")
    screen.type("stty size >/dev/null && echo sized; exit 9\n")
    screen.expect("sized")
    assert screen.status() == 9


def test_program_that_left_its_session_has_no_terminal(terminal):
    screen = terminal("sh", "-c", "exec 3<>/dev/tty && echo on one; setsid -w sh -c 'echo without >/dev/tty || echo none'")
    screen.expect("on one")
    screen.expect("none")
    assert screen.status() == 0


def test_ps_and_pgrep_see_the_sandbox_only(harness):
    case = Case(
        ("bash", "-c", "sleep 30 & until [ $(cat /proc/$!/comm) = sleep ]; do :; done; ps -e -o comm=; echo --; pgrep -l .; echo --; ls /proc | grep -c '^[0-9]'; kill %1")
    )
    found = outcome(harness, Way.SEALED, case, "ps")
    listed, grepped, count = " ".join(found.output).split("--")
    assert sorted(set(listed.split())) == ["bash", "ps", "sleep"], found
    assert sorted({word for word in grepped.split() if word.isalpha()}) in (
        ["bash", "sleep"],
        ["bash", "pgrep", "sleep"],
    ), found
    assert int(count.split()[0]) <= 6


def test_programs_outside_can_neither_be_seen_nor_signalled(harness):
    outside = subprocess.Popen(["sleep", "60"])
    script = f"kill -0 {outside.pid}; echo $?; kill -9 {outside.pid}; cat /proc/{outside.pid}/cmdline; ls /proc/{outside.pid}; kill -9 -1; echo on"
    found = outcome(harness, Way.SEALED, Case(("bash", "-c", script)), "outside")
    assert outside.poll() is None
    outside.kill()
    outside.wait()
    assert "0" not in found.output[:1] and "sleep" not in " ".join(found.output[1:2])
