"""Generated headers and constants must be the ones that the sources generate today.

The generator lives with the thing it describes: a crate that ships generated files has an
executable `check-generated` in its folder which exits with 0 when they are current and
otherwise prints what differs. This lint runs every one of them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

CHECKER = "check-generated"


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"**/{CHECKER}"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found = []
    for name in names.splitlines():
        answer = subprocess.run([root / name], cwd=root, capture_output=True, text=True)
        if answer.returncode != 0:
            found.append(f"headers: {name} says: {(answer.stdout + answer.stderr).strip()}")
    return found
