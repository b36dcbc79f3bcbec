"""Locks and functions of sealed programs: by the names of their policy, beside programs that are not sealed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from c_programs import BINDING, built, run_sealed
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def examples(tmp_path_factory) -> Path:
    """The folder of the C library's examples of locks and of functions, built."""
    folder = tmp_path_factory.mktemp("c")
    for name in ("lock", "rpc"):
        built(BINDING / f"examples/{name}.c", folder)
    return folder


def test_two_sealed_programs_share_a_lock_and_a_barrier_and_one_dies_holding(harness, examples, tmp_path):
    flags = ["--lock", "example/*:acquire", "--grant", examples, "--grant", f"{tmp_path}:rw"]
    done = run_sealed(harness, flags, [examples / "lock", tmp_path / "counted"])
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.strip() == "1000 counted, met 3 times, owner died"


def test_without_the_name_a_lock_is_refused_and_told_which_flag_grants_it(harness, examples, tmp_path):
    for more in [[], ["--lock", "other/*:acquire"], ["--call", "example/*:call"]]:
        flags = ["--verbose", *more, "--grant", examples, "--grant", f"{tmp_path}:rw"]
        done = run_sealed(harness, flags, [examples / "lock", tmp_path / "counted"])
        assert done.returncode != 0
        # A program with no lock at all is refused before it has said a name.
        told = "--lock example/count:acquire" if "--lock" in more else "the rules deny it"
        assert told in done.stderr, done.stderr


@pytest.fixture
def server(harness, examples):
    """A sealed program that serves a function; the words that started it."""
    words = [BINARY, "run", "--sealed", "--call", "example/*:serve", "--grant", examples, "--", examples / "rpc", "serve"]
    process = subprocess.Popen([str(word) for word in words], env=harness.environment(), cwd="/")
    yield process
    process.kill()
    process.wait()


def test_a_sealed_program_calls_what_another_sealed_one_serves(harness, examples, server):
    flags = ["--call", "example/upper:call", "--grant", examples]

    def called() -> subprocess.CompletedProcess:
        return run_sealed(harness, flags, [examples / "rpc", "call", "hello"])

    done = called()
    for _ in range(100):
        if done.returncode == 0:
            break
        assert server.poll() is None, "it has ended"
        done = called()
    assert done.stdout == "HELLO\n", (done.stdout, done.stderr)
    # A program that is not sealed calls it as well.
    free = subprocess.run([examples / "rpc", "call", "free"], env=harness.environment(), capture_output=True, text=True, timeout=60)
    assert free.stdout == "FREE\n", (free.stdout, free.stderr)


def test_serving_and_calling_are_granted_apart_and_told_by_their_flags(harness, examples):
    serve = run_sealed(harness, ["--verbose", "--call", "example/*:call", "--grant", examples], [examples / "rpc", "serve"])
    assert serve.returncode != 0 and "--call example/upper:serve" in serve.stderr, serve.stderr
    call = run_sealed(harness, ["--verbose", "--call", "example/*:serve", "--grant", examples], [examples / "rpc", "call", "x"])
    assert call.returncode != 0 and "--call example/upper:call" in call.stderr, call.stderr


def test_a_policy_file_grants_them_and_a_mistake_is_named(harness, examples, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text('lock = ["example/*:acquire"]\ncall = ["example/upper:call"]\n')
    flags = ["--policy", policy, "--grant", examples, "--grant", f"{tmp_path}:rw"]
    done = run_sealed(harness, flags, [examples / "lock", tmp_path / "counted"])
    assert done.returncode == 0, (done.stdout, done.stderr)
    policy.write_text('lock = ["example/*:read"]\n')
    done = run_sealed(harness, flags, [examples / "lock", tmp_path / "counted"])
    assert done.returncode == 125 and "lock[1]" in done.stderr and "NAME:acquire" in done.stderr, done.stderr
