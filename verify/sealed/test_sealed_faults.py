"""Calls that wait, callers that are killed, and supervisors that die: each harms itself only."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat
# More than the supervisor has threads for calls that wait.
MANY = 100


@pytest.fixture
def sealed(harness, tmp_path):
    """Starts `sh -c TEXT` sealed in a folder of its own."""
    started = []

    def start(text: str, shell: str = "bash") -> subprocess.Popen:
        words = [str(BINARY), "run", "--sealed", "--grant", f"{tmp_path}:rw", "--", shell, "-c", text]
        environment = {**os.environ, **harness.environment()}
        pipe = subprocess.PIPE
        one = subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe, text=True)
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.wait()


def said(program: subprocess.Popen, seconds: float = 60) -> tuple[int, str]:
    try:
        out, errors = program.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        pytest.fail(f"it goes on after {seconds} s:\n" + "\n".join(threads_of(program.pid)))
    assert errors == "", (program.returncode, out, errors)
    return program.returncode, out


def threads_of(pid: int) -> list[str]:
    """Where each thread of a program is, its supervisor's too."""
    found = [(one, task) for one in [pid, *kernel_view.descendants(pid)] for task in kernel_view.tasks(one)]
    return [f"{one} {task.name} {kernel_view.command_name(one)}: {kernel_view.waits_in(task)}" for one, task in found]


def test_open_that_waits_holds_up_nobody_else(sealed):
    program = sealed(
        "mkfifo pipe; cat pipe & for i in {1..50}; do cat /etc/hosts >/dev/null; done; echo on; echo x >pipe; wait"
    )
    assert said(program) == (0, "on\nx\n")


def test_lock_that_waits_holds_up_nobody_else(sealed):
    text = "exec 8>lock; flock 8; (exec 8>&- 9>lock; flock 9; echo second) & sleep 0.2; cat /etc/hosts >/dev/null; echo first; exec 8>&-; wait"
    assert said(sealed(text)) == (0, "first\nsecond\n")


WAITING_OPEN = """
import os, signal, sys
signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
signal.siginterrupt(signal.SIGALRM, sys.argv[1] == "interrupts")
heard = []
# Again and again, for the first may come before the call on a busy machine.
signal.setitimer(signal.ITIMER_REAL, 1, 1)
libc = __import__("ctypes").CDLL(None, use_errno=True)
number = libc.open(b"pipe", os.O_RDONLY)
# At its end Python takes its handlers out, and the next one would kill it.
signal.setitimer(signal.ITIMER_REAL, 0)
print(number, __import__("ctypes").get_errno() if number < 0 else 0)
"""


def test_signal_ends_an_open_that_waits(sealed, tmp_path):
    (tmp_path / "program.py").write_text(WAITING_OPEN)
    assert said(sealed("mkfifo pipe; /usr/bin/python3 program.py interrupts")) == (0, "-1 4\n")


def test_signal_that_restarts_does_not_end_it(sealed, tmp_path):
    (tmp_path / "program.py").write_text(WAITING_OPEN)
    text = "mkfifo pipe; (sleep 4; echo >pipe) & /usr/bin/python3 program.py restarts; wait"
    assert said(sealed(text)) == (0, "3 0\n")


def test_killed_callers_give_their_threads_back(sealed):
    """Each round leaves as many calls behind as there are threads, but that their callers die."""
    round_ = "for i in {1..50}; do cat pipe & done 2>/dev/null; sleep 0.5; kill -9 $(jobs -p); wait; sleep 1.5;"
    text = f"mkfifo pipe; exec 2>/dev/null; {round_ * 3} timeout 60 cat /etc/hosts >/dev/null && echo alive"
    assert said(sealed(text), 100) == (0, "alive\n")


