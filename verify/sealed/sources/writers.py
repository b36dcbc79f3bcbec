"""Two writers of one sqlite3 database, a third that is killed in a transaction, and recovery.

`writers.py MODE` prints the counts and the state of the database after each part.
"""

import os
import signal
import sqlite3
import subprocess
import sys

MODE = sys.argv[1]
ROWS = 60


def connect() -> sqlite3.Connection:
    connection = sqlite3.connect("shared.db", timeout=60, isolation_level=None)
    connection.execute(f"pragma journal_mode={MODE}")
    connection.execute("pragma synchronous=normal")
    return connection


def write(name: str) -> None:
    connection = connect()
    for i in range(ROWS):
        connection.execute("begin immediate")
        (count,) = connection.execute("select count(*) from rows").fetchone()
        connection.execute("insert into rows values(?, ?)", (f"{name}{i}", count))
        connection.execute("commit")


def die() -> None:
    connection = connect()
    connection.execute("pragma cache_size=2")
    connection.execute("begin immediate")
    connection.executemany("insert into rows values(?, -1)", ((f"lost{i}" * 50,) for i in range(2000)))
    connection.execute("update rows set number = -2")
    os.kill(os.getpid(), signal.SIGKILL)


def child(*words: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, __file__, MODE, *words])


def main() -> None:
    connect().execute("create table rows(name text, number integer)")
    print("writers", [one.wait() for one in [child("write", "a"), child("write", "b")]])
    connection = connect()
    print(*connection.execute("select count(*), count(distinct number), max(number) from rows"))
    connection.close()
    print("killed", child("die").wait(), sorted(os.listdir("."))[-2:])
    connection = connect()
    print(*connection.execute("select count(*), min(number), max(number) from rows"))
    print(*connection.execute("pragma integrity_check"))
    connection.execute("begin immediate")
    other = sqlite3.connect("shared.db", timeout=0)
    try:
        other.execute("insert into rows values('x', 0)")
    except sqlite3.OperationalError as error:
        print(error)
    other.close()
    connection.close()
    for name in [name for name in os.listdir(".") if name.startswith("shared.db")]:
        os.remove(name)


if len(sys.argv) == 2:
    main()
elif sys.argv[2] == "die":
    die()
else:
    write(sys.argv[3])
