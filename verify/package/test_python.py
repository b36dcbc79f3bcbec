"""The Python package: a wheel for any glibc that is new enough, and sources that build all of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "packaging"))

import glibc  # noqa: E402

PROGRAMS = {"heliostat", "heliostatd", "libheliostat_posix.so"}
# That everything is built is what is looked at, not how fast it is; and what is built is kept.
FAST_BUILD = {
    "CARGO_TARGET_DIR": str(ROOT / "target/package/sources"),
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
}
# A version that another process reads, by what is installed alone.
USED = """
import heliostat, numpy
heat = numpy.zeros(1000)
with heliostat.Region.from_array(heat, name="package-test") as region:
    heat += 7
    region.publish()
    with heliostat.attach("package-test").latest() as snapshot:
        print(heliostat.__version__, heliostat.__file__, int(snapshot.array().sum()))
"""


def version() -> str:
    return re.search(r'^version = "(.+)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def installed(what: Path, folder: Path) -> Path:
    """Installs a wheel or a source distribution into a folder, without an index."""
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation"]
    # One that an earlier run built must not stand in for one that is not built any more.
    for name in PROGRAMS:
        (Path(FAST_BUILD["CARGO_TARGET_DIR"]) / "release" / name).unlink(missing_ok=True)
    # maturin's hooks start the program of that name.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    surroundings = {**os.environ, **FAST_BUILD, "PATH": path}
    done = subprocess.run([*words, "--target", str(folder), str(what)], env=surroundings, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


def used(folder: Path, tmp_path: Path) -> list[str]:
    """Runs USED with the package in the folder and a control plane of its own; the words it printed."""
    left_out = ("HELIOSTAT_BIN", "HELIOSTAT_STUB", "LD_PRELOAD")
    surroundings = {name: value for name, value in os.environ.items() if name not in left_out}
    surroundings |= {"PYTHONPATH": str(folder), "HELIOSTAT_SOCKET": str(tmp_path / "control.sock")}
    done = subprocess.run([sys.executable, "-c", USED], env=surroundings, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    subprocess.run([folder / "heliostat/_bin/heliostat", "stop"], env=surroundings, check=True)
    return done.stdout.split()


@pytest.fixture(scope="module")
def wheel():
    """The wheel that `make wheel` made."""
    (found,) = (ROOT / "target/wheels").glob("heliostat-*.whl")
    return found


def test_wheel_is_tagged_by_the_newest_glibc_that_a_file_in_it_needs(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    loaded = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert PROGRAMS <= {path.name for path in loaded}
    tagged = re.search(r"manylinux_(\d+)_(\d+)_x86_64", wheel.name)
    assert tagged and tuple(map(int, tagged.groups())) == glibc.needed(loaded)


def test_installed_wheel_knows_its_version_and_brings_everything_along(wheel, tmp_path):
    folder = installed(wheel, tmp_path / "site")
    assert used(folder, tmp_path) == [version(), str(folder / "heliostat/__init__.py"), "7000"]


@pytest.mark.timeout(3600)  # compiles a hundred crates where it runs for the first time
def test_installed_source_distribution_brings_everything_along(tmp_path):
    folder = installed(ROOT / f"target/sdist/heliostat-{version()}.tar.gz", tmp_path / "site")
    assert PROGRAMS <= {path.name for path in (folder / "heliostat/_bin").iterdir()}
    assert used(folder, tmp_path) == [version(), str(folder / "heliostat/__init__.py"), "7000"]


def test_source_distribution_of_the_same_sources_is_the_same_file(tmp_path):
    for name in ("one", "other"):
        words = [sys.executable, ROOT / "bind/python/wheel.py", "--source", "--out", tmp_path / name]
        subprocess.run([str(word) for word in words], check=True)
    one, other = (next((tmp_path / name).iterdir()) for name in ("one", "other"))
    assert one.name == f"heliostat-{version()}.tar.gz" and one.read_bytes() == other.read_bytes()
