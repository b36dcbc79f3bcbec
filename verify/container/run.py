"""Runs the tests as others run the programs: in containers, and as an ordinary user.

    run.py container|user [PYTEST_WORD ...]

`container`: the sealed suites with the programs under test behind the filter and with the rights of
default Docker, and the tests' own testbeds outside, which take namespaces; then the other tests, and
those of the crates, behind that filter themselves. `user`: everything as an ordinary user without any right.
By root; an ordinary user's own run is as that user in any case.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import crates

HERE = Path(__file__).resolve().parent
VERIFY = HERE.parent
sys.path += [str(VERIFY), str(VERIFY / "programs")]

import rust_programs  # noqa: E402

# Their testbeds need what the filter refuses, so that only the programs under test are behind it.
SEALED = ["sealed", "containment"]
# Behind the filter as a whole.
OTHERS = ["lint", "programs", "faults", "files", "snapshot", "python", "conformance"]
USER = "1000"
RUST = {"RUSTUP_HOME": ".rustup", "CARGO_HOME": ".cargo"}
SYSTEM = "/usr/bin/python3"
PLAIN = str(VERIFY.parent / "target/release/heliostat")
# HELIOSTAT_BIN of tests that stay outside the container themselves.
CONTAINED = str(HERE / "heliostat")


def behind(*flags: str) -> list[str]:
    """Words that put a command into a container, or make it an ordinary user's."""
    return [SYSTEM, str(HERE / "container.py"), *flags, "--"]


AS_USER = behind("--plain", "--user", USER)


@dataclass(frozen=True)
class Setting:
    """How some suites are run: words before pytest, the binary under test, flags of the container around it."""

    name: str
    suites: list[str]
    before: list[str] = field(default_factory=list)
    binary: str = PLAIN
    flags: str = ""
    with_crates: bool = False


SETTINGS = {
    "container": [
        Setting("root in a container: sealed", SEALED, binary=CONTAINED),
        Setting("root in a container that may nest: sealed", SEALED, binary=CONTAINED, flags="--namespaces"),
        Setting("a user in a container: sealed", SEALED, AS_USER, CONTAINED),
        Setting("root in a container", OTHERS, behind(), with_crates=True),
        Setting("a user in a container", OTHERS, behind("--user", USER), with_crates=True),
    ],
    "user": [Setting("a user", [*SEALED, *OTHERS, "container"], AS_USER, with_crates=True)],
}


def home(folder: Path, setting: Setting) -> Path:
    """A home that every user may write to, one for root's settings and one for the user's: compilers keep a cache there."""
    made = folder / ("u" if "--user" in setting.before else "r")
    made.mkdir(exist_ok=True)
    made.chmod(0o777)
    return made


def surroundings(setting: Setting, home: str) -> dict[str, str]:
    """The environment of a setting."""
    own = {"HOME": home, "TMPDIR": home, "HELIOSTAT_BIN": setting.binary, "HELIOSTAT_CONTAINER": setting.flags}
    # The tests' modules, for an interpreter that is not theirs; nothing is written beside the sources.
    python = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": sysconfig.get_path("purelib")}
    # The compiler's own places are in the home of who calls.
    rust = {name: os.environ.get(name, str(Path.home() / folder)) for name, folder in RUST.items()}
    return {**os.environ, **own, **python, **rust, "HELIOSTAT_REPORT": home}


def run(setting: Setting, words: list[str], home: Path) -> list[str]:
    """Runs a setting; the names of what failed in it."""
    place, failed = surroundings(setting, str(home)), []
    # A user may not be let into the folder of the interpreter that root has installed.
    python = SYSTEM if setting.before else sys.executable
    suites = [str(VERIFY / suite) for suite in setting.suites]
    # What fails beside the others is run again alone, and named.
    tests = [*setting.before, python, str(VERIFY / "run.py"), "-p", "no:cacheprovider", *suites, *words]
    print(f"\n== {setting.name}", flush=True)
    if subprocess.run(tests, env=place, cwd=VERIFY).returncode != 0:
        failed.append(setting.name)
    if setting.with_crates:
        failed += [f"{setting.name}: {test}" for test in crates.run(setting.before, place)]
    return failed


def main(words: list[str]) -> int:
    if not words or words[0] not in SETTINGS:
        print(f"run.py {'|'.join(SETTINGS)} [PYTEST_WORD ...]", file=sys.stderr)
        return 2
    rust_programs.build()
    # Not in /tmp, of which a sealed program has its own; short, since names of sockets are.
    with tempfile.TemporaryDirectory(prefix="c-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        failed = [name for one in SETTINGS[words[0]] for name in run(one, words[1:], home(folder, one))]
    print("\nall settings passed" if not failed else "\nfailed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
