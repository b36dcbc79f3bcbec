"""Programs that are native as a whole: `--require` refuses them, `explain` says why, `--verbose` once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import kernel_view
import pytest
from heliostat_run import BINARY, House, Side

pytestmark = pytest.mark.heliostat

RAN = ["/bin/echo", "ran"]


def required(house, *words: str, program: list = RAN, **environment: str) -> subprocess.CompletedProcess:
    """`heliostat run --require`, and what came of it."""
    words = [str(BINARY), "run", "--require", *words, "--", *map(str, program)]
    return subprocess.run(
        words, env={**house.environment(), **environment}, capture_output=True, text=True, timeout=60, check=False
    )


def refused(done: subprocess.CompletedProcess, why: str) -> bool:
    """True when the program has not run, and the right reason was said."""
    return (done.returncode, done.stdout) == (125, "") and "is not run" in done.stderr and why in done.stderr


def compiled(house, name: str, *flags: str) -> str:
    """A program that prints a word, made as the flags say."""
    source = house.folder / f"{name}.c"
    source.write_text('#include <stdio.h>\nint main() { puts("ran"); return 0; }\n')
    subprocess.run(["gcc", *flags, "-o", house.folder / name, source], check=True)
    return str(house.folder / name)


def test_a_covered_program_runs_where_that_is_required(house):
    done = required(house)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")


def test_what_a_required_program_starts_is_not_required_and_not_told(house):
    done = required(house, program=["bash", "-c", "echo [$HELIOSTAT_REQUIRE]; HELIOSTAT_DIRECT=0 /bin/echo ran"])
    assert (done.returncode, done.stdout) == (0, "[]\nran\n")


@pytest.mark.parametrize("flags", [["-static"], ["-static-pie"]], ids="".join)
def test_a_static_program_is_refused(house, flags):
    assert refused(required(house, program=[compiled(house, "static", *flags)]), "statically linked")


def of_another(house) -> str:
    """A program with another user's rights: one that root gives away, and for everybody else one of root's."""
    if os.geteuid() != 0:
        return shutil.which("su", path="/usr/bin:/bin")
    program = compiled(house, "privileged")
    shutil.chown(program, 65534)
    os.chmod(program, 0o4755)
    return program


def test_a_program_with_anothers_rights_is_refused(house):
    assert refused(required(house, program=[of_another(house)]), "another user's rights")


def test_a_program_of_another_word_size_is_refused(house):
    program = house.folder / "foreign"
    head = bytearray(open("/bin/true", "rb").read(64))
    head[4] = 1
    program.write_bytes(head)
    program.chmod(0o755)
    assert refused(required(house, program=[program]), "another architecture")


# Root reads whatever the mode says, so the command runs as somebody else.
AS_NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups"] if os.geteuid() == 0 else []


def test_a_program_that_cannot_be_read_is_refused(house):
    program = compiled(house, "unreadable")
    os.chmod(program, 0o111)
    os.chmod(house.folder, 0o777)
    words = [*AS_NOBODY, str(BINARY), "run", "--require"]
    words += ["--socket", f"{house.folder}/other.sock", "--", program]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert refused(done, "not known")


@pytest.mark.parametrize("how", [{"HELIOSTAT_DIRECT": "0"}, "--no-direct"], ids=["environment", "option"])
def test_switched_off_is_refused(house, how):
    done = required(house, how) if isinstance(how, str) else required(house, **how)
    assert refused(done, "switched off")


@pytest.mark.parametrize("stub", ["/etc/passwd", "/lib/x86_64-linux-gnu/libm.so.6", "/nonexistent/stub.so"])
def test_a_stub_that_is_none_is_refused(house, stub):
    assert refused(required(house, HELIOSTAT_STUB=stub), stub)


def too_late(house) -> str:
    """A list of libraries to preload, of which another than the stub comes first and starts a thread."""
    source, library = house.folder / "early.c", house.folder / "early.so"
    source.write_text(
        "#include <pthread.h>\n#include <unistd.h>\nstatic void *stay(void *it) { pause(); return it; }\n"
        "__attribute__((constructor)) static void start(void) { pthread_t one; pthread_create(&one, 0, stay, 0); }\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
    return f"{BINARY.with_name('libheliostat_posix.so')}:{library}"


def test_text_that_cannot_be_patched_is_refused(house):
    assert refused(required(house, LD_PRELOAD=too_late(house)), "thread")


def test_a_missing_control_plane_is_refused(house):
    assert refused(required(house, "--socket", "/proc/nowhere/control.sock"), "no control plane")


def test_a_session_beyond_the_limit_is_refused(tmp_path):
    config = tmp_path / "one.toml"
    config.write_text("[limits]\nsessions_per_user = 1\n")
    with House(plain=True) as house:
        held = house.start(Side.PLAIN, [BINARY, "run", "--config", config, "--", *holder(house)])
        kernel_view.wait_until(lambda: "listens" in held.output(), 60, "the only session")
        kernel_view.wait_until(lambda: refused(required(house), "a limit is reached: 1 sessions for this user"), 60, "a refusal")


def holder(house) -> list:
    """A program that has a session and keeps it."""
    text = "import socket, time; s = socket.create_server(('127.0.0.1', 0)); print('listens', flush=True); time.sleep(600)"
    return [sys.executable, "-c", text]


def test_sealed_and_required_is_refused_as_well(house):
    assert refused(required(house, "--sealed", HELIOSTAT_STUB="/nonexistent/stub.so"), "/nonexistent/stub.so")


def test_verbose_says_one_line_for_a_whole_tree_of_programs(house):
    tree = ["bash", "-c", "sh -c 'true; env true'; python3 -c 'import os; os.system(\"true\")'; exec true"]
    words = [str(BINARY), "run", "--verbose", "--", *tree]
    done = subprocess.run(words, env=house.environment(), capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.count("\n") == 1, done.stderr
    [line] = done.stderr.splitlines()
    assert line.startswith("heliostat: bash: ") and "system-call sites of libc are caught" in line


def test_verbose_says_what_is_different_further_down(house):
    tree = ["sh", "-c", f"LD_PRELOAD={too_late(house)} /bin/echo ran; true"]
    words = [str(BINARY), "run", "--verbose", "--", *tree]
    done = subprocess.run(words, env=house.environment(), capture_output=True, text=True, timeout=60, check=True)
    first, second = done.stderr.splitlines()
    assert "are caught" in first and second.startswith("heliostat: echo: native: ")
