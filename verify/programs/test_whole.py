"""Programs that are native as a whole: `--require` refuses them, `explain` says why, `--verbose` once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side

pytestmark = pytest.mark.heliostat

RAN = ["/bin/echo", "ran"]


def required(harness, *words: str, program: list = RAN, **environment: str) -> subprocess.CompletedProcess:
    """`heliostat run --require`, and what came of it."""
    words = [str(BINARY), "run", "--require", *words, "--", *map(str, program)]
    return subprocess.run(
        words, env={**harness.environment(), **environment}, capture_output=True, text=True, timeout=60, check=False
    )


def refused(done: subprocess.CompletedProcess, why: str) -> bool:
    """True when the program has not run, and the right reason was said."""
    return (done.returncode, done.stdout) == (125, "") and "is not run" in done.stderr and why in done.stderr


def compiled(harness, name: str, *flags: str) -> str:
    """A program that prints a word, made as the flags say."""
    source = harness.folder / f"{name}.c"
    source.write_text('#include <stdio.h>\nint main() { puts("ran"); return 0; }\n')
    subprocess.run(["gcc", *flags, "-o", harness.folder / name, source], check=True)
    return str(harness.folder / name)


def test_a_covered_program_runs_where_that_is_required(harness):
    done = required(harness)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_what_a_required_program_starts_is_not_required_and_not_told(harness):
    done = required(harness, program=["bash", "-c", "echo [$HELIOSTAT_REQUIRE]; HELIOSTAT_DIRECT=0 /bin/echo ran"])
    assert (done.returncode, done.stdout) == (0, "[]\nran\n")


@pytest.mark.parametrize("flags", [["-static"], ["-static-pie"]], ids="".join)
def test_a_static_program_is_refused(harness, flags):
    assert refused(required(harness, program=[compiled(harness, "static", *flags)]), "statically linked")


def of_another(harness) -> str:
    """A program with another user's rights: one that root gives away, and for everybody else one of root's."""
    if os.geteuid() != 0:
        return shutil.which("su", path="/usr/bin:/bin")
    program = compiled(harness, "privileged")
    shutil.chown(program, 65534)
    os.chmod(program, 0o4755)
    return program


def test_a_program_with_anothers_rights_is_refused(harness):
    assert refused(required(harness, program=[of_another(harness)]), "another user's rights")


def test_a_program_of_another_word_size_is_refused(harness):
    program = harness.folder / "foreign"
    head = bytearray(open("/bin/true", "rb").read(64))
    head[4] = 1
    program.write_bytes(head)
    program.chmod(0o755)
    assert refused(required(harness, program=[program]), "another architecture")


# Root reads whatever the mode says, so the command runs as somebody else.
AS_NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []


def test_a_program_that_cannot_be_read_is_refused(harness):
    program = compiled(harness, "unreadable")
    os.chmod(program, 0o111)
    os.chmod(harness.folder, 0o777)
    words = [*AS_NOBODY, str(BINARY), "run", "--require"]
    words += ["--socket", f"{harness.folder}/other.sock", "--", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert refused(done, "not known")


@pytest.mark.parametrize("how", [{"HELIOSTAT_DIRECT": "0"}, "--no-direct"], ids=["environment", "option"])
def test_switched_off_is_refused(harness, how):
    done = required(harness, how) if isinstance(how, str) else required(harness, **how)
    assert refused(done, "switched off")


@pytest.mark.parametrize("stub", ["/etc/passwd", "/lib/x86_64-linux-gnu/libm.so.6", "/nonexistent/stub.so"])
def test_a_stub_that_is_none_is_refused(harness, stub):
    assert refused(required(harness, HELIOSTAT_STUB=stub), stub)


def too_late(harness) -> str:
    """A list of libraries to preload, of which another than the stub comes first and starts a thread."""
    source, library = harness.folder / "early.c", harness.folder / "early.so"
    source.write_text(
        "#include <pthread.h>\n#include <unistd.h>\nstatic void *stay(void *it) { pause(); return it; }\n"
        "__attribute__((constructor)) static void start(void) { pthread_t one; pthread_create(&one, 0, stay, 0); }\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return f"{BINARY.with_name('libheliostat_posix.so')}:{library}"


def test_text_that_cannot_be_patched_is_refused(harness):
    assert refused(required(harness, LD_PRELOAD=too_late(harness)), "thread")


def test_a_missing_control_plane_is_refused(harness):
    assert refused(required(harness, "--socket", "/proc/nowhere/control.sock"), "no control plane")


def test_a_session_beyond_the_limit_is_refused(tmp_path):
    config = tmp_path / "one.toml"
    config.write_text("[limits]\nsessions_per_user = 1\n")
    with Harness(plain=True) as harness:
        held = harness.start(Side.PLAIN, [BINARY, "run", "--config", config, "--", *holder(harness)])
        kernel_view.wait_until(lambda: "listens" in held.output(), 60, "the only session")
        kernel_view.wait_until(lambda: refused(required(harness), "a limit is reached: 1 sessions for this user"), 60, "a refusal")


def holder(harness) -> list:
    """A program that has a session and keeps it."""
    text = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print('listens', flush=True); time.sleep(600)"
    return [sys.executable, "-c", text]


def test_sealed_and_required_is_refused_as_well(harness):
    assert refused(required(harness, "--sealed", HELIOSTAT_STUB="/nonexistent/stub.so"), "/nonexistent/stub.so")


def test_verbose_says_one_line_for_a_whole_tree_of_programs(harness):
    tree = ["bash", "-c", "sh -c 'true; env true'; python3 -c 'import os; os.system(\"true\")'; exec true"]
    words = [str(BINARY), "run", "--verbose", "--", *tree]
    done = subprocess.run(words, env=harness.environment(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.count("\n") == 1, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("heliostat: bash: ") and "system-call sites of libc are caught" in line


def test_verbose_says_what_is_different_further_down(harness):
    tree = ["sh", "-c", f"LD_PRELOAD={too_late(harness)} /bin/echo ran; true"]
    words = [str(BINARY), "run", "--verbose", "--", *tree]
    done = subprocess.run(words, env=harness.environment(), capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stderr.splitlines()
    assert "are caught" in first and second.startswith("heliostat: echo: native: ")
