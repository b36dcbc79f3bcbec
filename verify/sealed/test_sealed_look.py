"""Grants for a look (`:stat`), and what a trace writes of what was only looked at."""

from __future__ import annotations

import os
import subprocess
import tempfile
import tomllib
from pathlib import Path

import pytest
from heliostat_run import BINARY

pytestmark = pytest.mark.heliostat


@pytest.fixture
def place():
    """A folder that no sealed program has anyway."""
    with tempfile.TemporaryDirectory(prefix="look-", dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "inner").mkdir()
        for file in ("read", "looked", "inner/file"):
            (folder / file).write_text("text\n")
        yield folder


def sealed(flags: list, script: str) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory(prefix="control-", dir="/var/tmp") as control:
        # A home for what is kept of libc: without one that is kept in /tmp, and granted there.
        environment = {"PATH": os.environ["PATH"], "HOME": control, "HELIOSTAT_SOCKET": f"{control}/control.sock"}
        words = [str(BINARY), "run", "--sealed", *map(str, flags), "--", "sh", "-c", script]
        return subprocess.run(words, cwd="/", env=environment, capture_output=True, text=True, timeout=60)


def test_a_look_shows_attributes_and_no_more(place):
    script = f"""cd {place}; stat -c '%s %U' looked inner/file; test -e looked && test -r looked && echo there
        cat looked; cat inner/file; ls inner; echo x >looked; cd inner && pwd"""
    done = sealed(["--grant", f"{place}:stat"], script)
    owner = (place / "looked").owner()
    assert done.stdout.splitlines() == [f"5 {owner}", f"5 {owner}", "there", f"{place}/inner"], done.stderr
    assert done.stderr.count("Permission denied") == 4, done.stderr
    assert (place / "looked").read_text() == "text\n"


def test_within_a_wider_grant_a_look_stays_one(place):
    flags = ["--grant", f"{place}:rw", "--grant", f"{place}/inner:stat"]
    done = sealed(flags, f"cd {place}; cat read; ln -s inner by-link; cat inner/file; cat by-link/file; stat -c %s by-link/file")
    assert (done.stdout, done.stderr.count("Permission denied")) == ("text\n5\n", 2), done.stderr


def test_a_trace_grants_a_look_as_a_look_and_the_program_runs_with_it(place):
    policy, own = place / "policy.toml", f"/tmp/{place.name}"
    script = f"cd {place}; cat read; test -e looked && stat -c %s looked; test -d inner; echo t >{own}; cat {own}; rm {own}"
    traced = sealed(["--trace-policy", policy], script)
    grants = [one for one in tomllib.loads(policy.read_text())["grant"]]
    assert [one for one in grants if str(place) in one] == [f"{place}/inner:stat", f"{place}/looked:stat", f"{place}/read:ro"]
    assert not [one for one in grants if one.startswith("/tmp")], grants
    again = sealed(["--policy", policy], script)
    assert (again.stdout, again.stderr) == (traced.stdout, traced.stderr)


def test_a_folder_that_was_listed_is_granted_for_reading(place):
    policy = place / "policy.toml"
    sealed(["--trace-policy", policy], f"ls {place}/inner")
    assert f"{place}/inner:ro" in tomllib.loads(policy.read_text())["grant"]
