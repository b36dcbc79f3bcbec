"""Runs the lints that no compiler does and prints one line per finding.

Order: crate graph, lengths, words, generated headers. Exits with 1 when anything was found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import crate_graph
import headers
import lengths
import words

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """All findings of all lints, printed; the exit status."""
    checks = (crate_graph.check, lengths.check, words.check, headers.check)
    found = [line for check in checks for line in check(ROOT)]
    print("\n".join(found) if found else "lint: crate graph, lengths, words, headers: clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
