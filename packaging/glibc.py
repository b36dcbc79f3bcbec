#!/usr/bin/env python3
"""Tells which glibc programs and libraries need: `glibc.py FILE...` prints the newest version, as 2.34.

The loader refuses a file whose symbol versions (GLIBC_2.34) its libc does not have, so the newest
one asked for is what a package has to depend on, and what the platform tag of a wheel says.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

# readelf prints needed and defined versions alike; neither of ours defines any of GLIBC's.
NEEDED = re.compile(r"\bGLIBC_(\d+)\.(\d+)\b")
FLOOR = (2, 17)


def needed(files: list[Path]) -> tuple[int, int]:
    """The newest (major, minor) that any of the files asks for; 2.17 where none is newer."""
    found = [FLOOR]
    for file in files:
        command = ["readelf", "--version-info", "--wide", str(file)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        found += [(int(major), int(minor)) for major, minor in NEEDED.findall(said)]
    return max(found)


if __name__ == "__main__":
    print("{}.{}".format(*needed([Path(word) for word in sys.argv[1:]])))
