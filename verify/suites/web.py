"""What the web suites share: files to serve, an nginx with any servers in it, curl and wrk."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from case_run import CaseRun, digest

SMALL = b"twenty-four bytes of it\n"
LARGE_BYTES = 8 << 20
# wrk runs for so long, and then until its connections were looked at.
LOAD_SECONDS = 2
# With this rule programs of all users are connected directly, as one user's are without it.
ALL_USERS = '[[rule]]\naction = "allow"\nrights = ["connect", "listen"]\n'

NGINX = """
daemon off;
worker_processes 2;
pid {folder}/nginx-{name}.pid;
error_log {folder}/nginx-{name}.log warn;
{user}
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_max_body_size 64m;
    client_body_temp_path {folder}/{name}-body;
    proxy_temp_path {folder}/{name}-proxy;
    fastcgi_temp_path {folder}/{name}-fastcgi;
    uwsgi_temp_path {folder}/{name}-uwsgi;
    scgi_temp_path {folder}/{name}-scgi;
    {servers}
}}
"""


def start_nginx(case: CaseRun, port: int, servers: str, name: str = "web", user: str = "") -> None:
    """Starts an nginx with these server blocks; as root its workers change to `user`."""
    change = f"user {user or 'root'};" if os.getuid() == 0 else ""
    path = case.folder / f"nginx-{name}.conf"
    path.write_text(NGINX.format(folder=case.folder, name=name, user=change, servers=servers))
    error_log = case.folder / f"nginx-{name}.log"
    case.serve(port, [system_tool("nginx"), "-c", path, "-p", case.folder, "-e", error_log])


def write_files(case: CaseRun) -> Path:
    """A folder with small.txt and large.bin (reproducible bytes), which every user may read."""
    files = case.folder / "files"
    files.mkdir()
    (files / "small.txt").write_bytes(SMALL)
    (files / "large.bin").write_bytes(large())
    return files


def large() -> bytes:
    return (bytes(range(251)) * (LARGE_BYTES // 251 + 1))[:LARGE_BYTES]


def fetch(case: CaseRun, address: str, *words) -> str:
    """What curl gets from an address: status, and length and checksum of the body."""
    target = case.folder / "fetched"
    target.unlink(missing_ok=True)
    said = case.run(["curl", "-sS", *words, "-o", target, "-w", "%{http_code} %{num_connects}", address])
    return f"{said} {digest(target.read_bytes() if target.exists() else b'')}"


def load(case: CaseRun, address: str, ports: dict[str, int], connections: int = 16) -> str:
    """Some seconds of wrk; the connections to `ports` are looked at meanwhile; what went wrong."""
    program = case.start(["wrk", "-t2", f"-c{connections}", "-d50s", address])
    time.sleep(LOAD_SECONDS)
    for kind, port in ports.items():
        case.look(kind, port)
    program.kill(signal.SIGINT)  # it tells what it has so far
    said = case.finish(program)
    wrong = re.findall(r"Socket errors.*|Non-2xx.*", said)
    answered = int(re.search(r"(\d+) requests in", said)[1])
    return f"{wrong} {'many' if answered > 50 else answered}"


def system_tool(name: str) -> str:
    """A server's program, which Debian keeps outside the ordinary user's PATH."""
    return f"/usr/sbin/{name}" if Path(f"/usr/sbin/{name}").exists() else name
