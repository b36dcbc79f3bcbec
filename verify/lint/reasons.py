"""Reasons that say something: of `unsafe` blocks, and of commits.

A SAFETY comment names the obligation and what meets it, which no single word does (clippy only
sees that the comment is there). A commit's subject is one line of a list and fits into it; the
reason goes into the body.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

SAFETY_WORDS_MIN = 3
# So many were there when this lint came ("as above", "bytes", "a number"); may only shrink.
WITHOUT_REASON_MAX = 24
SUBJECT_CHARACTERS_MAX = 72
# As many of the newest commits are looked at; older ones are what they are.
COMMITS = 60

SAFETY = re.compile(r"//[/!]?\s*SAFETY:(.*)")
CONTINUED = re.compile(r"^\s*//[/!]?\s?(.*)")


def judge_safety(path: str, text: str) -> list[str]:
    """One line for each SAFETY comment that gives no reason."""
    lines, found = text.splitlines(), []
    for number, line in enumerate(lines):
        match = SAFETY.search(line)
        if not match:
            continue
        said = match[1].split()
        for further in lines[number + 1 :]:
            continued = CONTINUED.match(further)
            if not continued:
                break
            said += continued[1].split()
        if len(said) < SAFETY_WORDS_MIN:
            found.append(f"reasons: {path}:{number + 1}: SAFETY without a reason: {' '.join(said) or 'nothing'}")
    return found


def judge_subjects(subjects: list[str]) -> list[str]:
    """One line for each subject that is too long."""
    return [
        f"reasons: a commit's subject has {len(subject)} characters, {SUBJECT_CHARACTERS_MAX} at most: {subject}"
        for subject in subjects
        if len(subject) > SUBJECT_CHARACTERS_MAX
    ]


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""

    def told(*words: str) -> list[str]:
        return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True).stdout.splitlines()

    names = told("ls-files", "--cached", "--others", "--exclude-standard", "*.rs")
    sources = {name: (root / name).read_text() for name in names if (root / name).is_file()}
    bare = [line for name, text in sources.items() for line in judge_safety(name, text)]
    found = bare if len(bare) > WITHOUT_REASON_MAX else []
    return found + judge_subjects(told("log", f"-{COMMITS}", "--format=%s"))
