"""The benchmark's tables and queries after TPC-H: rows as the specification has them, every query answers, and both engines agree."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench")]

duckdb = pytest.importorskip("duckdb")
import tpch  # noqa: E402
from tpch_queries import queries  # noqa: E402

SCALE = 0.05
USER = "postgres"
BINARIES = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True), Path("/usr/local/bin"), Path("/usr/bin")]
POSTGRES = next((folder for folder in BINARIES if (folder / "postgres").exists() and (folder / "initdb").exists()), None)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tpch")
    tpch.make(folder / "tpch.duckdb", SCALE)
    with duckdb.connect(str(folder / "tpch.duckdb"), read_only=True) as connection:
        yield folder, connection


def one(connection, text: str) -> tuple:
    return connection.execute(text).fetchone()


def test_the_tables_have_the_rows_of_their_scale(made):
    _, connection = made
    counts = {table: one(connection, f"SELECT count(*) FROM {table}")[0] for table in tpch.TABLES}
    lines = counts.pop("lineitem")
    assert counts == {"region": 5, "nation": 25, "supplier": 500, "part": 10_000, "partsupp": 40_000, "customer": 7_500, "orders": 75_000}
    assert 3.9 < lines / counts["orders"] < 4.1
    for table, keys in tpch.KEYS.items():
        assert one(connection, f"SELECT count(DISTINCT ({keys[0]})) = count(*) FROM {table}")[0], table
    referred = [("lineitem", "l_orderkey", "orders", "o_orderkey"), ("orders", "o_custkey", "customer", "c_custkey"), ("lineitem", "(l_partkey, l_suppkey)", "partsupp", "(ps_partkey, ps_suppkey)")]
    for table, key, other, of in referred:
        assert one(connection, f"SELECT count(*) FROM {table} WHERE {key} NOT IN (SELECT {of} FROM {other})")[0] == 0, table


def test_values_have_their_shares_and_do_not_hang_together(made):
    _, connection = made

    def share(condition: str, table: str = "lineitem") -> float:
        return one(connection, f"SELECT avg(({condition})::INT) FROM {table}")[0]

    assert share("l_quantity <= 25") == pytest.approx(0.5, abs=0.01)
    assert share("l_discount BETWEEN 0.05 AND 0.07") == pytest.approx(3 / 11, abs=0.01)
    assert share("o_comment LIKE '%special%requests%'", "orders") == pytest.approx(0.0094, abs=0.002)
    assert share("c_custkey NOT IN (SELECT o_custkey FROM orders)", "customer") == pytest.approx(1 / 3, abs=0.01)
    # What one column says tells nothing of another.
    both = share("l_quantity <= 25 AND l_shipmode = 'MAIL' AND l_tax <= 0.03")
    assert both == pytest.approx(0.5 / 7 * 4 / 9, rel=0.05)
    flags = connection.execute("SELECT avg(l_quantity) FROM lineitem GROUP BY l_returnflag, l_linestatus").fetchall()
    assert len(flags) == 4 and all(mean == pytest.approx(25.5, abs=1.5) for (mean,) in flags)


def test_every_query_has_rows(made):
    _, connection = made
    assert len(queries(SCALE)) == 22
    for name, text in queries(SCALE).items():
        rows = connection.execute(text).fetchall()
        assert rows and any(value is not None for value in rows[0]), name


@pytest.fixture
def psql(tmp_path):
    """Asks a PostgreSQL of the test's own."""
    folder = Path("/dev/shm") / f"helio-tpch-{os.getpid()}"
    port = kernel_view.free_port()

    def ask(*words: object) -> str:
        place = ["-h", "127.0.0.1", "-p", str(port), "-U", USER, "-v", "ON_ERROR_STOP=1"]
        return subprocess.run(["psql", "-q", "--csv", "-t", *place, *words], check=True, capture_output=True, text=True, timeout=120).stdout

    folder.mkdir(mode=0o700)
    server = None
    try:
        shutil.chown(folder, USER, USER)
        become = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", "--"]
        subprocess.run([*become, POSTGRES / "initdb", "-D", folder, "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"], check=True, capture_output=True, cwd="/")
        settings = {"listen_addresses": "127.0.0.1", "unix_socket_directories": "", "fsync": "off", "port": port}
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        server = subprocess.Popen([*become, POSTGRES / "postgres", "-D", folder, *given], cwd="/", stderr=subprocess.DEVNULL)
        kernel_view.wait_listening(port, server, 60)
        yield ask
    finally:
        if server is not None:
            end(server)
        shutil.rmtree(folder)


def end(server: subprocess.Popen) -> None:
    """Has the server end without waiting for its clients, and ends it where it does not."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(60)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def is_same(told: str, value: object) -> bool:
    """Sums are exact in both; what is divided is a decimal there, and a float here."""
    if value is None or isinstance(value, str):
        return told == (value or "")
    return told == str(value) or float(told) == pytest.approx(float(value), rel=1e-9)


@pytest.mark.skipif(POSTGRES is None or os.geteuid() != 0 or not shutil.which("psql"), reason="no PostgreSQL, or not root")
def test_postgresql_and_duckdb_agree_on_every_row(made, psql):
    folder, connection = made
    psql("-f", folder / "load.sql")
    for name, text in queries(SCALE).items():
        theirs = list(csv.reader(io.StringIO(psql("-c", text))))
        ours = connection.execute(text).fetchall()
        assert len(theirs) == len(ours), name
        for their, our in zip(theirs, ours):
            assert all(is_same(told, value) for told, value in zip(their, our, strict=True)), (name, their, our)
