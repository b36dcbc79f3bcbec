"""/proc is the sealed program's own, wherever an instance of it is mounted or a link leads into it."""

from __future__ import annotations

import os
import subprocess

import pytest
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat


def run(harness, grants: list[str], program: list[str], around: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    granted = [word for grant in grants for word in ("--grant", grant)]
    words = [*around, str(BINARY), "run", "--sealed", *granted, "--", *program]
    environment = {**os.environ, **harness.environment()}
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=60)


def test_granted_proc_is_refused_with_words(harness):
    done = run(harness, ["/proc"], ["cat", "/proc/self/comm"])
    assert done.stdout == "cat\n"
    assert "not granted: /proc: of /proc a program has" in done.stderr


def test_single_file_of_proc_is_granted(harness):
    done = run(harness, ["/proc/interrupts"], ["cat", "/proc/interrupts"])
    assert (done.returncode, done.stderr) == (0, "") and done.stdout


@pytest.mark.parametrize("name", ["self/comm", "self/../thread-self/comm", "self/status"])
def test_proc_mounted_below_a_grant_shows_nobody(harness, tmp_path, name):
    (tmp_path / "proc").mkdir()
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    # The first for the supervisor, whose processes have other numbers in the host's.
    mount = f'mount -t proc none /proc && mount -t proc none {tmp_path}/proc && exec "$@"'
    inside = ("unshare", *own, "--mount", "--pid", "--fork", "sh", "-c", mount, "sh")
    program = ["sh", "-c", f"cat {tmp_path}/proc/{name}; cd {tmp_path}/proc && cat {name}; cat {tmp_path}/file"]
    (tmp_path / "file").write_text("beside it\n")
    done = run(harness, [str(tmp_path)], program, inside)
    assert done.stdout == "beside it\n"
    assert "Permission denied" in done.stderr


def test_program_that_begins_in_a_mounted_proc_sees_nobody_there(harness, tmp_path):
    (tmp_path / "proc").mkdir()
    own = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    mount = f'mount --bind /proc {tmp_path}/proc && cd {tmp_path}/proc && exec "$@"'
    inside = ("unshare", *own, "--mount", "sh", "-c", mount, "sh")
    program = ["sh", "-c", f"cat self/comm; cat 1/comm; true > self/comm; cat {tmp_path}/file"]
    (tmp_path / "file").write_text("beside it\n")
    done = run(harness, [f"{tmp_path}:rw"], program, inside)
    assert done.stdout == "beside it\n", done.stderr


def test_list_of_mounts_is_the_programs_own(harness):
    if not os.path.exists("/etc/mtab"):
        pytest.skip("no /etc/mtab here")
    done = run(harness, [], ["sh", "-c", "cmp /etc/mtab /proc/self/mounts; ls /proc | grep -c '^[0-9]'; readlink /etc/mtab"])
    # The shell, ls and grep: no supervisor.
    assert done.stdout.splitlines() == ["3", os.readlink("/etc/mtab")] and done.stderr == ""
