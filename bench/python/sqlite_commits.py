"""Commits rows into an SQLite database, each in a transaction that is on the device when it returns.

`python sqlite_commits.py JOURNAL LOCKING PATH SECONDS`: after some commits that do not count it commits for so
long, and prints a JSON object: commits per second, and what one took, in us.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time

BEFORE = 200
ROW = b"x" * 200


def main() -> None:
    journal, locking, path, seconds = sys.argv[1:]
    opened = sqlite3.connect(path, isolation_level=None, timeout=60)
    for words in (f"locking_mode={locking}", f"journal_mode={journal}", "synchronous=FULL"):
        opened.execute(f"PRAGMA {words}")
    opened.execute("CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, filler BLOB)")
    taken = []
    for _ in range(BEFORE):
        opened.execute("INSERT INTO kept (filler) VALUES (?)", (ROW,))
    begun = before = time.perf_counter()
    until = begun + float(seconds)
    while before < until:
        opened.execute("INSERT INTO kept (filler) VALUES (?)", (ROW,))
        now = time.perf_counter()
        taken.append(now - before)
        before = now
    taken.sort()
    rate, count = len(taken) / (before - begun), len(taken)
    print(json.dumps({"rate": rate, "p50_us": taken[count // 2] * 1e6, "p99_us": taken[count * 99 // 100] * 1e6}))


if __name__ == "__main__":
    main()
