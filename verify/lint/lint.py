"""Runs the lints that no compiler does and prints one line per finding.

Order: crate graph, manifests, circles of modules, atomics, lengths, words, documents, reasons, generated headers. Exits with
1 when anything was found.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atomics
import circles
import crate_graph
import documents
import headers
import lengths
import manifests
import reasons
import words

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """All findings of all lints, printed; the exit status."""
    lints = (crate_graph, manifests, circles, atomics, lengths, words, documents, reasons, headers)
    found = [line for lint in lints for line in lint.check(ROOT)]
    print("\n".join(found) if found else "lint: " + ", ".join(lint.__name__ for lint in lints) + ": clean")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
