"""The wheel, as somebody gets it: installed into a fresh virtual environment, and nothing else.

Builds it if what it is made of is newer; then runs the README's example as it stands there, every
script of bind/python/examples, and the package's own tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from heliostat_run import BINARY, ROOT, copies_descriptors

PACKAGE = ROOT / "bind/python"
EXAMPLES = sorted((PACKAGE / "examples").glob("*.py"))
# For the tests of the engine for it; no other test wants these 17 MB.
ADIOS2 = "adios2==2.12.1.1001"
ROOMS = ("abi", "base", "ring", "stub", "bind/python")
pytestmark = [pytest.mark.heliostat, pytest.mark.timeout(900)]


def sources() -> list[Path]:
    """Everything that the wheel is made of."""
    built = [BINARY.with_name(name) for name in ("heliostat", "heliostatd", "libheliostat_posix.so")]
    suffixes = (".rs", ".toml", ".py", ".pyi", ".cpp", ".md")
    files = [path for room in ROOMS for path in (ROOT / room).rglob("*") if path.suffix in suffixes]
    left_out = (PACKAGE / "examples", PACKAGE / "tests")
    return built + [path for path in files if not path.is_relative_to(left_out[0]) and not path.is_relative_to(left_out[1])]


@pytest.fixture(scope="module")
def wheel() -> Path:
    """The wheel of this tree."""
    out = BINARY.parent.parent / "wheels"
    found = list(out.glob("heliostat-*.whl"))
    if found and found[0].stat().st_mtime > max(path.stat().st_mtime for path in sources()):
        return found[0]
    if not os.access(BINARY.parent.parent, os.W_OK):
        pytest.skip(f"there is no wheel, and {BINARY.parent.parent} is another user's")
    command = [sys.executable, str(PACKAGE / "wheel.py"), "--release-folder", str(BINARY.parent), "--out", str(out)]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(BINARY.parent.parent)}
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return Path(printed.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory) -> Path:
    """The interpreter of a fresh virtual environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = folder / "bin/python"
    install(python, str(wheel), *pins("numpy="))
    return python


def pins(beginning: str) -> list[str]:
    """The lines of requirements.txt that begin so."""
    return [line for line in (ROOT / "verify/requirements.txt").read_text().split() if line.startswith(beginning)]


def install(python: Path, *packages: str) -> None:
    """Installs into this environment, whatever modules the tests find elsewhere."""
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *packages], env=bare, check=True)


@pytest.fixture
def surroundings(python, tmp_path):
    """An environment with a control plane of its own and without this tree; ended afterwards."""
    outside = {"HELIOSTAT_BIN", "PYTHONPATH", "LD_PRELOAD", "CARGO_TARGET_DIR"}
    environment = {name: value for name, value in os.environ.items() if name not in outside}
    environment["XDG_RUNTIME_DIR"] = str(tmp_path)
    environment["HELIOSTAT_SOCKET"] = str(tmp_path / "control.sock")
    environment["PATH"] = f"{python.parent}:/usr/bin:/bin"
    yield environment
    subprocess.run(["heliostat", "stop"], env=environment, capture_output=True, timeout=60)


def test_readme_example_runs_in_two_processes(python, surroundings, tmp_path):
    text = re.search(r"### From Python.*?```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    script = tmp_path / "heat.py"
    script.write_text(text[1])
    start = {"env": surroundings, "text": True, "cwd": tmp_path, "stderr": subprocess.PIPE}
    producer = subprocess.Popen([python, script, "produce"], **start)
    consumer = subprocess.run([python, script], stdout=subprocess.PIPE, timeout=100, **start)
    assert producer.communicate(timeout=100)[1] == ""
    assert (consumer.stderr, consumer.returncode, producer.returncode) == ("", 0, 0)
    lines = [line.split() for line in consumer.stdout.splitlines()]
    assert lines[-1] == ["100", "100.0"]
    assert all(int(number) == float(mean) for number, mean in lines)


@pytest.mark.parametrize("sealed", ["produce", "read"])
def test_readme_example_runs_with_a_side_sealed(python, surroundings, tmp_path, sealed):
    text = re.search(r"### From Python.*?```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    script = tmp_path / "heat.py"
    script.write_text(text[1])
    seal = ["heliostat", "run", "--sealed", "--grant", str(python.parent.parent), "--grant", str(script)]
    if not copies_descriptors():
        # There a sealed program shows descriptors, and so its region, while it has one thread; NumPy starts more.
        seal += ["--env", "OPENBLAS_NUM_THREADS=1"]
    rights = {"produce": ["--snapshot", "heat:publish"], "read": ["--snapshot", "heat:attach"]}
    seal = {side: [*seal, *words, "--"] if side == sealed else [] for side, words in rights.items()}
    start = {"env": surroundings, "text": True, "cwd": tmp_path, "stderr": subprocess.PIPE}
    producer = subprocess.Popen([*seal["produce"], python, script, "produce"], **start)
    consumer = subprocess.run([*seal["read"], python, script], stdout=subprocess.PIPE, timeout=100, **start)
    assert producer.communicate(timeout=100)[1] == ""
    assert (consumer.stderr, consumer.returncode, producer.returncode) == ("", 0, 0)
    assert consumer.stdout.splitlines()[-1].split() == ["100", "100.0"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(python, surroundings, example):
    ended = subprocess.run([python, example], env=surroundings, capture_output=True, text=True, timeout=100)
    assert (ended.stderr, ended.returncode) == ("", 0)
    assert ended.stdout


def test_wheel_brings_the_command(python, surroundings):
    answer = subprocess.run(["heliostat", "--version"], env=surroundings, capture_output=True, text=True, timeout=60)
    assert answer.stdout.startswith("heliostat ")


def test_package_passes_its_own_tests(python, surroundings):
    install(python, *pins("pytest"), *pins("dask="), *pins("distributed="), ADIOS2)
    tests = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", PACKAGE / "tests"]
    ended = subprocess.run(tests, env=surroundings, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout[-5000:] + ended.stderr[-2000:]
