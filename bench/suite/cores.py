"""Cores parted, against plain Linux: servers with remote peers (another network namespace), and TPC-H's queries.

Each workload runs plainly, under Heliostat with nothing parted, and under Heliostat with each partition that
`heliostat cores --auto` would try here; servers also with their connections carried by loops of the network service on
the kernel cores. What the rule keeps of these may not be worse than 0.95 of plain Linux; what partitions cost that it
does not keep stands beside it. A workload whose programs are not installed is skipped, and says so.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import kernel_view
import tpch
from far_clients import FarClients
from heliostat_run import BINARY, Harness, Program, Side
from measure import Bench, Result, last_json
from nginx_server import LARGE_BYTES, nginx_binary, write_files

AIM_KEPT = 0.95
# As the command line's rule: none wins ties, and keeps what falls behind in no round.
GAIN_LEAST = 0.02
SCALE = {True: 0.005, False: 0.05}
REQUESTS = 30_000
POSTGRES_USER = "postgres"

NGINX = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log warn; user root;
events {{ worker_connections 1024; }}
http {{ access_log off; sendfile on; keepalive_requests 100000000; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
server {{ listen {address}:{port}; root {folder}/files; }} }}
"""
APACHE = """
ServerRoot "{folder}"
ServerName localhost
PidFile {folder}/apache.pid
ErrorLog {folder}/error.log
Listen {address}:{port}
{modules}
User www-data
Group www-data
DocumentRoot "{folder}/files"
<Directory "{folder}/files">
Require all granted
</Directory>
KeepAlive On
MaxKeepAliveRequests 0
"""


@dataclass(frozen=True)
class Run:
    """How a program is run: plainly, under Heliostat, or with flags of `heliostat run`."""

    side: Side
    flags: tuple[str, ...] = ()

    def words(self, harness: Harness, words: list) -> list:
        """The program's words with what is before them."""
        if not self.flags:
            return harness.command(self.side, words)
        return [str(BINARY), "run", *self.flags, "--", *map(str, words)]

    @property
    def label(self) -> str:
        return "".join([self.side.value, *self.flags])


PLAIN, COVERED = Run(Side.PLAIN), Run(Side.HELIOSTAT)


@dataclass
class Workload:
    """A server, or nothing, and one measurement of it."""

    name: str
    unit: str
    start: Callable[[Run], object]
    sample: Callable[[Run, object], float]
    # It has connections from remote peers.
    is_server: bool = True


@dataclass
class Far:
    """What the workloads share."""

    bench: Bench
    clients: FarClients

    @property
    def harness(self) -> Harness:
        return self.bench.harness

    def folder(self, name: str, run: Run) -> Path:
        folder = self.harness.folder / f"{name}-{run.label}"
        folder.mkdir(mode=0o755, exist_ok=True)
        return folder

    def run_there(self, words: list, seconds: float = 120) -> str:
        """A program in the other namespace, plainly; what it printed."""
        program = self.harness.run(Side.PLAIN, self.clients.command(words), seconds=seconds, name=str(words[0]))
        if program.process.returncode != 0:
            raise RuntimeError(f"{words[0]}: {program.errors()[-500:]}{program.output()[-500:]}")
        return program.output()

    def serve(self, run: Run, words: list, name: str, port: int) -> Program:
        program = self.harness.start(Side.PLAIN, run.words(self.harness, words), name=name)
        kernel_view.wait_listening(port, program.process)
        return program


