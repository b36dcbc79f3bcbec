"""A ratchet on the length of files and functions.

Files over 400 lines need an entry in exceptions.txt, files over 800 are refused whatever the
list says; functions over 70 lines need an entry too. An entry states the length it excuses
and may only shrink: growth is refused, and so is an entry that excuses more than is there.

    exceptions.txt:   <lines> <path>            for a file
                      <lines> <path>::<name>    for a function
"""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

FILE_LINES_MAX = 400
FILE_LINES_REFUSED = 800
FUNCTION_LINES_MAX = 70
SUFFIXES = {".rs", ".py", ".c", ".h", ".cu", ".cuh", ".sh"}
EXCEPTIONS = "verify/lint/exceptions.txt"

RUST_FUNCTION = re.compile(
    r"^(\s*)(?:pub(?:\([^)]*\))?\s+)?(?:default\s+|const\s+|async\s+|unsafe\s+)*"
    r"(?:extern\s+\"[^\"]*\"\s+)?fn\s+(\w+)"
)
C_FUNCTION = re.compile(r"^()(?:[A-Za-z_][\w\s\*]*?[\s\*])(\w+)\s*\([^;]*$")


def braced_functions(text: str, opening: re.Pattern) -> list[tuple[str, int]]:
    """(name, lines) of functions whose closing brace stands in the column of their opening."""
    lines, found = text.splitlines(), []
    for start, line in enumerate(lines):
        match = opening.match(line)
        if not match:
            continue
        closing = re.compile(rf"^{match[1]}\}}")
        for end in range(start, len(lines)):
            one_line = end == start and line.rstrip().endswith(("}", ";"))
            declaration = lines[end].rstrip().endswith(";") and "{" not in "".join(lines[start : end + 1])
            if one_line or declaration:
                break
            if closing.match(lines[end]):
                found.append((match[2], end - start + 1))
                break
    return found


def python_functions(text: str) -> list[tuple[str, int]]:
    """(name, lines) of every function of a Python file."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (node.name, node.end_lineno - node.lineno + 1)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, kinds)
    ]


def functions(path: str, text: str) -> list[tuple[str, int]]:
    """(name, lines) of every function of the file, by its language."""
    if path.endswith(".py"):
        return python_functions(text)
    if path.endswith(".rs"):
        return braced_functions(text, RUST_FUNCTION)
    if path.endswith((".c", ".h", ".cu", ".cuh")):
        return braced_functions(text, C_FUNCTION)
    return []


def read_exceptions(text: str) -> dict[str, int]:
    """The list as {subject: lines}; blank lines and # comments are skipped."""
    rows = (line.split("#")[0].split() for line in text.splitlines())
    return {row[1]: int(row[0]) for row in rows if row}


def measure(files: dict[str, str]) -> dict[str, int]:
    """Every subject (file, or file::function) that is longer than its limit."""
    long: dict[str, int] = {}
    for path, text in files.items():
        count = text.count("\n")
        if count > FILE_LINES_MAX:
            long[path] = count
        for name, lines in functions(path, text):
            if lines > FUNCTION_LINES_MAX:
                subject = f"{path}::{name}"
                long[subject] = max(lines, long.get(subject, 0))
    return long


def judge(files: dict[str, str], excused: dict[str, int], before: dict[str, int]) -> list[str]:
    """Compares what is long with what is excused now and what was excused before."""
    long, found = measure(files), []
    for subject, lines in sorted(long.items()):
        is_file = "::" not in subject
        if is_file and lines > FILE_LINES_REFUSED:
            found.append(f"length: {subject} has {lines} lines; {FILE_LINES_REFUSED} is refused")
        elif lines > excused.get(subject, 0):
            limit = FILE_LINES_MAX if is_file else FUNCTION_LINES_MAX
            found.append(f"length: {subject} has {lines} lines, limit {limit}, excused {excused.get(subject, 0)}")
    for subject, lines in sorted(excused.items()):
        if long.get(subject, 0) < lines:
            found.append(f"length: lower the entry of {subject} from {lines} to {long.get(subject, 0)} (0: remove it)")
        if before and lines > before.get(subject, 0):
            found.append(f"length: the entry of {subject} grew from {before.get(subject, 0)} to {lines}")
    return found


def tracked(root: Path) -> dict[str, str]:
    """The text of every source file that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout
    wanted = [name for name in names.splitlines() if Path(name).suffix in SUFFIXES]
    return {name: (root / name).read_text() for name in wanted if (root / name).is_file()}


def committed_exceptions(root: Path) -> dict[str, int]:
    """The list as it was committed before; empty when it was not there yet."""
    show = ["git", "show", f"HEAD:{EXCEPTIONS}"]
    old = subprocess.run(show, cwd=root, capture_output=True, text=True)
    now = (root / EXCEPTIONS).read_text()
    if old.returncode == 0 and old.stdout == now:
        show[2] = f"HEAD~1:{EXCEPTIONS}"
        old = subprocess.run(show, cwd=root, capture_output=True, text=True)
    return read_exceptions(old.stdout) if old.returncode == 0 else {}


def check(root: Path) -> list[str]:
    """The lint as lint.py runs it."""
    excused = read_exceptions((root / EXCEPTIONS).read_text())
    return judge(tracked(root), excused, committed_exceptions(root))
