"""Runs the sealed suites in each setting of verify/container, one after the other.

    run.py [PYTEST_WORD ...]

In a container the programs under test run behind its filter, and the tests' own stages outside: they
take namespaces. As an ordinary user everything runs as that user.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
VERIFY = HERE.parent
SUITES = ["sealed", "containment"]
USER = "1000"
SYSTEM = "/usr/bin/python3"
# (what it is, words before pytest, the binary under test, flags of the container around that)
CONTAINED = str(HERE / "heliostat")
PLAIN = str(VERIFY.parent / "target/release/heliostat")
AS_USER = [SYSTEM, str(HERE / "container.py"), "--plain", "--user", USER, "--"]
SETTINGS = [
    ("root in a container", [], CONTAINED, ""),
    ("root in a container that may nest", [], CONTAINED, "--namespaces"),
    ("a user in a container", AS_USER, CONTAINED, ""),
    ("a user", AS_USER, PLAIN, ""),
]


def main(words: list[str]) -> int:
    failed = []
    for name, before, binary, flags in SETTINGS:
        print(f"\n== {name}", flush=True)
        with tempfile.TemporaryDirectory(prefix="container-") as home:
            os.chmod(home, 0o777)
            surroundings = dict(os.environ, HELIOSTAT_BIN=binary, HELIOSTAT_CONTAINER=flags, HOME=home, TMPDIR=home, PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=sysconfig.get_path("purelib"))
            suites = [str(VERIFY / suite) for suite in SUITES]
            # A user may not be let into the folder of the interpreter that root has installed.
            pytest = [SYSTEM if before else sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *suites, *words]
            if subprocess.run([*before, *pytest], env=surroundings, cwd=VERIFY).returncode != 0:
                failed.append(name)
    print("\nall settings passed" if not failed else f"\nfailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
