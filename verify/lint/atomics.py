"""Where atomics may stand that loom does not see.

Code whose words two threads or processes share goes through `heliostat_base::sync`, so that its
models run the code that runs in production (CONTRIBUTING.md). The list names the files that name
std's or core's atomics nonetheless; it only shrinks. Run this file to print today's.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from lengths import tracked

LIST = "verify/lint/atomics.txt"
NAMED = re.compile(r"\b(?:std|core)::sync::atomic\b|\bcore::intrinsics::atomic")
TESTS = re.compile(r"^\s*#\[cfg\((?:test|all\(test\b)", re.MULTILINE)
# Neither runs in anybody's program beside others of ours: tests, measurements, and what checks us.
OUTSIDE = re.compile(r"^(?:bench|verify|fuzz)/|(?:^|/)(?:tests|examples|benches)/|(?:^|/)(?:\w+_)?tests\.rs$")


def production(path: str, text: str) -> str:
    """What of a file is no test; nothing of one that is not Rust or is a test as a whole."""
    if not path.endswith(".rs") or OUTSIDE.search(path):
        return ""
    return TESTS.split(text)[0]


def named(files: dict[str, str]) -> list[str]:
    """The files whose production code names an atomic of std's."""
    return sorted(path for path, text in files.items() if NAMED.search(production(path, text)))


def read_list(text: str) -> list[str]:
    """The listed paths; blank lines and # comments are skipped."""
    rows = (line.split("#")[0].strip() for line in text.splitlines())
    return [row for row in rows if row]


def judge(files: dict[str, str], listed: list[str]) -> list[str]:
    """One line for each file that is not listed, and for each entry that excuses nothing."""
    found, known = named(files), set(listed)
    new = [f"atomics: {path} names std's; use heliostat_base::sync, with a model" for path in found if path not in known]
    old = [f"atomics: {path} names none any more: take it off {LIST}" for path in listed if path not in found]
    return new + old


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    return judge(tracked(root), read_list((root / LIST).read_text()))


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in named(tracked(Path(__file__).resolve().parents[2])))
