"""A program of root's that has become another user reaches what that user may reach, and no more.

One program is run plainly and sealed, in a folder that is granted whole, and prints the same: below a
grant files are judged by who the worker is, as on plain Linux.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from pathlib import Path

import pytest
from heliostat_run import BINARY, serves_other_users

USER = "www-data"
pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user"),
    pytest.mark.skipif(not serves_other_users(), reason="who has become another user is served with CAP_SYS_PTRACE only"),
]

PREPARED = """
import ctypes, errno, os, socket, stat, subprocess, sys, threading
USER, GROUP, FOLDER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
libc = ctypes.CDLL(None, use_errno=True)

def attempt(work, *arguments, **more):
    try:
        done = work(*arguments, **more)
        return done if isinstance(done, (str, bytes, int)) else "done"
    except OSError as error:
        return errno.errorcode[error.errno]

def text(path):
    with open(path) as file:
        return file.read()

def owner(path):
    state = os.stat(path)
    return state.st_uid == USER, state.st_gid == GROUP, oct(state.st_mode)

def become():
    os.setgroups([GROUP])
    os.setresgid(GROUP, GROUP, GROUP)
    os.setresuid(USER, USER, USER)

os.chdir(FOLDER)
os.umask(0o022)
"""

FILES = """
print("root reads", attempt(text, "secret"))
become()
for path in ("secret", "closed/inside", "groups", "everybodys", "of-group"):
    print(path, attempt(text, path), attempt(open, path, "a"), attempt(os.stat, path))
