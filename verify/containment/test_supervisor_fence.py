"""The supervisor, which reads what hostile programs write, is behind a fence of its own.

Calls are made in its main thread, which waits for its children, as somebody would make them who had
taken it over.
"""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
import time
from pathlib import Path

import pytest
from attacks import ORDINARY_USER, WORKER
from heliostat_run import BINARY, copies_descriptors, serves_other_users

pytestmark = pytest.mark.heliostat
HERE = Path(__file__).parent
USERS = (0, ORDINARY_USER) if os.geteuid() == 0 else (os.geteuid(),)
OPEN, MMAP, IOCTL, SOCKET, FORK, EXECVE, CHMOD, PTRACE, UNSHARE = 257, 9, 16, 41, 57, 59, 90, 101, 272
PIDFD_OPEN, PIDFD_GETFD, GETPID, SETREGID = 434, 438, 39, 114
AT_FDCWD = -100
X32 = 0x40000000
# What nobody needs who opens files and sockets for others (source: asm/unistd_64.h).
NEVER_MADE = {
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "execve by its x32 number": X32 | 520,
    "ptrace": 101, "kcmp": 312, "process_madvise": 440, "pidfd_getfd by its x32 number": X32 | 438,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "open_tree": 428,
    "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433, "mount_setattr": 442,
    "open_by_handle_at": 304, "name_to_handle_at": 303, "memfd_create": 319, "memfd_secret": 447,
    "pkey_mprotect": 329, "shmget": 29, "shmat": 30, "remap_file_pages": 216, "userfaultfd": 323,
    "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "bpf": 321, "perf_event_open": 298,
    "setuid": 105, "setgid": 106, "setreuid": 113, "setresuid": 117, "setresgid": 119, "setgroups": 116,
    "setfsuid": 122, "setfsgid": 123, "capset": 126, "personality": 135, "modify_ldt": 154, "arch_prctl": 158,
    "iopl": 172, "ioperm": 173, "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246,
    "kexec_file_load": 320, "reboot": 169, "swapon": 167, "acct": 163, "syslog": 103, "quotactl": 179,
    "settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "sethostname": 170, "add_key": 248,
    "request_key": 249, "keyctl": 250, "mq_open": 240, "fanotify_init": 300, "vmsplice": 278, "tee": 276,
    "mknod": 133, "setpriority": 141, "sched_setscheduler": 144, "seccomp": 317, "setrlimit": 160,
}
# What acting on files in a grant takes, and listening, an unreadable program, and attributes named
# trusted.* and security.* (capabilities(7)).
KEPT = sum(1 << number for number in (0, 1, 2, 3, 4, 10, 19, 21, 31))


@pytest.fixture(scope="module")
def inject(tmp_path_factory):
    program = tmp_path_factory.mktemp("inject") / "inject"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / "inject.c"], check=True)
    return program


class Sealed:
    """A sealed program that waits, and its supervisor."""

    def __init__(self, inject: Path, folder: Path, user: int, *flags: str):
        self.inject = inject
        command = [BINARY, "run", "--sealed", "--grant", f"{folder}/own:rw", "--grant", f"{folder}/read:ro", *flags]
        environment = dict(os.environ, HELIOSTAT_STUB="/nonexistent", HELIOSTAT_SOCKET=str(folder / "own/control.sock"))
        words = [*map(str, command), "--", "sh", "-c", "echo ready; read word"]
        pipe = subprocess.PIPE
        self.front = subprocess.Popen(words, env=environment, stdin=pipe, stdout=pipe, **becoming(user))
        assert self.front.stdout.readline() == b"ready\n"
        self.supervisor = children(self.front.pid)[0]
        self.program = children(self.supervisor)[0]

    def call(self, number: int, *arguments: object) -> int:
        """What the kernel answers to a call of the supervisor's."""
        command = [self.inject, self.supervisor, number, *arguments]
        return int(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, timeout=30).stdout)

    def close(self) -> None:
        self.front.communicate(b"\n", timeout=30)


def becoming(user: int) -> dict:
    """How a process is started as a user, by root; everybody else is that user."""
    return {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def status(process: int, thread: int, field: str) -> str:
    lines = Path(f"/proc/{process}/task/{thread}/status").read_text().splitlines()
    return next(line.split(":", 1)[1].strip() for line in lines if line.startswith(field + ":"))


MODES = {"": [], "limited": ["--memory", "256M", "--processes", "50"], "with its network": ["--connect", "127.0.0.1:*"]}
SETUPS = [(user, mode) for user in USERS for mode in MODES]


@pytest.fixture(params=SETUPS, ids=lambda setup: ("root " if setup[0] == 0 else "user ") + setup[1])
def sealed(request, inject, tmp_path_factory):
    """Of each user and in each mode, with a folder for writing, one for reading, and one that is not granted."""
    user, mode = request.param
    folder = tmp_path_factory.mktemp("fence")
    for path in (folder, *folder.parents[:2]):
        path.chmod(0o755)
    for name in ("own", "read", "outside"):
        (folder / name).mkdir()
        (folder / name / "file").write_text(name)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, user, user if os.geteuid() == 0 else -1)
    one = Sealed(inject, folder, user, *MODES[mode])
    one.folder = folder
    yield one
    one.close()


def test_every_thread_has_filter_and_no_more_rights_than_it_needs(sealed):
    threads = [int(path.name) for path in Path(f"/proc/{sealed.supervisor}/task").iterdir()]
    assert len(threads) > 1
    for thread in threads:
        assert status(sealed.supervisor, thread, "Seccomp") == "2"
        assert status(sealed.supervisor, thread, "NoNewPrivs") == "1"
        for held in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
            assert int(status(sealed.supervisor, thread, held), 16) & ~KEPT == 0, held