def number(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    if not found:
        raise RuntimeError(f"no figure at {pattern} in: {text[-500:]}")
    return float(found[1])


def redis(far: Far, clients: int, pipeline: int) -> Workload:
    """Single-threaded Redis, GET."""

    def start(run: Run) -> int:
        port = kernel_view.free_port()
        words = ["redis-server", "--port", port, "--bind", far.clients.address, "--protected-mode", "no", "--save", "", "--appendonly", "no",
                 "--dir", far.folder("redis", run)]  # fmt: skip
        far.serve(run, words, "redis-server", port)
        return port

    def sample(_: Run, port: int) -> float:
        words = ["redis-benchmark", "-h", far.clients.address, "-p", port, "--csv", "-t", "get", "-c", clients, "-P", pipeline,
                 "-n", (REQUESTS if far.bench.quick else 5 * REQUESTS) * pipeline]  # fmt: skip
        return number(r'"GET","([\d.]+)"', far.run_there(words))

    deep = f", pipeline {pipeline}" if pipeline > 1 else ""
    return Workload(f"redis-benchmark GET, {clients} connections{deep}", "req/s", start, sample)


def nginx(far: Far) -> Callable[[Run], int]:
    def start(run: Run) -> int:
        port, folder = kernel_view.free_port(), far.folder("nginx", run)
        write_files(folder, LARGE_BYTES)
        path = folder / "nginx.conf"
        path.write_text(NGINX.format(folder=folder, address=far.clients.address, port=port))
        far.serve(run, [nginx_binary(), "-c", path, "-p", folder, "-e", folder / "error.log"], "nginx", port)
        return port

    return start


def apache(far: Far) -> Callable[[Run], int]:
    def start(run: Run) -> int:
        port, folder = kernel_view.free_port(), far.folder("apache", run)
        write_files(folder, LARGE_BYTES)
        far.harness.folder.chmod(0o755)
        places = Path("/usr/lib/apache2/modules")
        wanted = ["mpm_event", "authz_core"]
        modules = "\n".join(f"LoadModule {name}_module {places}/mod_{name}.so" for name in wanted)
        path = folder / "apache.conf"
        path.write_text(APACHE.format(folder=folder, address=far.clients.address, port=port, modules=modules))
        far.serve(run, ["/usr/sbin/apache2", "-f", path, "-D", "FOREGROUND"], "apache2", port)
        return port

    return start


def wrk(far: Far, name: str, start: Callable[[Run], int]) -> Workload:
    def sample(_: Run, port: int) -> float:
        seconds = max(1, round(far.bench.seconds))
        url = f"http://{far.clients.address}:{port}/small.txt"
        return number(r"Requests/sec:\s*([\d.]+)", far.run_there(["wrk", "-t1", "-c50", f"-d{seconds}s", url]))

    return Workload(f"wrk on {name}, 50 connections, 24 B file", "req/s", start, sample)


def httperf(far: Far, name: str, start: Callable[[Run], int]) -> Workload:
    """A connection for each request, faster than any of these servers answers: what counts is replies in a second."""

    def sample(_: Run, port: int) -> float:
        count = 4_000 if far.bench.quick else 20_000
        words = ["httperf", "--hog", "--server", far.clients.address, "--port", port, "--uri", "/small.txt", "--num-conns", count,
                 "--rate", 20_000, "--timeout", 10]  # fmt: skip
        said = far.run_there(words)
        return number(r"Reply rate.*?avg ([\d.]+)", said) or number(r"Connection rate: ([\d.]+)", said)

    return Workload(f"httperf on {name}, a connection a request", "replies/s", start, sample)


def duckdb(far: Far, scale: float) -> Workload:
    path = far.harness.folder / "tpch.duckdb"
    tpch.make(path, scale)

    def sample(run: Run, _: object) -> float:
        words = [sys.executable, Path(tpch.__file__), path, max(1.0, far.bench.seconds)]
        return last_json(far.harness.run(run.side, words, seconds=300, name="duckdb"))["rate"]

    return Workload(f"TPC-H's queries in DuckDB, scale {scale}", "queries/h", lambda _: None, sample, is_server=False)


def postgres(far: Far, scale: float) -> Workload:
    """The server's processes are another user's; the client is remote."""
    folder = Path(found("postgres")).parent
    become = ["setpriv", f"--reuid={POSTGRES_USER}", f"--regid={POSTGRES_USER}", "--init-groups", "--"]
    queries = far.harness.folder / "queries.sql"
    queries.write_text("".join(f"{text};\n" for text in tpch.QUERIES.values()))

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
            count += len(tpch.QUERIES)
        return 3600 * count / spent

    return Workload(f"TPC-H's queries in PostgreSQL, scale {scale}", "queries/h", start, sample)


def found(program: str) -> str | None:
    """A program, also where Debian keeps it outside PATH; of PostgreSQL the newest."""
    places = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    return shutil.which(program, path=os.pathsep.join([*places, os.environ.get("PATH", os.defpath), "/usr/sbin"]))


def is_there(need: str) -> bool:
    """Whether a program is installed, a user exists (`user NAME`), or Python has a module (`module NAME`)."""
    kind, _, name = need.rpartition(" ")
    if kind == "user":
        return subprocess.run(["id", name], capture_output=True, check=False).returncode == 0
    return importlib.util.find_spec(name) is not None if kind == "module" else found(name) is not None


def psql(far: Far, port: int, *words: object) -> str:
    place = ["-h", far.clients.address, "-p", port, "-U", POSTGRES_USER]
    return far.run_there(["psql", "-q", "-v", "ON_ERROR_STOP=1", *place, *words, "postgres"], seconds=300)


def load(far: Far, port: int) -> None:
    for table in tpch.TABLES:
        psql(far, port, "-c", f"CREATE TABLE {table} ({tpch.COLUMNS[table]})")
        psql(far, port, "-c", f"\\copy {table} FROM '{far.harness.folder / table}.csv' (FORMAT csv)")
    psql(far, port, "-c", "CREATE INDEX ON lineitem (l_orderkey)", "-c", "CREATE INDEX ON orders (o_orderkey)", "-c", "ANALYZE")


def partitions() -> dict[str, list[str]]:
    """What is tried: as `--auto`, kernel cores up to a quarter of the machine, packed and spread."""
    cores = len(os.sched_getaffinity(0))
    found = {"none": ["reset"]}
    for count in range(1, max(1, cores // 4) + 1):
        found[f"kernel {count}"] = ["--kernel", str(count)]
        if count > 1:
            found[f"kernel {count}, spread"] = ["--kernel", str(count), "--spread"]
    return found if cores > 1 else {"none": ["reset"]}


def carried() -> dict[str, tuple[list[str], Run]]:
    """Partitions with a loop of the network service on each kernel core."""
    arms = {name: words for name, words in partitions().items() if words != ["reset"] and "--spread" not in words}
    return {f"{name}, carried": (words, Run(Side.HELIOSTAT, ("--network-cores", words[1]))) for name, words in arms.items()}


def start_all(bench: Bench, work: Workload) -> dict[str, tuple[Run, object, list[str]]]:
    """What is compared: how it is run, its server, and how cores are parted."""
    arms = {"plain": (PLAIN, work.start(PLAIN), ["reset"])}
    if bench.harness.plain:
        return arms
    server = work.start(COVERED)
    arms |= {name: (COVERED, server, words) for name, words in partitions().items()}
    for name, (words, run) in carried().items() if work.is_server else ():
        bench.harness.call("cores", *words)  # its loops are on the kernel cores that there are when it starts
        arms[name] = (run, work.start(run), words)
        bench.harness.call("cores", "reset")
    return arms


def measure_one(bench: Bench, work: Workload) -> list[Result]:
    """Plain Linux and every partition by turns."""

    def sample(arm: tuple[Run, object, list[str]]) -> float:
        run, server, words = arm
        if not bench.harness.plain:
            bench.harness.call("cores", *words)
        return work.sample(run, server)

    rounds = bench.alternate(start_all(bench, work), sample)
    plain = rounds.pop("plain")
    if not rounds:
        return [bench.compare(work.name, [], plain, work.unit)]
    kept = keeps(rounds)
    told = [f"{name} {statistics.median(all):,.0f} (x{statistics.median(all) / statistics.median(plain):.2f})" for name, all in rounds.items()]
    print(f"  {work.name}: kept {kept}; {', '.join(told)}, plain {statistics.median(plain):,.0f} {work.unit}", flush=True)
    cores = f"{len(os.sched_getaffinity(0))} cores"
    rows = [bench.compare(f"{work.name}: kept by the rule", rounds[kept], plain, work.unit, aim=AIM_KEPT, cores=cores, note=f"{work.name}: the rule keeps {kept}")]
    return rows + [bench.compare(f"{work.name}: {name}", all, plain, work.unit, cores=cores) for name, all in rounds.items()]


def keeps(rounds: dict[str, list[float]]) -> str:
    """Which partition the rule keeps, as `heliostat cores --auto` judges."""
    none = rounds["none"]
    middle = statistics.median(none)
    margin = max(GAIN_LEAST, (max(none) - min(none)) / 2 / middle)
    fits = {
        name: statistics.median(all)
        for name, all in rounds.items()
        if statistics.median(all) > (1 + margin) * middle and min(all) >= AIM_KEPT * middle
    }
    return max(fits, key=fits.get) if fits else "none"


def workloads(far: Far) -> list[tuple[str, list[str], Callable[[], Workload]]]:
    """What is measured: its name, what it needs, and what prepares it."""
    scale = SCALE[far.bench.quick]
    web = [("nginx", "nginx", nginx(far)), ("Apache", "apache2", apache(far))]
    loads = [(wrk, "wrk"), (httperf, "httperf")]
    return [
        *((f"redis, pipeline {deep}", ["redis-server", "redis-benchmark"], functools.partial(redis, far, 50, deep)) for deep in (1, 16)),
        *((f"{client} on {name}", [server, client], functools.partial(load, far, name, start)) for name, server, start in web for load, client in loads),
        ("DuckDB, TPC-H", ["module duckdb"], functools.partial(duckdb, far, scale)),
        ("PostgreSQL, TPC-H", ["postgres", "psql", f"user {POSTGRES_USER}", "module duckdb"], functools.partial(postgres, far, scale)),
    ]


def measure(bench: Bench) -> list[Result]:
    results = []
    only = os.environ.get("HELIOSTAT_ONLY", "")
    with FarClients() as clients:
        for name, needs, make in workloads(Far(bench, clients)):
            if only.lower() not in name.lower():
                continue
            missing = [need for need in needs if not is_there(need)]
            if missing:
                print(f"  {name} is skipped: {', '.join(missing)} is not installed", flush=True)
                continue
            results += measure_one(bench, make())
    return results
