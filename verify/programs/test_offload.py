"""Unmodified programs whose system calls executors make: what they print is what they print on plain Linux.

`--offload=always:` sends every call of all groups to an executor that may go there, whatever it costs, so
that each way of making one is met.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, ROOT, Harness, Program, Side
from real_programs import run_checked

pytestmark = pytest.mark.heliostat

ALL = "always:files,metadata,sockets,signals,ipc,process"
EXECUTOR = "heliostat-exec"
# Prints the names of this process's threads; run inside of programs.
THREADS = (
    "names = lambda: [open(f'/proc/self/task/{t}/comm').read().strip() for t in os.listdir('/proc/self/task')]\n"
)


def offloaded(argv: list, groups: str = ALL) -> list:
    return [BINARY, "run", f"--offload={groups}", "--", *argv]


def start(harness: Harness, argv: list, groups: str = ALL, **more) -> Program:
    return harness.start(Side.PLAIN, offloaded(argv, groups), name=Path(str(argv[0])).name, **more)


def run(harness: Harness, argv: list, groups: str = ALL, seconds: float = 120) -> str:
    return run_checked(harness, Side.PLAIN, offloaded(argv, groups), seconds)


def python(harness: Harness, code: str, *words, groups: str = ALL) -> str:
    return run(harness, [sys.executable, "-c", code, *words], groups)


GIT = """
set -e; cd "$1"; export HOME="$1" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main r; cd r; git config user.email a@b; git config user.name c
for i in $(seq 60); do mkdir -p d$((i % 7)); echo "line $i" > d$((i % 7))/f$i; done
git add -A; git commit -qm one; for i in $(seq 5); do echo more >> d1/f$i; git commit -qam "m$i" --allow-empty; done
git log --format='%H %s'; git status --short; git gc -q; git fsck; git diff HEAD~3 --stat
"""
BASH = """
set -e; cd "$1"; trap 'echo trapped' USR1
for i in $(seq 40); do echo "$i" > "f$i"; (cat "f$i"; true) | tr 0-9 a-j; done | sort | md5sum
kill -USR1 $$; exec 7<>f1; read -r x <&7; echo "$x"; echo out | tee g; cat g; ls | wc -l
"""
SQLITE = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1] + '/d'); c.execute('create table t(a integer primary key, b text)')
for i in range(50):
    with c: c.executemany('insert into t(b) values (?)', [(str(i * j),) for j in range(20)])
print(c.execute('select count(*), sum(length(b)) from t').fetchone(), c.execute('pragma integrity_check').fetchone())
"""
PYTHON = """
import os, threading, subprocess, tempfile, socket
folder = os.sys.argv[1]
def work(n):
    for i in range(100):
        path = f'{folder}/t{n}-{i}'
        with open(path, 'w') as f: f.write('x' * i)
        assert os.stat(path).st_size == i and open(path).read() == 'x' * i
        os.rename(path, path + 'r'); os.unlink(path + 'r')
threads = [threading.Thread(target=work, args=(n,)) for n in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(os.listdir(folder)))
print(subprocess.run(['sh', '-c', 'echo child; exit 3'], capture_output=True))
a, b = socket.socketpair(); got = []
def take():
    while (data := b.recv(65536)): got.append(len(data))
t = threading.Thread(target=take); t.start(); a.sendall(b'y' * 5000000); a.close(); t.join(); print(sum(got))
r, w = os.pipe(); pid = os.fork()
if pid == 0:
    os.close(r); os.write(w, b'z' * 300000); os._exit(0)
os.close(w); n = 0
while (data := os.read(r, 70000)): n += len(data)
print(n, os.waitpid(pid, 0)[1], os.getppid() > 0, os.getcwd() == os.path.realpath('.'))
"""
COMPILED = """
set -e; cd "$1"
printf '#include <stdio.h>\\nint main(void) { for (int i = 0; i < 9; i++) printf("%d ", i * i); return 0; }\\n' > a.c
gcc -O2 -o a a.c; ./a; echo; gcc -c a.c -o a.o; size a.o | tail -1
"""
TARRED = """
set -e; cd "$1"; tar -C "$2" -cf a.tar docs; mkdir x; tar -C x -xf a.tar; cd x
find . -type f | sort | xargs md5sum | md5sum; find docs -name '*.md' -newermt 2000-01-01 | wc -l; grep -rc the docs | sort | md5sum; du -s --apparent-size docs
"""
CASES = {
    "git": ["sh", "-c", GIT, "git"],
    "bash": ["bash", "-c", BASH, "bash"],
    "sqlite": [sys.executable, "-c", SQLITE],
    "python": [sys.executable, "-c", PYTHON],
    "gcc": ["sh", "-c", COMPILED, "gcc"],
    "tar": ["sh", "-c", TARRED, "tar"],
}