def test_more_waiting_calls_than_threads_harm_this_program_only(sealed):
    flood = sealed(f"mkfifo pipe; for i in {{1..{MANY}}}; do cat pipe & done; echo flooded; wait")
    assert flood.stdout.readline() == "flooded\n"
    assert said(sealed("cat /etc/hosts >/dev/null && echo fine")) == (0, "fine\n")
    inside = kernel_view.descendants(flood.pid)
    flood.kill()
    kernel_view.wait_until(lambda: not set(inside) & set(kernel_view.processes()), 60, "the flood's end")


def test_supervisor_that_is_killed_takes_its_program_with_it(sealed):
    program = sealed("setsid sleep 322 & sleep 322 & echo ready; wait")
    assert program.stdout.readline() == "ready\n"
    inside = kernel_view.descendants(program.pid)
    supervisor = int(subprocess.check_output(["pgrep", "-P", str(program.pid)], text=True))
    os.kill(supervisor, signal.SIGKILL)
    _, errors = program.communicate(timeout=60)
    assert program.returncode == 125 and "supervisor was killed" in errors
    kernel_view.wait_until(lambda: not set(inside) & set(kernel_view.processes()), 60, "the end of what was inside")


def test_supervisor_that_is_stopped_is_waited_for(sealed, tmp_path):
    program = sealed("echo ready; until test -e go; do sleep 0.1; done; cat /etc/hosts >/dev/null; echo done")
    assert program.stdout.readline() == "ready\n"
    supervisor = int(subprocess.check_output(["pgrep", "-P", str(program.pid)], text=True))
    os.kill(supervisor, signal.SIGSTOP)
    (tmp_path / "go").touch()
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(1.5)
    os.kill(supervisor, signal.SIGCONT)
    assert said(program) == (0, "done\n")


def test_daemon_outlives_the_command_and_the_supervisor_does_not_outlive_it(sealed, tmp_path):
    later = "until test -e go; do sleep 0.1; done; cat /etc/hosts >copy"
    program = sealed(f"({later}) >/dev/null 2>&1 & echo $!")
    status, out = said(program)
    daemon = int(out)
    assert status == 0 and daemon in kernel_view.processes()
    supervisor = int(subprocess.check_output(["ps", "-o", "ppid=", "-p", str(daemon)], text=True))
    (tmp_path / "go").touch()
    kernel_view.wait_until(lambda: daemon not in kernel_view.processes(), 60, "the daemon's end")
    assert (tmp_path / "copy").read_text() == open("/etc/hosts").read()
    kernel_view.wait_until(lambda: supervisor not in kernel_view.processes(), 60, "the supervisor's end")


CROWD = """
import os, signal, time
os.mkfifo("pipe")
crowd = [os.fork()]
if crowd[0] == 0:
    while not os.path.exists("full"):
        time.sleep(0.1)
    time.sleep(1)
    for _ in range(20):
        os.stat("/etc/hosts")
    print("heard", flush=True)
    # Waits for nobody, while a reader is not kept.
    os.write(os.open("pipe", os.O_RDWR), b"on")
    time.sleep(60)
try:
    while len(crowd) < 200:
        crowd.append(os.fork())
        if crowd[-1] == 0:
            time.sleep(60)
            os._exit(0)
except BlockingIOError:
    print("full", flush=True)
    os.mkdir("full")
print(os.read(os.open("pipe", os.O_RDONLY), 9).decode(), flush=True)
for one in crowd:
    os.kill(one, signal.SIGKILL)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a user of its own, whose processes are counted")
def test_who_cannot_have_another_thread_goes_on_receiving():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "program.py").write_text(CROWD)
        seal = f'ulimit -u 40; exec {BINARY} run --sealed --grant {folder}:rw -- /usr/bin/python3 program.py'
        words = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "bash", "-c", seal]
        environment = {"PATH": os.environ["PATH"], "HELIOSTAT_SOCKET": f"{name}/control.sock"}
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=90)
        assert (done.stdout, done.returncode) == ("full\nheard\non\n", 0), done.stderr
