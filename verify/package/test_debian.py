"""The Debian package in a clean root: an ordinary user runs the demo's programs from there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from clean_root import ROOT, Root

# Redis over TCP, a Unix socket and Heliostat, as an ordinary user; what each GET benchmark printed,
# and what the server's connections were while a client was there.
DEMO = r"""
export XDG_RUNTIME_DIR=$(mktemp -d)
cd $XDG_RUNTIME_DIR
heliostat run --require -- redis-server --port 7000 --unixsocket $PWD/redis.sock --save '' >server.log 2>&1 &
until redis-cli -p 7000 ping >/dev/null 2>&1; do sleep 0.1; done
load="-t get -n 20000 -c 10 -q"
tcp=$(redis-benchmark -p 7000 $load | tr '\r' '\n' | tail -1)
unix=$(redis-benchmark -s $PWD/redis.sock $load | tr '\r' '\n' | tail -1)
ours=$(heliostat run --require -- redis-benchmark -p 7000 $load | tr '\r' '\n' | tail -1)
heliostat run --require -- redis-cli -p 7000 subscribe news >/dev/null 2>&1 &
until [ "$(redis-cli -p 7000 pubsub numsub news | tail -1)" = 1 ]; do sleep 0.1; done
server=$(redis-cli -p 7000 info server | sed -n 's/^process_id:\([0-9]*\).*/\1/p')
heliostat explain --json $server >explained.json
printf '%s\n%s\n%s\n' "$tcp" "$unix" "$ours" >&2
cat explained.json
"""
SEALED = r"""
export XDG_RUNTIME_DIR=$(mktemp -d); cd $(mktemp -d)
echo granted >granted; echo secret >secret
heliostat run --sealed --grant $PWD/granted -- cat $PWD/granted
heliostat run --sealed --grant $PWD/granted -- cat $PWD/secret 2>&1 || echo refused
"""


@pytest.fixture(scope="module")
def package():
    """The package that `make package` made."""
    version = re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / f"heliostat_{version}_amd64.deb"


@pytest.fixture
def root(tmp_path, package):
    """A clean root with the package and an ordinary user."""
    made = Root(tmp_path)
    inside = made.put(package)
    made.run(f"dpkg -i {inside}; rm {inside}; useradd --create-home somebody")
    return made


def run_as_user(root: Root, script: str) -> str:
    (root.folder / "upper/script").write_text(script)
    return root.run("chmod 755 /script; su somebody -s /bin/sh -c 'sh -e /script'")


def test_demos_programs_run_from_the_package_for_an_ordinary_user_and_are_direct(root):
    explained = json.loads(run_as_user(root, DEMO))
    paths = [one["path"] for one in explained["connections"] if one["path"] == "direct"]
    assert paths, explained


def test_sealed_program_of_the_package_reads_what_it_is_granted_and_nothing_else(root):
    said = run_as_user(root, SEALED).splitlines()
    assert said[0] == "granted"
    assert said[-1] == "refused" and "secret" not in said


def test_stub_that_is_loaded_is_the_packages_own(root):
    maps = run_as_user(root, "XDG_RUNTIME_DIR=$(mktemp -d) heliostat run -- cat /proc/self/maps")
    assert "/usr/lib/heliostat/libheliostat_posix.so" in maps


def test_configuration_of_the_package_is_valid_and_kept_as_a_configuration(root):
    root.run("heliostatd --config /etc/heliostat/heliostat.toml --check")
    assert "/etc/heliostat/heliostat.toml" in root.run("dpkg-query -W -f='${Conffiles}' heliostat")


def test_package_depends_on_what_its_programs_load(package, root):
    needed = root.run("for file in /usr/bin/heliostat* /usr/lib/heliostat/*.so /usr/lib/libheliostat_c.so; do ldd $file; done")
    assert "not found" not in needed
    depends = subprocess.run(["dpkg-deb", "-f", package, "Depends"], capture_output=True, text=True, check=True).stdout
    owners = {"libc.so.6": "libc6", "libgcc_s.so.1": "libgcc-s1", "libm.so.6": "libc6"}
    loaded = {line.split()[0] for line in needed.splitlines() if line.startswith("\t")}
    assert loaded <= {*owners, "linux-vdso.so.1", "/lib64/ld-linux-x86-64.so.2"}, loaded
    assert {owners[library] for library in loaded & set(owners)} <= set(re.findall(r"[\w-]+", depends)), depends


def test_removed_and_purged_package_leaves_no_file(root):
    root.run("dpkg --purge heliostat")
    left = root.run("find / -xdev -iname '*heliostat*' -not -path '/proc/*' -not -path '/var/*' -not -path '/dev/*'")
    assert left.split() == []