def test_calls_that_it_does_not_need_fail(sealed):
    refused = -errno.EPERM
    assert sealed.call(GETPID) == sealed.supervisor
    assert sealed.call(EXECVE, "@/bin/true", 0, 0) == refused
    assert sealed.call(FORK) == refused
    assert sealed.call(PTRACE, 0) == refused
    assert sealed.call(SOCKET, 16, 3, 0) == refused
    assert sealed.call(UNSHARE, 0x10000000) == refused
    assert sealed.call(MMAP, 0, 4096, 5, 0x22, -1, 0) == refused
    assert sealed.call(IOCTL, 0, 0x5412, 0) == refused


def test_its_filter_is_a_list_of_what_it_makes(sealed):
    """Nothing that executes, looks into others, mounts, or becomes somebody else; whatever the number."""
    answers = {name: sealed.call(number, 0, 0, 0, 0, 0, 0) for name, number in NEVER_MADE.items()}
    assert {name: answer for name, answer in answers.items() if answer not in (-errno.EPERM, -errno.ENOSYS)} == {}
    unknown = [sealed.call(number, 0) for number in (512, 600, 100_000)]
    assert set(unknown) <= {-errno.EPERM, -errno.ENOSYS}


@pytest.mark.skipif(os.geteuid() != 0, reason="only a program of root's becomes another user")
@pytest.mark.skipif(not serves_other_users(), reason="who has become another user is served with CAP_SYS_PTRACE only")
def test_it_takes_the_ids_of_users_that_are_named_and_of_no_others(inject, tmp_path):
    """As the effective ones, from which it finds back: the real and the saved ones stay root's."""
    for name in ("own", "read"):
        (tmp_path / name).mkdir()
    user, stranger, refused = pwd.getpwnam(WORKER).pw_uid, 4711, -errno.EPERM
    one = Sealed(inject, tmp_path, 0, "--user", WORKER)
    for ids in ((-1, stranger, -1), (user, -1, -1), (-1, -1, user), (user, user, user), (stranger, user, stranger)):
        assert one.call(NEVER_MADE["setresuid"], *ids) == refused, ids
    for name in ("setuid", "setreuid", "setfsuid", "setgid", "setregid", "setfsgid"):
        assert one.call(NEVER_MADE.get(name, SETREGID), user, user) == refused, name
    assert [one.call(NEVER_MADE["setresuid"], -1, id, -1) for id in (user, 0)] == [0, 0]
    one.close()


def test_files_that_are_not_granted_stay_closed(sealed):
    refused = -errno.EACCES
    assert sealed.call(OPEN, AT_FDCWD, f"@{sealed.folder}/own/file", os.O_RDWR) >= 0
    assert sealed.call(OPEN, AT_FDCWD, f"@{sealed.folder}/read/file", os.O_RDONLY) >= 0
    assert sealed.call(OPEN, AT_FDCWD, f"@{sealed.folder}/read/file", os.O_WRONLY) == refused
    assert sealed.call(OPEN, AT_FDCWD, f"@{sealed.folder}/outside/file", os.O_RDONLY) == refused
    assert sealed.call(OPEN, AT_FDCWD, f"@{sealed.folder}/outside/made", os.O_WRONLY | os.O_CREAT, 0o600) == refused


def test_processes_outside_are_not_looked_into(sealed):
    user = os.stat(f"/proc/{sealed.front.pid}").st_uid
    with subprocess.Popen(["sleep", "60"], **becoming(user)) as other:
        while os.readlink(f"/proc/{other.pid}/exe").endswith("python3"):
            time.sleep(0.01)
        holds = [sealed.call(PIDFD_OPEN, process, 0) for process in (other.pid, sealed.program)]
        copies = [sealed.call(PIDFD_GETFD, hold, 0, 0) for hold in holds]
        refused = (-errno.EPERM, -errno.EACCES)
        opened = sealed.call(OPEN, AT_FDCWD, f"@/proc/{other.pid}/mem", os.O_RDWR)
        other.kill()
    assert min(holds) >= 0 and copies[0] == -errno.EPERM
    # A container refuses even what lies in the program itself.
    assert copies[1] >= 0 if copies_descriptors() else copies[1] == -errno.EPERM
    assert opened in refused


@pytest.mark.parametrize("user", USERS, ids=lambda user: "root" if user == 0 else "user")
def test_without_landlock_nothing_is_sealed_and_nothing_runs(user, tmp_path_factory):
    """Half of the fence is no fence: the program does not begin, and the words say why."""
    folder = tmp_path_factory.mktemp("without")
    program = folder / "without"
    subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program, HERE / "without_landlock.c"], check=True)
    for path in (program, folder, *folder.parents[:2]):
        path.chmod(0o755)
    words = [str(program), BINARY, "run", "--sealed", "--grant", "/:ro", "--", "echo", "began"]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, **becoming(user))
    assert run.returncode == 125, run.stderr
    assert "began" not in run.stdout and "this kernel has no Landlock" in run.stderr


def test_a_core_has_no_memory_in_it(sealed):
    """Wherever the kernel gives it to; and it is written nowhere and given to no program."""
    assert int(Path(f"/proc/{sealed.program}/coredump_filter").read_text(), 16) == 0
    limits = Path(f"/proc/{sealed.program}/limits").read_text()
    assert next(line for line in limits.splitlines() if line.startswith("Max core file size")).split()[4:6] == ["1", "1"]
