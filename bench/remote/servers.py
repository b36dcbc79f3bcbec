"""Redis, nginx and Apache, asked from the other namespace by redis-benchmark, wrk and httperf."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable

import kernel_view
from nginx_server import LARGE_BYTES, nginx_binary, write_files
from remote.work import Far, Run, Workload, number

# Of each sample: a quick one, and a whole one that takes some 2 s on two cores.
REQUESTS, QUICK_REQUESTS = 90_000, 30_000
CONNECTIONS, QUICK_CONNECTIONS = 10_000, 4_000
# Redis has one thread: with its network stack on other cores it is to answer so many times as often.
AIM_REDIS, AIM_REDIS_CORES = 1.6, 16
# Cores for each thread or process of a client: what is measured is the server, where there are cores for both.
CORES_PER_CLIENT, CLIENTS_MAX = 4, 8

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


def at_once() -> int:
    """So many threads or processes ask: one on few cores."""
    return min(max(1, len(os.sched_getaffinity(0)) // CORES_PER_CLIENT), CLIENTS_MAX)


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
                 *(["--threads", at_once()] if at_once() > 1 else []), "-n", (QUICK_REQUESTS if far.bench.quick else REQUESTS) * pipeline]  # fmt: skip
        return number(r'"GET","([\d.]+)"', far.run_there(words))

    deep = f", pipeline {pipeline}" if pipeline > 1 else ""
    aim = AIM_REDIS if pipeline == 1 and len(os.sched_getaffinity(0)) >= AIM_REDIS_CORES else None
    return Workload(f"redis-benchmark GET, {clients} connections{deep}", "req/s", start, sample, aim=aim)


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
        port = kernel_view.free_port()
        # One that has another's file of its number takes itself for that one, and ends.
        folder = far.folder(f"apache-{port}", run)
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
        seconds = max(1, round(far.bench.seconds / 2))
        url = f"http://{far.clients.address}:{port}/small.txt"
        return number(r"Requests/sec:\s*([\d.]+)", far.run_there(["wrk", "-t1", "-c50", f"-d{seconds}s", url]))

    return Workload(f"wrk on {name}, 50 connections, 24 B file", "req/s", start, sample)


def httperf(far: Far, name: str, start: Callable[[Run], int]) -> Workload:
    """A connection for each request, one after the other: the next begins when the last has its reply.

    At a rate that no server keeps up with httperf measures itself: it has 1,024 descriptors, what does not fit into
    them or the server's backlog fails or waits a second for its next SYN, and with `--hog` it binds ports of its own
    choice, each of them once in a minute, and stands still when it has had all. So where one is no load for the
    server, several ask at once, and what counts is the sum.
    """

    def sample(_: Run, port: int) -> float:
        count = QUICK_CONNECTIONS if far.bench.quick else CONNECTIONS
        words = ["httperf", "--server", far.clients.address, "--port", port, "--uri", "/small.txt", "--num-conns", count, "--timeout", 10]
        return sum(map(replies_per_second, far.run_all_there([words] * at_once())))

    return Workload(f"httperf on {name}, a connection a request", "replies/s", start, sample)


def replies_per_second(said: str) -> float:
    """By what httperf printed; its own reply rate is of whole intervals of 5 s. Failed connections make no rate."""
    if failed := number(r"Errors: total (\d+)", said):
        raise RuntimeError(f"httperf: {failed:.0f} connections failed: {said[-500:]}")
    return number(r"replies (\d+) test-duration", said) / number(r"test-duration ([\d.]+)", said)
