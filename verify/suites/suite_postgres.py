"""PostgreSQL with pgbench, psql and a driver: COPY, NOTIFY, cancelled and ended sessions.

PostgreSQL refuses to run as root, and programs of different users are not connected directly
without a rule, so its clients run as the server's user too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from case_run import CaseRun, as_user, digest

USER = "postgres"
# Each client adds to a row of its own, so that the sums are the same in every run.
SCRIPT = """
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :client_id + 1;
SELECT abalance FROM pgbench_accounts WHERE aid = :client_id + 1;
END;
\\sleep 5 ms
"""
SUMS = "SELECT aid, abalance FROM pgbench_accounts WHERE abalance <> 0 ORDER BY aid"


@pytest.fixture(scope="module")
def template():
    """A fresh cluster, made once and copied for each case, where the server's user reaches it."""
    with tempfile.TemporaryDirectory(prefix="cluster-") as place:
        os.chmod(place, 0o755)
        yield make_cluster(private_folder(Path(place) / "data"))


def make_cluster(data: Path) -> Path:
    words = [tool("initdb"), "-D", data, "-U", USER, "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"]
    run_plainly(as_user(USER, [str(word) for word in words]))
    return data



def test_driver_copies_listens_and_cancels(compare, template):
    compare("postgres.driver", lambda case: drive(case, start_postgres(case, template)))


def test_pgbench_leaves_the_same_sums(compare, template):
    compare("postgres.pgbench", lambda case: measure(case, start_postgres(case, template)))


def test_psql_runs_scripts_and_streams_large_results(compare, template):
    compare("postgres.psql", lambda case: query(case, start_postgres(case, template)))


def drive(case: CaseRun, port: int) -> str:
    program = case.start_python("postgres.py", port, user=USER)
    case.await_mark("connected", program)
    case.look("session", port, at_least=2)
    case.mark("looked")
    return case.finish(program)


def measure(case: CaseRun, port: int) -> str:
    place = [*server(port), "postgres"]
    case.run([tool("pgbench"), "-i", "-q", "-s", "1", *place], user=USER)
    script = case.folder / "script.sql"
    script.write_text(SCRIPT)
    words = ["-n", "-c", "8", "-j", "2", "-t", "300", "-M", "prepared", "-f", script]
    program = case.start([tool("pgbench"), *words, *place], user=USER)
    case.look("session", port, at_least=16)
    said = [line for line in case.finish(program).splitlines() if line.startswith("number of")]
    burst = case.run([tool("pgbench"), "-n", "-C", "-c", "4", "-t", "20", "-S", *place], user=USER)
    said += [line for line in burst.splitlines() if line.startswith("number of")]
    return "\n".join([*said, case.run([tool("psql"), "-At", "-c", SUMS, *place], user=USER)])


def query(case: CaseRun, port: int) -> str:
    words = [tool("psql"), "-v", "ON_ERROR_STOP=1", "-At", *server(port), "postgres"]
    rows = "SELECT i, repeat(md5(i::text), 20) FROM generate_series(1, 30000) i"
    case.run([*words, "-c", f"CREATE TABLE big AS {rows}"], user=USER)
    dumped = case.run([tool("pg_dump"), *server(port), "-t", "big", "--data-only", "postgres"], user=USER)
    dumped = "\n".join(line for line in dumped.splitlines() if "restrict " not in line)  # a random word
    large = case.run([*words, "-c", "SELECT * FROM big ORDER BY 1"], user=USER)
    program = case.start([*words, "-c", "SELECT pg_sleep(2)"], user=USER)
    case.look("session", port)
    case.finish(program)
    failed = case.start([*words, "-c", "SELECT 1/0"], user=USER)
    return f"{digest(dumped)} {digest(large)} {failed.wait()} {failed.errors()}"


def start_postgres(case: CaseRun, template: Path) -> int:
    """A server over a copy of the template, which listens on the loopback alone; its port."""
    port, data = case.port(), private_folder(case.folder / "data")
    shutil.copytree(template, data, dirs_exist_ok=True)
    if os.getuid() == 0:
        run_plainly(["chown", "-R", USER, str(data)])
    settings = {"listen_addresses": "127.0.0.1", "port": port, "unix_socket_directories": "", "fsync": "off",
                "shared_buffers": "16MB", "max_connections": 40, "jit": "off"}  # fmt: skip
    words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    case.serve(port, [tool("postgres"), "-D", data, *words], user=USER, ending=signal.SIGINT)
    return port


def private_folder(path: Path) -> Path:
    """A folder of the server's user alone, as PostgreSQL wants its data to be."""
    path.mkdir(mode=0o700, exist_ok=True)
    if os.getuid() == 0:
        shutil.chown(path, USER, USER)
    return path


def server(port: int) -> list:
    return ["-h", "127.0.0.1", "-p", port, "-U", USER]


def tool(name: str) -> Path:
    """A program of PostgreSQL, of which Debian keeps most outside PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found[-1] if found else Path(name)


def run_plainly(words: list[str]) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=60, cwd="/")
