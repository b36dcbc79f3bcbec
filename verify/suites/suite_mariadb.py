"""MariaDB with its own client and sysbench."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import kernel_view
import pytest
from case_run import CaseRun, digest

SCRIPT = """
CREATE DATABASE work; USE work;
CREATE TABLE items (number INT PRIMARY KEY, content TEXT);
INSERT INTO items SELECT seq, REPEAT(MD5(seq), 30) FROM seq_1_to_20000;
SELECT COUNT(*), SUM(LENGTH(content)) FROM items;
SELECT * FROM items ORDER BY number;
SELECT LENGTH(REPEAT('x', 10000000)), MD5(REPEAT('x', 10000000));
"""
OLTP = ["oltp_read_write", "--tables=2", "--table-size=500", "--rand-seed=7", "--db-driver=mysql",
        "--mysql-host=127.0.0.1", "--mysql-user=root", "--mysql-db=test", "--db-ps-mode=auto"]  # fmt: skip

QUERIES = r"^\s+(read|write|other|total|transactions|queries):\s+(\d+)"


@pytest.fixture(scope="module")
def template():
    """A fresh data folder, made once and copied for each run."""
    with tempfile.TemporaryDirectory(prefix="mariadb-") as place:
        data = Path(place) / "data"
        words = ["mariadb-install-db", "--no-defaults", f"--datadir={data}", *user(), "--basedir=/usr",
                 "--auth-root-authentication-method=normal"]  # fmt: skip
        subprocess.run(words, check=True, capture_output=True, timeout=120)
        yield data


def test_client_gets_large_results_and_kills_a_query(compare, template):
    compare("mariadb.client", lambda case: query(case, start_mariadb(case, template)))


def test_sysbench_reads_and_writes(compare, template):
    compare("mariadb.sysbench", lambda case: measure(case, start_mariadb(case, template)))


def query(case: CaseRun, port: int) -> str:
    words = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", port, "-u", "root", "--batch", "--skip-column-names"]
    script = case.folder / "script.sql"
    script.write_text(SCRIPT)
    told = case.run([*words, "-e", f"source {script}"])
    sleeper = case.start([*words, "-e", "SELECT CONNECTION_ID() * 0; SELECT SLEEP(30)"])
    case.look("client", port)
    find = "SELECT ID FROM information_schema.PROCESSLIST WHERE INFO LIKE 'SELECT SLEEP%'"
    victim = kernel_view.wait_until(lambda: case.run([*words, "-e", find]).strip(), 30, "the query that sleeps")
    case.run([*words, "-e", f"KILL QUERY {victim}"])
    return f"{digest(told)} {sleeper.wait()} {sleeper.output()} {sleeper.errors()}"


def measure(case: CaseRun, port: int) -> str:
    words = ["sysbench", *OLTP, f"--mysql-port={port}"]
    case.run([*words, "prepare"])
    # One thread and one seed: every run sends the same queries.
    counted = re.findall(QUERIES, case.run([*words, "--threads=1", "--events=200", "--time=0", "run"]), re.M)
    program = case.start([*words, "--threads=4", "--events=0", "--time=3", "run"])
    case.look("client", port, at_least=8)
    reconnects = re.search(r"reconnects:\s+(\d+)", case.finish(program))[1]
    return f"{counted} reconnects: {reconnects}"


def start_mariadb(case: CaseRun, template: Path) -> int:
    """A server over a copy of the template, without a local socket that anybody knows; its port."""
    port, data = case.port(), case.folder / "data"
    shutil.copytree(template, data)
    words = ["mariadbd", "--no-defaults", f"--datadir={data}", *user(), "--bind-address=127.0.0.1", f"--port={port}",
             f"--socket={case.folder}/sql", f"--pid-file={case.folder}/pid", "--skip-log-bin",
             "--innodb-buffer-pool-size=32M", "--innodb-log-file-size=16M", "--innodb-flush-log-at-trx-commit=0"]  # fmt: skip
    case.serve(port, words)
    return port


def user() -> list[str]:
    """As root the server wants to be told that it shall stay root."""
    return ["--user=root"] if os.getuid() == 0 else []