print("modes", attempt(os.chmod, "everybodys", 0o666), attempt(os.chown, "everybodys", USER, GROUP))
print("own mode", attempt(os.chmod, "own", 0o640), attempt(os.chown, "own", 0, -1), owner("own"))
print("times", attempt(os.utime, "everybodys", (7, 7)), attempt(os.utime, "own", (7, 7)))
print("made", attempt(open, "made", "w"), attempt(os.mkdir, "folder"), attempt(open, "open/made", "w"))
print("owner", owner("open/made"), attempt(os.mkdir, "open/folder"), owner("open/folder"))
print("names", attempt(os.unlink, "secret"), attempt(os.rename, "secret", "open/secret"), attempt(os.link, "secret", "open/link"))
print("truncated", attempt(os.truncate, "secret", 0), attempt(os.symlink, "x", "link"), attempt(os.unlink, "open/made"))
print("trusted", attempt(os.setxattr, "own", "trusted.word", b"x"), attempt(os.setxattr, "own", "user.word", b"x"))
print("lists", attempt(os.listdir, "closed"), attempt(os.chdir, "closed"), sorted(os.listdir("open")))
print("access", [os.access(path, os.R_OK) for path in ("secret", "everybodys", "own")], os.access("everybodys", os.W_OK))
print("run", attempt(subprocess.run, ["./tool"]), attempt(os.open, "secret", os.O_PATH) != "EACCES")
print("port", attempt(socket.socket().bind, ("127.0.0.1", 81)))
# Refused, setfsuid and setfsgid answer what was and stays.
print("for files", [(libc.syscall(122, id), libc.syscall(123, id)) == (USER, GROUP) for id in (0, 4711, -1)])
"""

REAL_AND_EFFECTIVE = """
os.setresuid(-1, USER, -1)
print(attempt(text, "secret"), os.access("secret", os.R_OK), os.access("secret", os.R_OK, effective_ids=True))
os.setresuid(-1, 0, -1)
print(attempt(text, "secret"))
os.setresuid(USER, 0, 0)
print(attempt(text, "secret"), os.access("secret", os.R_OK), os.access("secret", os.R_OK, effective_ids=True))
"""

SOCKETS = """
import struct
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind("open/sock")
    os.chmod("open/sock", 0o777)
    listener.listen()
    with socket.socket(socket.AF_UNIX) as closed:
        closed.bind("closed/sock")
        closed.listen()
        if os.fork() == 0:
            become()
            with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as own, socket.socket(socket.AF_UNIX) as no:
                print(attempt(one.connect, "closed/sock"), attempt(one.connect, "open/sock"), flush=True)
                print(attempt(own.bind, "open/own"), owner("open/own"), attempt(no.bind, "own-sock"), flush=True)
            os._exit(0)
        other, _ = listener.accept()
        _, user, group = struct.unpack("3i", other.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        os.wait()
        print(user == USER, group == GROUP)
"""

PROCESSES = """
master = os.getpid()
reader, writer = os.pipe()
worker = os.fork()
if worker == 0:
    become()
    print("own", "[stack]" in text("/proc/self/maps"), os.readlink("/proc/self/cwd") == os.getcwd(), flush=True)
    print("numbers", len(os.listdir("/proc/self/fd")) > 2, attempt(open, f"/dev/fd/{writer}", "w"), flush=True)
    for entry in ("maps", "environ", "cwd", "exe", "root", "fd", "fdinfo", "smaps"):
        print(entry, attempt(os.readlink if entry in ("cwd", "exe", "root") else os.listdir if entry.startswith("fd") else text, f"/proc/{master}/{entry}"))
    print("status", "Uid:" in text(f"/proc/{master}/status"), flush=True)
    os._exit(0)
os.waitpid(worker, 0)
"""

THREADS = """
def work():
    # Of this thread only, as the system call itself has it.
    if libc.syscall(117, USER, USER, USER) == 0:
        print("other thread", attempt(text, "secret"), attempt(text, "own"))
one = threading.Thread(target=work)
one.start()
one.join()
print("this thread", attempt(text, "secret"))
"""

PROGRAMS = {"files": FILES, "real": REAL_AND_EFFECTIVE, "sockets": SOCKETS, "processes": PROCESSES, "threads": THREADS}


def prepare(folder: Path, user: int, group: int) -> None:
    """Files of root's, of the user's group and of everybody's."""
    folder.mkdir(mode=0o755)
    for name, mode in {"closed": 0o700, "open": 0o777}.items():
        (folder / name).mkdir()
        (folder / name).chmod(mode)
    modes = {"secret": 0o600, "closed/inside": 0o644, "groups": 0o040, "everybodys": 0o644, "of-group": 0o660, "own": 0o600}
    for name, mode in modes.items():
        (folder / name).write_text(f"text of {name}")
        (folder / name).chmod(mode)
    shutil.copy("/bin/true", folder / "tool")
    (folder / "tool").chmod(0o700)
    os.chown(folder / "of-group", 0, group)
    os.chown(folder / "own", user, group)


def run(text: str, folder: Path, sealed: bool) -> subprocess.CompletedProcess:
    """Runs a program of root's with the right to change ids and none besides, in a fresh folder."""
    entry = pwd.getpwnam(USER)
    shutil.rmtree(folder, ignore_errors=True)
    prepare(folder, entry.pw_uid, entry.pw_gid)
    flags = ["--sealed", "--user", USER, "--grant", f"{folder}:rw", "--listen", "127.0.0.1:81"]
    seal = [str(BINARY), "run", *flags, "--"] if sealed else []
    rights = ["setpriv", "--bounding-set=-all,+setuid,+setgid,+dac_override", "--inh-caps=-all"]
    words = [*([] if sealed else rights), *seal, "/usr/bin/python3", "-c", PREPARED + text]
    numbers = [str(entry.pw_uid), str(entry.pw_gid), str(folder)]
    return subprocess.run([*words, *numbers], capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder():
    """One that every user may enter."""
    place = Path(f"/var/tmp/heliostat-users-{os.getpid()}")
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_worker_reaches_what_its_user_may_reach_as_on_plain_linux(name, folder):
    plain, sealed = (run(PROGRAMS[name], folder, sealed) for sealed in (False, True))
    assert plain.returncode == 0 and plain.stdout, plain
    assert (sealed.returncode, sealed.stdout) == (0, plain.stdout), (plain.stdout, sealed)


def test_a_root_only_file_below_a_grant_is_not_the_workers(folder):
    """What the comparison shows, said once by itself."""
    program = 'print(attempt(text, "secret")); become(); print(attempt(text, "secret"), attempt(text, "everybodys"))'
    done = run(program, folder, sealed=True)
    assert done.stdout == "text of secret\nEACCES text of everybodys\n", done