@pytest.mark.parametrize("name", CASES)
def test_a_program_prints_what_it_prints_on_plain_linux(harness, tmp_path, name):
    def printed(side: str) -> str:
        folder = tmp_path / side
        folder.mkdir()
        argv = [*CASES[name], folder, ROOT]
        return run(harness, argv) if side == "ours" else run_checked(harness, Side.PLAIN, argv, 120)

    # Paths and numbers of the two runs differ in nothing but the folder's name.
    assert printed("ours").replace("/ours", "") == printed("plain").replace("/plain", "")


def test_redis_serves_saves_and_forks(harness):
    port = kernel_view.free_port()
    words = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--dir", harness.folder]
    server = start(harness, words)
    kernel_view.wait_listening(port, server.process)
    load = ["redis-benchmark", "-p", port, "-n", 20000, "-c", 20, "-r", 500, "-t", "set,get,incr", "-q"]
    run_checked(harness, Side.PLAIN, load, 120)

    def ask(*words) -> str:
        return run_checked(harness, Side.PLAIN, ["redis-cli", "-p", port, *words]).strip()

    assert ask("bgrewriteaof").startswith("Background")
    kernel_view.wait_until(lambda: "aof_rewrite_in_progress:0" in ask("info", "persistence"), 60, "a rewritten file")
    keys = int(ask("dbsize"))
    assert keys > 400 and EXECUTOR in names_of_threads(server.pid)
    ask("debug", "loadaof")
    assert int(ask("dbsize")) == keys


def names_of_threads(pid: int) -> list[str]:
    return [(task / "comm").read_text().strip() for task in Path(f"/proc/{pid}/task").iterdir()]


def test_an_executor_is_there_in_a_child_and_in_a_new_image(harness):
    code = f"import os, sys\n{THREADS}" + (
        "os.stat('/'); print(names(), flush=True)\n"
        "if os.fork() == 0:\n"
        "    os.stat('/'); print(names(), flush=True); os._exit(0)\n"
        "os.wait()\n"
        "if len(sys.argv) == 2: os.execv(sys.executable, [sys.executable, '-c', sys.argv[1], sys.argv[1], 'again'])\n"
    )
    lines = python(harness, code, code).splitlines()
    assert lines == [str(["python3", EXECUTOR])] * 4 or all(EXECUTOR in line for line in lines) and len(lines) == 4


def test_handlers_run_between_calls_and_end_those_that_wait(harness):
    code = """
import os, signal, threading, time
ticks = []
signal.signal(signal.SIGALRM, lambda *_: ticks.append(os.stat('/').st_ino))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
root, until = os.stat('/').st_ino, time.monotonic() + 1.5
calls = 0
while time.monotonic() < until:
    fd = os.open('/etc/passwd', os.O_RDONLY); assert os.read(fd, 4); os.close(fd); calls += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert len(ticks) > 100 and set(ticks) == {root} and calls > 100, (len(ticks), calls)
class Over(Exception): pass
def over(*_): raise Over
signal.signal(signal.SIGALRM, over)
r, w = os.pipe(); os.mkfifo(os.sys.argv[1] + '/fifo')
for wait in (lambda: os.read(r, 1), lambda: os.open(os.sys.argv[1] + '/fifo', os.O_RDONLY), lambda: os.write(w, b'x' * (1 << 22))):
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try: wait(); print('came back')
    except Over: print('ended')
"""
    assert python(harness, code, harness.folder) == "ended\n" * 3


