"""How long the applications are, and how many of their lines touch Heliostat: `python lines.py`.

Lines are those of a program: no blank ones, no comments, no tests. One touches Heliostat when it names
something of the crate `heliostat` (what it imports from there) or calls a method of a session, a region, a
memory or a list of operations; that is more than the calls alone.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
APPLICATIONS = ("log", "mapreduce")
IMPORT = re.compile(r"^use heliostat::(.*?);", re.MULTILINE | re.DOTALL)
NAME = re.compile(r"\w+")
# Values of the library's types, by what they are called in these programs.
CALL = re.compile(r"\b(memory|region|session|operations)(\.on\([^)]*\))?\.\w+\(|\.\w*region\.\w+\(")


def program_lines(text: str) -> list[str]:
    """The lines of a program's source without blank ones, comments and tests."""
    lines = text.split("#[cfg(test)]")[0].splitlines()
    return [line for line in lines if line.strip() and not line.strip().startswith("//")]


def imported(text: str) -> set[str]:
    """What a file names of Heliostat."""
    names = {name for found in IMPORT.findall(text) for name in NAME.findall(found)}
    return names - {"self", "memory", "file"} | {"heliostat"}


def count(application: str) -> tuple[int, int]:
    """Lines in total, and those that touch Heliostat."""
    lines = touching = 0
    for path in sorted((ROOT / "applications" / application / "src").rglob("*.rs")):
        text = path.read_text()
        names = re.compile(r"\b(" + "|".join(sorted(imported(text))) + r")\b")
        own = program_lines(text)
        lines += len(own)
        touching += sum(1 for line in own if names.search(line) or CALL.search(line))
    return lines, touching


def main() -> int:
    for application in APPLICATIONS:
        lines, touching = count(application)
        print(f"{application}: {lines} lines, {touching} of them touch Heliostat")
    return 0


if __name__ == "__main__":
    sys.exit(main())
