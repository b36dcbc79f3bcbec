"""Words that may not stand in the project: paths of one machine, hosts nobody agreed on.

A path of somebody's machine means nothing to a reader, and an address outside the short list
of public references usually is a registry or a mirror that slipped in from a shell.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOTS = ("work", "root", "home")
MACHINE_PATH = re.compile(r"(?<![\w./$}~-])/(?:" + "|".join(ROOTS) + r")/[\w.]+")
ADDRESS = re.compile(r"https?://([\w.-]+)")
HOSTS = {
    "HOST",  # in examples: whichever it is
    "github.com",
    "www.apache.org",
    "docs.rs",
    "doc.rust-lang.org",
    "www.kernel.org",
    "docs.kernel.org",
    "git.kernel.org",
    "man7.org",
    "lwn.net",
    "pubs.opengroup.org",
    "www.rfc-editor.org",
    "refspecs.linuxfoundation.org",
    "json-schema.org",
    "www.w3.org",
    "localhost",
    "127.0.0.1",
}
SKIPPED = {"Cargo.lock", "verify/lint/test_lint.py"}
BYTES_MAX = 2_000_000


def judge_text(path: str, text: str) -> list[str]:
    """One line for every forbidden word of one file."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for match in MACHINE_PATH.finditer(line):
            found.append(f"words: {path}:{number}: path of one machine: {match[0]}")
        for match in ADDRESS.finditer(line):
            if match[1] not in HOSTS:
                found.append(f"words: {path}:{number}: address outside the list: {match[1]}")
    return found


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it, over every text file that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    found = []
    for name in names.splitlines():
        path = root / name
        if name in SKIPPED or not path.is_file() or path.stat().st_size > BYTES_MAX:
            continue
        content = path.read_bytes()
        if b"\0" not in content[:4096]:
            found += judge_text(name, content.decode("utf-8", "replace"))
    return found