@pytest.mark.parametrize("handled", ["default", "ignored", "handler"])
def test_sigpipe_reaches_the_thread_that_wrote(harness, handled):
    code = """
import os, signal, socket, sys
got = []
how = {'default': signal.SIG_DFL, 'ignored': signal.SIG_IGN, 'handler': lambda *_: got.append(1)}[sys.argv[1]]
signal.signal(signal.SIGPIPE, how)
r, w = os.pipe(); os.close(r)
a, b = socket.socketpair(); b.close()
for fd in (w, a.fileno()):
    try: os.write(fd, b'x')
    except BrokenPipeError: print('broken', len(got), flush=True)
"""
    words = [sys.executable, "-c", code, handled]
    found, plain = start(harness, words), harness.start(Side.PLAIN, words)
    assert (found.wait(), found.output()) == (plain.wait(), plain.output())
    assert plain.process.returncode == (-signal.SIGPIPE if handled == "default" else 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_offload_ends_before_a_program_becomes_another_user(harness):
    secret = harness.folder / "secret"
    secret.write_text("x")
    secret.chmod(0o600)
    code = f"""
import os, sys, threading
{THREADS}
stop = []
def work():
    while not stop: os.stat('/')
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
assert open(sys.argv[1]).read() == 'x' and '{EXECUTOR}' in names()
os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
here = names()
for _ in range(100):
    try: open(sys.argv[1]); print('opened')
    except PermissionError: pass
stop.append(1); [t.join() for t in threads]
print('{EXECUTOR}' in here)
"""
    os.chmod(harness.folder, 0o711)
    assert python(harness, code, secret) == "False\n"


@pytest.mark.parametrize("threads", [1, 64, 1024])
def test_many_threads_of_one_folder_and_table_get_their_own_answers(harness, tmp_path, threads):
    program = tmp_path / "contention"
    source = ROOT / "bench/programs/contention.c"
    subprocess.run(["gcc", "-O2", "-pthread", "-o", program, source], check=True)
    found = start(harness, [program, tmp_path / "folder", threads, 1], stdin=subprocess.PIPE)
    found.process.stdin.write(b"\n")
    found.process.stdin.close()
    assert found.wait(120) == 0, found.errors()
    assert '"calls": ' in found.output() and not (tmp_path / "folder").exists()


def test_a_killed_program_is_gone_with_its_executor(harness):
    code = "import os, threading\ndef w():\n    while True: os.stat('/')\n[threading.Thread(target=w).start() for _ in range(16)]"
    found = start(harness, [sys.executable, "-c", code])
    kernel_view.wait_until(lambda: EXECUTOR in names_of_threads(found.pid), 30, "an executor")
    time.sleep(0.2)
    found.kill()
    assert found.wait(10) == -signal.SIGKILL
    assert not Path(f"/proc/{found.pid}/task").exists()


# Calls for so long that their rule is judged, and a few that are caught anyway; it says how many there were.
STATS = """
import os, time
until, calls = time.monotonic() + 1, 0
while time.monotonic() < until:
    for _ in range(100): os.stat('/')
    os.close(os.open('/', os.O_RDONLY))
    calls += 102
print('done', calls, flush=True)
time.sleep(60)
"""


def test_explain_tells_groups_and_reasons(harness):
    found = start(harness, [sys.executable, "-c", STATS], groups="metadata")
    kernel_view.wait_until(lambda: "done" in found.output(), 60, "its calls")
    told = harness.call("explain", str(found.pid))
    # Nothing is measured where no core is spare.
    assert "offload of metadata: " in told and ("measured here" in told or "no core is spare" in told), told


def test_calls_are_made_by_executors_where_that_is_asked_for(harness):
    code = "import os, time\nfor _ in range(5000): os.stat('/')\nprint('done', flush=True)\ntime.sleep(60)"
    found = start(harness, [sys.executable, "-c", code], groups="always:metadata")
    kernel_view.wait_until(lambda: "done" in found.output(), 60, "its calls")
    told = json.loads(harness.call("explain", str(found.pid), "--json"))
    assert told["offloaded"]["metadata"]["offloaded"] > 1000, told


def test_calls_that_the_rule_makes_plainly_are_not_looked_at(harness):
    found = start(harness, [sys.executable, "-c", STATS], groups="metadata")
    kernel_view.wait_until(lambda: "done" in found.output(), 60, "its calls")
    told = json.loads(harness.call("explain", str(found.pid), "--json"))["offloaded"]["metadata"]
    if 0 < told["offloaded_ns"] <= told["plain_ns"] * 0.95:
        pytest.skip(f"offload pays here: {told}")
    # Counted are those until the judgement was told, some 20 ms after the start; the others have passed by the gate.
    calls = int(found.output().split()[1])
    assert 2048 <= told["plain"] + told["offloaded"] < calls / 2, (told, calls)



# Each says who wrote: the kernel lets a thread write these for itself alone, or not at all.
WRITERS = """
import os
for name in ('/proc/self/loginuid', '/proc/self/attr/current', '/proc/self/timerslack_ns'):
    try:
        fd = os.open(name, os.O_RDWR)
        text = os.read(fd, 64)
        print(name, os.pwrite(fd, text or b'1', 0))
        os.close(fd)
    except OSError as error:
        print(name, error.errno)
print(os.read(os.open('/proc/thread-self/comm', os.O_RDONLY), 64))
"""


def test_files_that_mean_who_reads_or_writes_them_are_the_threads_own(harness):
    plain = run_checked(harness, Side.PLAIN, [sys.executable, "-c", WRITERS])
    assert python(harness, WRITERS) == plain


DISPLACED = "executor on cores {on}: those that were asked for ({wanted}) are not this process's to use"
CALLS = "import os, time\nfor _ in range(300): os.stat('/')\nprint('done', flush=True)\ntime.sleep(60)"


def with_cores(harness: Harness, cores: str, before: list = ()) -> Program:
    """A program whose calls go to an executor on these cores; it has made some."""
    words = [*before, BINARY, "run", "--offload=always:metadata", f"--offload-cores={cores}", "--", sys.executable, "-c", CALLS]
    found = harness.start(Side.PLAIN, words, name="python")
    kernel_view.wait_until(lambda: "done" in found.output(), 60, "its calls")
    return found


def test_an_executor_whose_core_is_not_there_runs_where_it_may_and_explain_says_so(harness):
    last = max(os.sched_getaffinity(0))
    told = harness.call("explain", str(with_cores(harness, "999").pid))
    assert DISPLACED.format(on=last, wanted=999) in told, told
    told = harness.call("explain", str(with_cores(harness, str(last)).pid))
    assert f"executor on cores {last}\n" in told, told


@pytest.fixture
def one_core():
    """Words that begin a program in a cpuset of the first core."""
    group = Path("/sys/fs/cgroup/cpuset") / f"heliostat-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpuset.mems").write_text((group.parent / "cpuset.mems").read_text())
        (group / "cpuset.cpus").write_text("0")
    except OSError as error:
        pytest.skip(f"no cpuset can be made: {error}")
    yield ["sh", "-c", f'echo $$ > {group}/tasks; exec "$@"', "sh"]
    kernel_view.wait_until(lambda: not (group / "tasks").read_text().strip(), 30, "an empty cpuset")
    group.rmdir()


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: no cpuset leaves one out")
def test_a_cpuset_keeps_an_executor_from_its_core_and_explain_says_so(harness, one_core):
    program = with_cores(harness, "1", one_core)
    told = harness.call("explain", str(program.pid))
    program.kill()
    program.process.wait()
    assert DISPLACED.format(on=0, wanted=1) in told, told


def test_a_rule_of_the_configuration_asks_and_a_wrong_group_is_refused():
    with Harness(configuration='[[offload]]\nprogram = "python3"\ngroups = "always:metadata"\n') as harness:
        code = f"import os\n{THREADS}os.stat('/'); print('{EXECUTOR}' in names())"
        words = [BINARY, "run", *harness.configured(), "--", "/usr/bin/python3", "-c", code]
        assert run_checked(harness, Side.PLAIN, words) == "True\n"
        wrong = subprocess.run(
            [str(BINARY), "run", "--require", "--offload=disks", "--", "/bin/true"],
            env=harness.environment(), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert wrong.returncode == 125 and "no group of calls" in wrong.stderr
