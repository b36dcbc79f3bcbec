"""Policies written by a traced run: the program then runs with them, and needs each line of them."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side
from ways import surroundings, without_rights

pytestmark = pytest.mark.heliostat
PROGRAMS = {
    "sort": ("sort", "-o", "{data}/sorted", "{data}/lines"),
    "tar": ("tar", "-czf", "{data}/all.tar.gz", "-C", "{data}", "lines"),
    "script": ("bash", "-c", "grep -c 1 <{data}/lines >{other}/count && cat {other}/count"),
    "sqlite": ("sqlite3", "{data}/rows.db", "create table if not exists t(a); insert into t values(1); select count(*) > 0 from t;"),
}  # fmt: skip


def prepared(tmp_path: Path, words: tuple) -> list[str]:
    """Folders outside all system grants, and the words with their names."""
    for name in ("data", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "data/lines").write_text("".join(f"{i}\n" for i in range(1000, 0, -1)))
    return [word.format(data=tmp_path / "data", other=tmp_path / "other") for word in words]


def run(harness: Harness, flags: list, words: list, folder: Path) -> subprocess.CompletedProcess:
    """A sealed run by a policy."""
    argv = [*without_rights(), str(BINARY), "run", "--sealed", *map(str, flags), "--", *words]
    return subprocess.run(
        argv, env=harness.environment() | surroundings(folder), cwd="/", capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_traced_policy_is_enough_and_every_grant_of_it_is_needed(harness, tmp_path, name):
    words, policy = prepared(tmp_path, PROGRAMS[name]), tmp_path / "policy.toml"
    traced = run(harness, ["--trace-policy", policy], words, tmp_path)
    assert traced.returncode == 0, traced.stderr
    grants = tomllib.loads(policy.read_text()).get("grant", [])
    assert grants and not [grant for grant in grants if grant.split(":")[0] in ("/", "/tmp")], grants
    again = run(harness, ["--policy", policy], words, tmp_path)
    assert (again.returncode, again.stdout) == (traced.returncode, traced.stdout), again.stderr
    for grant in [grant for grant in grants if str(tmp_path) in grant]:
        less = policy.read_text().replace(f'"{grant}"', '"/usr/bin:ro"')
        (tmp_path / "less.toml").write_text(less)
        refused = run(harness, ["--verbose", "--policy", tmp_path / "less.toml"], words, tmp_path)
        assert refused.returncode != 0, grant
        assert grant.rsplit(":", 1)[0] in refused.stderr, (grant, refused.stderr)


def test_traced_policy_names_addresses(harness, tmp_path):
    port, policy = kernel_view.free_port(), tmp_path / "policy.toml"
    harness.start(Side.PLAIN, ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", ""])
    kernel_view.wait_listening(port)
    words = ["redis-cli", "-p", str(port), "PING"]
    assert run(harness, ["--trace-policy", policy], words, tmp_path).stdout == "PONG\n"
    assert f"127.0.0.1:{port}" in tomllib.loads(policy.read_text())["connect"]
    assert run(harness, ["--policy", policy], words, tmp_path).stdout == "PONG\n"
    policy.write_text(policy.read_text().replace(str(port), str(port + 1)))
    refused = run(harness, ["--verbose", "--policy", policy], words, tmp_path)
    assert refused.stdout != "PONG\n" and f"127.0.0.1:{port}" in refused.stderr
