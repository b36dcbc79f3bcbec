"""Documents that can be read: short table cells, short paragraphs, a short page of promises.

The limits are what the longest holds today, rounded up; they may only shrink. Figures on the page
of promises have to be those of the newest records (bench/records/page.py writes them).
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

CELL_WORDS_MAX = 75
PARAGRAPH_WORDS_MAX = 195
PROMISES = "docs/specification.md"
PROMISES_WORDS_MAX = 3100

COMMENT = re.compile(r"<!--.*?-->")
WORD = re.compile(r"[^\s|]*\w[^\s|]*")
CELL_BORDER = re.compile(r"(?<!\\)\|")


def words(text: str) -> int:
    """How many words a reader sees: bars, rules and comments are none."""
    return len(WORD.findall(COMMENT.sub("", text)))


def judge_text(path: str, text: str) -> list[str]:
    """One line for each cell and paragraph that is too long."""
    found, is_code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        is_code ^= line.lstrip().startswith("```")
        if is_code:
            continue
        if line.startswith("|"):
            longest = max(map(words, CELL_BORDER.split(line)))
            if longest > CELL_WORDS_MAX:
                found.append(f"documents: {path}:{number}: a cell of {longest} words; {CELL_WORDS_MAX} at most")
        elif words(line) > PARAGRAPH_WORDS_MAX:
            found.append(f"documents: {path}:{number}: a paragraph of {words(line)} words; {PARAGRAPH_WORDS_MAX} at most")
    return found


def judge_promises(text: str) -> list[str]:
    """The page of promises stays one that is read in ten minutes."""
    count = words(text)
    return [f"documents: {PROMISES} has {count} words; {PROMISES_WORDS_MAX} at most"] if count > PROMISES_WORDS_MAX else []


def judge_figures(root: Path, text: str) -> list[str]:
    """Every figure is the newest record's, and every named result is recorded, or its row says that it is not."""
    sys.path.insert(0, str(root / "bench"))
    from records import files, page

    written, unknown = page.rewritten(text, files.read_all(root / "bench/results"))
    missing = [binding for binding in unknown if binding not in page.awaited(text)]
    found = [f"documents: {PROMISES}: no record has a result for {binding}" for binding in missing]
    if written != text:
        found.append(f"documents: {PROMISES} is not what the newest records say; run `make bench-record BENCH=none`")
    return found


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.splitlines()
    texts = {name: (root / name).read_text() for name in names if (root / name).is_file()}
    found = [line for name, text in texts.items() for line in judge_text(name, text)]
    promises = texts.get(PROMISES, "")
    return found + judge_promises(promises) + judge_figures(root, promises)
