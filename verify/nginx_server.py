"""An nginx of our own: configuration, files to serve and start, without any system path."""

from __future__ import annotations

import os
from pathlib import Path

import kernel_view
from heliostat_run import Harness, Program, Side

SMALL = b"twenty-four bytes of it\n"
LARGE_BYTES = 1 << 20

CONFIGURATION = """
daemon off;
master_process {master};
worker_processes {workers};
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
user root;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    keepalive_requests 100000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port}{reuseport};
        root {folder}/files;
        location = /fixed {{ return 200 "fixed\\n"; }}
    }}
}}
"""


def write_files(folder: Path, large_bytes: int) -> None:
    """The files that are served: small.txt and large.bin (reproducible bytes)."""
    files = folder / "files"
    files.mkdir(parents=True, exist_ok=True)
    (files / "small.txt").write_bytes(SMALL)
    (files / "large.bin").write_bytes(bytes(range(251)) * (large_bytes // 251 + 1))
    os.truncate(files / "large.bin", large_bytes)


def start_nginx(
    harness: Harness, side: Side, folder: Path, workers: int = 1, core: int | None = None,
    large_bytes: int = LARGE_BYTES, reuseport: bool = False,
) -> tuple[int, Program]:  # fmt: skip
    """Starts nginx with its files in `folder`; the port and the master process."""
    write_files(folder, large_bytes)
    port = kernel_view.free_port()
    text = CONFIGURATION.format(
        folder=folder, port=port, workers=workers, master="on", reuseport=" reuseport" if reuseport else ""
    )
    if os.getuid() != 0:
        text = text.replace("user root;\n", "")
    path = folder / "nginx.conf"
    path.write_text(text)
    words = [nginx_binary(), "-c", path, "-p", folder, "-e", folder / "error.log"]
    program = harness.start(side, words, name="nginx", core=core)
    kernel_view.wait_listening(port, program.process)
    return port, program


def nginx_binary() -> str:
    """nginx, which Debian keeps outside the ordinary user's PATH."""
    return "/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else "nginx"
