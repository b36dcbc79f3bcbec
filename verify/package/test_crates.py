"""Crates as crates.io would take them: whole, and none that depends on one that is not published."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

import crates  # noqa: E402


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    """{name: package} of every published crate, in the order in which they are published."""
    folder = tmp_path_factory.mktemp("crates")
    words = [sys.executable, crates.__file__, "--allow-dirty", "--target-dir", folder]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    names = done.stdout.split()
    # Releases of cargo leave what a dry run packs at different places below.
    return {name: next((folder / "package").rglob(f"{name}-[0-9]*.crate")) for name in names}


def test_every_published_crate_is_packed_with_its_page(packed):
    assert {"heliostat", "heliostatd", "heliostat-abi"} <= set(packed)
    for name, package in packed.items():
        inside = {member.split("/", 1)[1] for member in tarfile.open(package).getnames()}
        assert {"Cargo.toml", "README.md"} <= inside, name


def test_each_crate_comes_after_those_that_it_depends_on(packed):
    names = list(packed)
    for package in crates.metadata()["packages"]:
        needs = {one["name"] for one in package["dependencies"] if one["kind"] != "dev"}
        if package["name"] in packed:
            before = names[: names.index(package["name"])]
            assert needs & set(packed) <= set(before), package["name"]
