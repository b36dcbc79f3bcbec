"""What a sealed program is handed, and how much it may be granted."""

from __future__ import annotations

import os
import pty
import select
import signal
import stat
import subprocess
import termios
import time

import pytest
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat
# More than the usual limit of descriptors of a process.
GRANTS = 1500

NAMING = """
import os
for way in (lambda: os.fchmod(1, 0o777), lambda: os.link("/proc/self/fd/1", "rw/loot", follow_symlinks=True)):
    try:
        way()
    except OSError:
        pass
"""


@pytest.mark.parametrize("name", ["log (deleted)", "linked"])
def test_output_that_has_a_name_is_neither_linked_nor_given_a_mode(harness, tmp_path, name):
    """Neither a name that ends as a removed file's does, nor one of two that was removed."""
    (tmp_path / "rw").mkdir()
    left = tmp_path / ("left" if name == "linked" else name)
    with open(tmp_path / name, "w") as output:
        os.chmod(tmp_path / name, 0o600)
        if name == "linked":
            os.link(tmp_path / name, left)
            (tmp_path / name).unlink()
        words = [str(BINARY), "run", "--sealed", "--grant", "rw:rw", "--", "/usr/bin/python3", "-c", NAMING]
        environment = {**os.environ, **harness.environment()}
        subprocess.run(words, cwd=tmp_path, env=environment, stdout=output, timeout=60, check=True)
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    assert not (tmp_path / "rw/loot").exists()


def test_refusals_are_said_on_a_terminal_that_stops_whom_it_does_not_belong_to(harness, tmp_path):
    (tmp_path / "file").write_text("x")
    program = ["sh", "-c", f"cat {tmp_path}/file; for i in 1 2 3; do cat /etc/hosts >/dev/null; done; echo over"]
    pid, end = pty.fork()
    if pid == 0:
        settings = termios.tcgetattr(0)
        settings[3] |= termios.TOSTOP
        termios.tcsetattr(0, termios.TCSANOW, settings)
        words = [str(BINARY), "run", "--sealed", "--verbose", "--", *program]
        os.execve(BINARY, words, {**os.environ, **harness.environment()})
    shown, until = b"", time.monotonic() + 60
    try:
        while b"over" not in shown and select.select([end], [], [], max(0, until - time.monotonic()))[0]:
            shown += os.read(end, 4096)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(end)
    assert b"over" in shown and f"--grant {tmp_path}/file".encode() in shown, shown


def test_more_grants_than_descriptors(harness, tmp_path):
    """The supervisor holds each open; the program keeps the limit that it was started with."""
    for number in range(GRANTS):
        (tmp_path / str(number)).mkdir()
    grants = ", ".join(f'"{number}"' for number in range(GRANTS))
    (tmp_path / "policy.toml").write_text(f"grant = [{grants}]\n")
    inside = f"ulimit -Sn; cd {tmp_path}; ls | wc -l; ls {GRANTS - 1}"
    seal = f"ulimit -Sn 1024; exec {BINARY} run --sealed --policy {tmp_path}/policy.toml -- sh -c '{inside}'"
    environment = {**os.environ, **harness.environment()}
    done = subprocess.run(["sh", "-c", seal], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.stderr) == (["1024", str(GRANTS)], "")
