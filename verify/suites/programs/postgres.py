"""A driver's conversation with PostgreSQL: `postgres.py PORT`."""

import hashlib
import sys
import threading
import time

import marks
import psycopg

PLACE = f"host=127.0.0.1 port={sys.argv[1]} user=postgres dbname=postgres"


def main() -> None:
    with psycopg.connect(PLACE, autocommit=True) as first, psycopg.connect(PLACE, autocommit=True) as second:
        marks.make("connected")
        marks.wait("looked")
        copy(first)
        parameters(first)
        pipeline(first)
        notify(first, second)
        cancel(first)
        end_session(first, second)


def copy(connection) -> None:
    """COPY in, then out, of some ten megabytes."""
    connection.execute("CREATE TABLE items (number int, content text)")
    rows = b"".join(b"%d\t%s\n" % (number, b"x" * (number % 700)) for number in range(30000))
    with connection.cursor().copy("COPY items FROM STDIN") as into:
        for start in range(0, len(rows), 50000):
            into.write(rows[start : start + 50000])
    with connection.cursor().copy("COPY (SELECT * FROM items ORDER BY number) TO STDOUT") as out:
        back = b"".join(bytes(part) for part in out)
    print("copy", back == rows, len(back))
    try:
        with connection.cursor().copy("COPY items FROM STDIN") as into:
            into.write(b"no number\tx\n")
    except psycopg.Error as error:
        print("copy", error.sqlstate)


def parameters(connection) -> None:
    """Large values both ways, a cursor on the server, an error in between."""
    large = hashlib.shake_128(b"large").digest(5_000_000)
    print("bytes", connection.execute("SELECT %b::bytea", [large], binary=True).fetchone()[0] == large)
    with connection.transaction(), connection.cursor(name="scroll") as rows:
        rows.execute("SELECT * FROM generate_series(1, 20000)")
        print("cursor", sum(row[0] for row in rows))
    try:
        connection.execute("SELECT 1/0")
    except psycopg.Error as error:
        print("error", error.sqlstate)


def pipeline(connection) -> None:
    """Two thousand statements under way at once."""
    with connection.pipeline():
        cursors = [connection.execute("SELECT %s::int * 2", [number]) for number in range(2000)]
        print("pipeline", sum(cursor.fetchone()[0] for cursor in cursors))


def notify(listener, sender) -> None:
    """Notifications that arrive while the listener waits, in order."""
    listener.execute("LISTEN news")

    def send() -> None:
        for number in range(200):
            sender.execute("SELECT pg_notify('news', %s)", [f"item {number}"])

    thread = threading.Thread(target=send)
    thread.start()
    got = [note.payload for note in listener.notifies(timeout=30, stop_after=200)]
    thread.join()
    print("notify", got == [f"item {number}" for number in range(200)])
    listener.execute("UNLISTEN news")


def cancel(connection) -> None:
    """A statement is cancelled by a connection of its own; the session goes on."""
    for stop in (connection.cancel_safe, connection.cancel):
        thread = threading.Thread(target=lambda stop=stop: (time.sleep(0.3), stop()))
        thread.start()
        try:
            connection.execute("SELECT pg_sleep(30)")
        except psycopg.Error as error:
            print("cancel", error.sqlstate)
        thread.join()
    print("alive", connection.execute("SELECT 7").fetchone())


def end_session(victim, other) -> None:
    """A session that the server ends says why, and is closed from then on."""
    process = victim.info.backend_pid
    print("ended", other.execute("SELECT pg_terminate_backend(%s)", [process]).fetchone())
    try:
        victim.execute("SELECT 1")
    except psycopg.Error as error:
        print("ended", error.sqlstate, victim.closed, victim.broken)


main()
