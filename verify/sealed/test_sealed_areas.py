"""Areas of sealed programs: by the names and rights of their policy, by a server loop."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from c_programs import BINDING, built, run_sealed
from heliostat_run import BINARY, ROOT, Harness

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def programs(tmp_path_factory) -> Path:
    """The folder of the C library's example of areas, and of the driver that takes a command a line."""
    folder = tmp_path_factory.mktemp("c")
    built(BINDING / "examples/store.c", folder)
    built(ROOT / "verify/store/driver.c", folder)
    return folder


@pytest.fixture
def node(tmp_path):
    """A control plane with a store, which trusts its user with the device."""
    path = tmp_path / "store"
    subprocess.run([BINARY, "store", "init", path, "--size", "32M"], check=True, capture_output=True)
    with Harness(configuration=f'[store]\npath = "{path}"\n') as harness:
        yield harness


def drives(node, flags: list[str], programs: Path, *commands: str) -> list[str]:
    """What a sealed driver answers to each command."""
    words = [BINARY, "run", "--sealed", *flags, "--grant", programs, "--", programs / "driver"]
    lines = "".join(f"{command}\n" for command in commands)
    done = subprocess.run([str(word) for word in words], env=node.environment(), cwd="/", input=lines, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return done.stdout.splitlines()


def test_a_sealed_program_makes_an_area_and_writes_it_by_a_loop(node, programs):
    done = run_sealed(node, ["--area", "example/*:create", "--grant", programs], [programs / "store"])
    assert (done.returncode, done.stdout) == (0, "balance 12\n"), done.stderr


def test_what_is_granted_is_had_and_no_more_and_never_the_device(node, programs):
    node.call("area", "create", "ledger", "--size", "64K")
    node.call("area", "create", "secret", "--size", "64K")
    commands = ("open ledger rw any", "size", "write 5 mine", "flush", "read 5 4", "queue 8", "close", "open ledger rw direct")
    wanted = ["ok", "ok 65536 emulated", "ok", "ok", "ok mine", "ok", "ok", "error unsupported"]
    assert drives(node, ["--area", "ledger"], programs, *commands) == wanted
    refused = ("open ledger rwm any", "open secret r any", "create ledger/a 65536 any")
    assert drives(node, ["--area", "ledger"], programs, *refused) == ["error denied"] * 3
    only_read = ("open ledger rw any", "open ledger r any", "write 0 x")
    assert drives(node, ["--area", "led*:read"], programs, *only_read) == ["error denied", "ok", "error denied"]


def test_what_was_refused_is_told_with_the_flag_that_grants_it(node, programs):
    node.call("area", "create", "example/ledger", "--size", "64K")
    for granted in ("example/*:read", "other/*"):
        flags = ["--verbose", "--area", granted, "--grant", programs]
        done = run_sealed(node, flags, [programs / "store"])
        assert done.returncode != 0 and "--area example/ledger:create" in done.stderr, done.stderr
