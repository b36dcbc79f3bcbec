"""Files that the documents name are there: a walk through the code that leads nowhere is worse than none."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`([\w./-]+\.(?:rs|py|c|h|sh|md|toml))`")
# Files of others, and names that stand for any.
ELSEWHERE = re.compile(r"NAME|^adios2/")


def tracked() -> list[str]:
    # Also where the sources are another user's.
    command = ["git", "-c", "safe.directory=*", "ls-files"]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()


def missing(text: str, files: list[str]) -> set[str]:
    """What a text names, by its path or the end of one, that no file is called."""
    named = {name for name in NAMED.findall(text) if not ELSEWHERE.search(name)}
    return {name for name in named if not any(file == name or file.endswith(f"/{name}") for file in files)}


def test_every_file_that_a_document_names_is_there():
    files = tracked()
    documents = [file for file in files if file.endswith(".md") and not file.startswith("bench/results")]
    lost = {file: found for file in documents if (found := missing((ROOT / file).read_text(), files))}
    assert not lost


def test_a_file_that_is_not_there_is_found():
    assert missing("see `net/none-such.rs` and `socket.rs`", ["a/b/socket.rs"]) == {"net/none-such.rs"}
