"""Areas through C and Python, by both ways: each command of a driver has the same answer in either.

create NAME BYTES WAY; open NAME RIGHTS WAY [exclusive]; size; write OFFSET TEXT; read OFFSET BYTES; flush;
resize BYTES; queue SECTORS, which writes and reads them with several at once; close; delete.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from heliostat_run import BINARY, BUILT, ROOT, Harness

HERE = Path(__file__).resolve().parent
LANGUAGES = ("c", "python")
# Who drives the device: programs by themselves, or a server loop.
WAYS = {"direct": "all", "emulated": "none"}
SECONDS = 120

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """How each driver is started, and with what in its environment."""
    folder = tmp_path_factory.mktemp("drivers")
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "bind/c/include"]
    libraries = [BUILT / "libheliostat_c.a", "-lpthread", "-ldl", "-lm"]
    subprocess.run([*command, HERE / "driver.c", *libraries, "-o", folder / "driver-c"], check=True)
    ignored = shutil.ignore_patterns("_bin", "__pycache__")
    shutil.copytree(ROOT / "bind/python/python", folder / "package", ignore=ignored)
    shutil.copy(BUILT / "libheliostat_python.so", folder / "package/heliostat/_native.abi3.so")
    surroundings = {"PYTHONPATH": str(folder / "package"), "HELIOSTAT_BIN": str(BINARY)}
    return {"c": ([folder / "driver-c"], {}), "python": ([sys.executable, HERE / "driver.py"], surroundings)}


@pytest.fixture(params=WAYS)
def node(request):
    """A control plane with a store, whose areas are reached by one way."""
    # On a disk: the usual temporary folder may be memory.
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="store-") as folder:
        path = Path(folder) / "store"
        subprocess.run([BINARY, "store", "init", path, "--size", "32M"], check=True, capture_output=True)
        with Harness(configuration=f'[store]\npath = "{path}"\ndirect = "{WAYS[request.param]}"\n') as harness:
            harness.way = request.param
            yield harness


class Driver:
    """A running driver."""

    def __init__(self, words: tuple[list[str | Path], dict[str, str]], node: Harness) -> None:
        command, more = words
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen(command, text=True, env={**node.environment(), **more}, bufsize=1, **pipes)

    def ask(self, command: str) -> str:
        print(command, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().rstrip("\n")
        assert answer, f"{command}: the driver has ended: {self.process.stderr.read()}"
        return answer

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.process.kill()
        _, errors = self.process.communicate(timeout=SECONDS)
        assert kind is not None or self.process.returncode == 0, errors


def asks(driver: Driver, *steps: tuple[str, str]) -> None:
    """Each command has its answer."""
    for command, wanted in steps:
        assert driver.ask(command) == wanted, command


@pytest.mark.parametrize("language", LANGUAGES)
def test_an_area_is_made_written_read_and_ended(node, words, language):
    with Driver(words[language], node) as driver:
        asks(
            driver,
            ("size", "error closed"),
            ("open a rw any", "error not_found"),
            ("open no//name rw any", "error invalid"),
            (f"create a {64 << 10} any", "ok"),
            ("size", f"ok {64 << 10} {node.way}"),
            ("write 4090 across-a-sector", "ok"),
            ("read 4092 8", "ok ross-a-s"),
            ("flush", "ok"),
            (f"read {64 << 10} 1", "error invalid"),
            (f"write {(64 << 10) - 3} long", "error invalid"),
            ("queue 16", "ok"),
            (f"resize {128 << 10}", "ok"),
            (f"read {(128 << 10) - 4} 1", "ok \0"),
            (f"resize {32 << 10}", "ok"),
            ("resize 1", "error invalid"),
            ("close", "ok"),
            (f"create a {64 << 10} any", "error taken"),
            (f"create b {1 << 40} any", "error full"),
            ("open a r any", "ok"),
            ("write 0 x", "error denied"),
            ("close", "ok"),
            ("open a rwm any", "ok"),
            ("delete", "ok"),
            ("open a r any", "error not_found"),
        )
        if node.way == "emulated":
            asks(driver, (f"create a {64 << 10} direct", "error unsupported"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_that_is_had_exclusively_names_who_has_it(node, words, language):
    with Driver(words[language], node) as one, Driver(words["c"], node) as other:
        asks(one, (f"create a {64 << 10} any", "ok"), ("close", "ok"), ("open a rwm any exclusive", "ok"))
        told = other.ask("open a rw any")
        assert told.startswith("error in_use: ") and str(one.process.pid) in told
        asks(other, ("open a r any", "ok"), ("close", "ok"))
        asks(one, (f"resize {32 << 10}", "ok"))
        assert other.ask("open a rw any").startswith("error in_use: ")
        asks(one, ("close", "ok"), ("open a rw any", "ok"))
        told = other.ask("open a r any exclusive")
        assert told.startswith("error in_use: ") and str(one.process.pid) in told


def test_the_example_in_c_runs(node, words, tmp_path):
    command = ["gcc", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "bind/c/include"]
    program = tmp_path / "store"
    libraries = [BUILT / "libheliostat_c.a", "-lpthread", "-ldl", "-lm"]
    subprocess.run([*command, ROOT / "bind/c/examples/store.c", *libraries, "-o", program], check=True)
    ran = subprocess.run([program], env=node.environment(), capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (ran.returncode, ran.stdout) == (0, "balance 12\n"), ran.stderr
