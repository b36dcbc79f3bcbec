"""Programs without a peer under Heliostat: what they print and return must be what it was."""

from __future__ import annotations

import os
import sys

import pytest
from heliostat_run import Side
from kernel_view import free_port, wait_listening

FULL_TABLE = (
    "import errno, os, resource, socket, sys\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64 if sys.argv[1] == 'hard' else 4096))\n"
    "listener = socket.create_server(('127.0.0.1', 0)); clients = [socket.socket() for _ in range(3)]; held = []\n"
    "def say(call, *words):\n"
    " try: print(call(*words))\n"
    " except OSError as error: print(errno.errorcode[error.errno])\n"
    "try:\n while 1: held.append(os.dup(0))\n"
    "except OSError as error: print(errno.errorcode[error.errno], sys.argv[1] == 'hard' or len(held))\n"
    "for client in clients: say(client.connect, listener.getsockname()); say(os.dup, 0); say(listener.accept)\n"
    "clients[0].send(b'early'); os.close(held.pop()); one = listener.accept()[0]; print(one.recv(9)); say(listener.accept)\n"
)

PROGRAMS = {
    "bash pipelines": ["bash", "-c", "seq 1 20000 | sort -rn | head -3; printf 'a\\nb\\n' | tee /dev/stderr | wc -l"],
    "bash jobs and traps": [
        "bash", "-c",
        "trap 'echo left' EXIT; for i in 1 2 3; do (exit $i) & done; wait -n; wait; echo $(echo sub; exit 3) $?; exit 4",
    ],
    "bash network redirection": [
        "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/1 && echo connected || echo refused",
    ],
    "here documents": ["bash", "-c", "cat <<X\nhello\nX\nread -r a b < <(echo one two); echo $b"],
    "exit status": ["sh", "-c", "exit 42"],
    "killed by a signal": ["sh", "-c", "kill -TERM $$"],
    "subprocess": [sys.executable, "-c", "import subprocess as s; print(s.run(['sh','-c','echo hi; exit 3'],capture_output=True))"],
    "multiprocessing fork": [
        sys.executable, "-c",
        "import multiprocessing as m; print(m.get_context('fork').Pool(4).map(abs, range(-50, 0)))",
    ],
    "multiprocessing spawn": [
        sys.executable, "-c",
        "import multiprocessing as m\nif __name__=='__main__': print(m.get_context('spawn').Pool(2).map(abs, range(-9, 0)))",
    ],
    "threads": [
        sys.executable, "-c",
        "import threading as t; r=[]; a=[t.Thread(target=r.append,args=(i,)) for i in range(64)]; "
        "[x.start() for x in a]; [x.join() for x in a]; print(sorted(r)==list(range(64)))",
    ],
    "signals": [
        sys.executable, "-c",
        "import signal,os,time; s=[]; signal.signal(10,lambda *_: s.append(1)); "
        "[os.kill(os.getpid(),10) for _ in range(50)]; time.sleep(.05); print(len(s)>0); "
        "print(signal.sigtimedwait([12], .05))",
    ],
    "getaddrinfo": [
        sys.executable, "-c",
        "import socket as s; print(sorted({a[4][0] for a in s.getaddrinfo('localhost', 80)})); "
        "print(s.getaddrinfo('127.0.0.1', 80, type=s.SOCK_STREAM))",
    ],
    "UDP and Unix sockets": [
        sys.executable, "-c",
        "import socket as s; a=s.socket(s.AF_INET,s.SOCK_DGRAM); a.bind(('127.0.0.1',0)); a.connect(a.getsockname()); "
        "a.send(b'x'); print(a.recv(9)); u,v=s.socketpair(); u.send(b'pair'); print(v.recv(9))",
    ],
    "descriptor limit": [
        sys.executable, "-c",
        "import os\nf=[]\ntry:\n while 1: f.append(os.dup(0))\nexcept OSError as e: print(e.errno, max(f) > 200)",
    ],
    "full descriptor table": [sys.executable, "-c", FULL_TABLE, "soft"],
    "full descriptor table without room above": [sys.executable, "-c", FULL_TABLE, "hard"],
    "descriptors are as before": [sys.executable, "-c", "import os; print(os.open('/dev/null', 0))"],
    "environment": [sys.executable, "-c", "import os; print(sorted(k for k in os.environ if 'LIOSTAT' not in k and k!='LD_PRELOAD'))"],
    "pointers to nothing, first of all": [
        sys.executable, "-c",
        "import ctypes, errno, mmap\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.mmap.restype = ctypes.c_void_p\n"
        "bad = libc.mmap(None, 4096, 0, 0x22, -1, 0)\n"
        "def say(*words):\n"
        " print(libc.syscall(*map(ctypes.c_ulong, words)), errno.errorcode.get(ctypes.get_errno()), flush=True)\n"
        "[say(13, number, new, old, 8) for number in (10, 11) for new in (0, bad) for old in (0, bad)]\n"
        "say(435, bad, 88); say(437, (1 << 64) - 100, bad, bad, 24); say(14, 0, bad, 0, 8)",
    ],
    "mapped files": ["sh", "-c", "ls /proc/self/fd | wc -l"],
    "closing everything": [
        sys.executable, "-c",
        "import os,subprocess; os.closerange(3, 4096); print(subprocess.run(['echo','fine'],capture_output=True).stdout)",
    ],
    "awk and dd": ["sh", "-c", "dd if=/dev/zero bs=4096 count=100 2>/dev/null | wc -c; echo 1 2 | awk '{print $1+$2}'"],
    "sqlite": [
        sys.executable, "-c",
        "import sqlite3; c=sqlite3.connect(':memory:'); c.execute('create table t(a)'); "
        "c.executemany('insert into t values(?)', [(i,) for i in range(1000)]); print(*c.execute('select sum(a) from t'))",
    ],
}  # fmt: skip


def outcome(harness, side: Side, argv: list[str]) -> tuple:
    """Exit status, standard output and standard error."""
    program = harness.run(side, argv)
    return program.process.returncode, program.output(), program.errors()


@pytest.mark.heliostat
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_and_returns_what_it_does_under_plain_linux(harness, name):
    assert outcome(harness, Side.HELIOSTAT, PROGRAMS[name]) == outcome(harness, Side.PLAIN, PROGRAMS[name])


@pytest.mark.heliostat
@pytest.mark.parametrize("argv", [["/no/such/program"], ["/etc/passwd"], ["/"]], ids=lambda argv: argv[0])
def test_program_that_cannot_be_started_fails_and_says_why(harness, argv):
    program = harness.run(Side.HELIOSTAT, argv)
    assert program.process.returncode in (126, 127)
    assert argv[0] in program.errors()


@pytest.mark.heliostat
def test_standard_input_reaches_the_program(harness):
    with open("/etc/passwd", "rb") as source:
        program = harness.run(Side.HELIOSTAT, ["wc", "-c"], stdin=source)
    with open("/etc/passwd", "rb") as source:
        assert int(program.output()) == len(source.read())


AS_ANOTHER = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "--"]


@pytest.mark.heliostat
def test_program_that_root_starts_as_another_user_is_covered(harness):
    # Without a cache of its own, as daemons' users are.
    os.chmod(harness.folder, 0o755)
    change = AS_ANOTHER if os.getuid() == 0 else []
    served = [*change, "/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", str(port := free_port())]
    environment = {"HOME": "/nonexistent", "XDG_CACHE_HOME": ""} if change else {}
    program = harness.start(Side.HELIOSTAT, served, env=environment, cwd="/")
    wait_listening(port, program.process)
    assert program.pid in [session["pid"] for session in harness.status()["sessions"]]
