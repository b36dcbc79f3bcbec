"""Inserts numbers into an SQLite database, each in a transaction, and tells of each that is committed.

`python sqlite_writer.py MODE PATH`: the numbers go to standard output, as quickly as they can.
`python sqlite_writer.py MODE PATH PORT`: one for each byte that the client of this port sends, told by a line.
`python sqlite_writer.py read MODE PATH`: opens the database as it was left, and prints what it holds.
"""

from __future__ import annotations

import socket
import sqlite3
import sys

# By name of the mode: the journal, and whether other processes may use the database too.
MODES = {
    "wal": ("wal", "normal"),
    "wal-alone": ("wal", "exclusive"),
    "delete": ("delete", "normal"),
    "truncate": ("truncate", "normal"),
    "persist-alone": ("persist", "exclusive"),
}
ROW_BYTES = 300


def database(mode: str, path: str) -> sqlite3.Connection:
    """Opened so that a commit is on the device when it returns."""
    journal, locking = MODES[mode]
    opened = sqlite3.connect(path, isolation_level=None, timeout=60)
    opened.execute(f"PRAGMA locking_mode={locking}")
    opened.execute(f"PRAGMA journal_mode={journal}")
    opened.execute("PRAGMA synchronous=FULL")
    # Often enough that a checkpoint is among what is killed.
    opened.execute("PRAGMA wal_autocheckpoint=30")
    opened.execute("CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, filler BLOB)")
    return opened


def insert(opened: sqlite3.Connection, number: int) -> None:
    opened.execute("INSERT INTO kept VALUES (?, zeroblob(?))", (number, ROW_BYTES))


def first_number(opened: sqlite3.Connection) -> int:
    return opened.execute("SELECT coalesce(max(number), 0) + 1 FROM kept").fetchone()[0]


def write(opened: sqlite3.Connection) -> None:
    number = first_number(opened)
    while True:
        insert(opened, number)
        print(number, flush=True)
        number += 1


def serve(opened: sqlite3.Connection, port: int) -> None:
    number = first_number(opened)
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection = listener.accept()[0]
        while connection.recv(1):
            insert(opened, number)
            connection.sendall(b"%d\n" % number)
            number += 1


def read(opened: sqlite3.Connection) -> None:
    [(verdict,)] = opened.execute("PRAGMA integrity_check").fetchall()
    print(verdict, *(number for (number,) in opened.execute("SELECT number FROM kept ORDER BY number")))


def main() -> None:
    words = sys.argv[1:]
    if words[0] == "read":
        read(database(*words[1:]))
    elif len(words) == 2:
        write(database(*words))
    else:
        serve(database(*words[:2]), int(words[2]))


if __name__ == "__main__":
    main()
