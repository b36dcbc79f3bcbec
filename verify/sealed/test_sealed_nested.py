"""Sealed programs inside sealed programs and containers: what works, and what is said where it does not."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from heliostat_run import BINARY, BUILT

pytestmark = pytest.mark.heliostat


def sealed(*words: str, flags: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """Runs a command sealed, with what `heliostat` itself needs to be read."""
    granted = ["--grant", str(BUILT), *flags]
    command = [str(BINARY), "run", "--sealed", *granted, "--", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_a_sealed_program_seals_no_other_and_is_told_why():
    done = sealed(str(BUILT / "heliostat"), "run", "--sealed", "--", "/bin/true")
    assert done.returncode == 125, done.stderr
    line = done.stderr.splitlines()[0]
    assert line.startswith("heliostat: the program is not run: it is inside a sealed program"), done.stderr
    assert "leave --sealed out here" in line and "busy" not in line.lower()


def test_inside_without_sealed_it_runs_within_the_policy_outside():
    done = sealed(str(BUILT / "heliostat"), "run", "--", "/bin/cat", "/etc/hostname", "/etc/shadow")
    assert "/etc/shadow" in done.stderr and "No such file" in done.stderr, done.stderr
    assert done.returncode == 1


def test_doctor_inside_says_that_somebody_listens_already():
    done = sealed(str(BUILT / "heliostat"), "doctor", "--for", "sealed")
    assert "another supervisor listens to this process already" in done.stdout, done.stdout
    assert done.returncode == 1


@pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
def test_namespaces_inside_are_refused_by_name():
    plain = subprocess.run([str(BINARY), "run", "--", "unshare", "--user", "true"], capture_output=True, timeout=100)
    if plain.returncode != 0:
        pytest.skip("namespaces are refused here before the supervisor is asked")
    flags = ("--verbose", "--grant", "/proc/sys/kernel/overflowuid", "--grant", "/proc/sys/kernel/overflowgid")
    done = sealed("bwrap", "--ro-bind", "/usr", "/usr", "true", flags=flags)
    assert done.returncode != 0
    assert "namespaces of its own" in done.stderr, done.stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("bwrap"), reason="bubblewrap as root")
def test_a_sealed_program_runs_inside_bubblewrap(tmp_path):
    (tmp_path / "file").write_text("text")
    inner = [str(BINARY), "run", "--sealed", "--grant", str(tmp_path), "--", "/bin/cat", str(tmp_path / "file")]
    whole = ["bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--", *inner]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "text"), done.stderr
