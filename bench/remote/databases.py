"""TPC-H's queries: in DuckDB, which has no peers, and in PostgreSQL, whose client is remote."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

import kernel_view
import tpch
import tpch_queries
from heliostat_run import Side
from measure import last_json
from remote.work import Far, Run, Workload, found

POSTGRES_USER = "postgres"


def tables(far: Far, scale: float) -> Path:
    """The tables as a DuckDB file, with those for PostgreSQL beside it; made once."""
    path = far.harness.folder / "tpch.duckdb"
    if not path.exists():
        tpch.make(path, scale)
    return path


def duckdb(far: Far, scale: float) -> Workload:
    path = tables(far, scale)

    def sample(run: Run, _: object) -> float:
        words = [sys.executable, Path(tpch.__file__), path, max(1.0, far.bench.seconds), scale]
        return last_json(far.harness.run(run.side, words, seconds=300, name="duckdb"))["rate"]

    return Workload("TPC-H's queries in DuckDB", "queries/h", lambda _: None, sample, is_carried=False, about=f"scale {scale}")


def postgres(far: Far, scale: float) -> Workload:
    """The server's processes are another user's; the client is remote."""
    tables(far, scale)
    folder = Path(found("postgres")).parent
    become = ["setpriv", f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--init-groups", "--"]
    queries = far.harness.folder / "queries.sql"
    texts = tpch_queries.queries(scale)
    queries.write_text("".join(f"{text};\n" for text in texts.values()))

    def start(run: Run) -> int:
        far.harness.folder.chmod(0o755)
        port, data = kernel_view.free_port(), far.folder("postgres", run) / "data"
        data.mkdir(mode=0o700)
        shutil.chown(data, POSTGRES_USER, POSTGRES_USER)
        made = far.harness.run(Side.PLAIN, [*become, folder / "initdb", "-D", data, "-A", "trust", "--no-sync", "--locale=C", "-E", "UTF8"], name="initdb", cwd="/")
        if made.process.returncode != 0:
            raise RuntimeError(made.errors())
        with open(data / "pg_hba.conf", "a") as rules:
            rules.write("host all all 10.213.0.0/16 trust\n")
        settings = {"listen_addresses": far.clients.address, "unix_socket_directories": "", "shared_buffers": "128MB", "fsync": "off", "port": port}
        given = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        words = run.words(far.harness, [folder / "postgres", "-D", data, *given])
        # The user changes first: it has a control plane of root's, as programs of a machine's service have.
        program = far.harness.start(Side.PLAIN, [*become, *words], name="postgres", cwd="/")
        kernel_view.wait_listening(port, program.process, 120)
        load(far, port)
        return port

    def sample(_: Run, port: int) -> float:
        begin, count = time.perf_counter(), 0
        while (spent := time.perf_counter() - begin) < far.bench.seconds or count == 0:
            psql(far, port, "-f", queries)
            count += len(texts)
        return 3600 * count / spent

    return Workload("TPC-H's queries in PostgreSQL", "queries/h", start, sample, is_carried=False, about=f"scale {scale}")


def psql(far: Far, port: int, *words: object) -> str:
    place = ["-h", far.clients.address, "-p", port, "-U", POSTGRES_USER]
    return far.run_there(["psql", "-q", "-v", "ON_ERROR_STOP=1", *place, *words, "postgres"], seconds=300)


def load(far: Far, port: int) -> None:
    psql(far, port, "-f", far.harness.folder / "load.sql")
