"""Programs of daily use as they are sealed: what each finds, what it is asked to do, what comes of it.

A case keeps what never changes in `kept` and works in `work`, which is made anew for each run. None of
them knows that it is sealed.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable


@dataclass
class Place:
    """Where a case lies; the same names in each run."""

    folder: Path
    port: int

    @property
    def kept(self) -> Path:
        return self.folder / "kept"

    @property
    def work(self) -> Path:
        return self.folder / "work"


@dataclass(frozen=True)
class Case:
    """A program's words, made of a place; and what a client outside gets of it, if it serves."""

    words: Callable[[Place], list]
    prepare: Callable[[Place], None] = lambda _: None
    fresh: Callable[[Place], None] = lambda _: None
    client: Callable[[Place], str] | None = None
    result: Callable[[Place], str] = lambda _: ""
    user: str = ""
    ending: int = signal.SIGTERM


def shell(script: str) -> Callable[[Place], list]:
    return lambda place: ["sh", "-ec", f"cd {place.work}\n{script}"]


def plainly(words: list, **more) -> str:
    return subprocess.run(list(map(str, words)), check=True, capture_output=True, text=True, timeout=120, **more).stdout


def sources(place: Place) -> None:
    (place.work / "configure").write_text(
        '#!/bin/sh\nset -e\ncat >conftest.c <<END\n#include <stdint.h>\nint main(void) { return sizeof(uint64_t) - 8; }\nEND\n'
        'cc -o conftest conftest.c && ./conftest && echo "#define ANSWER 42" >config.h\nrm -f conftest conftest.c\n'
    )
    (place.work / "configure").chmod(0o755)
    (place.work / "main.c").write_text('#include <stdio.h>\n#include "config.h"\nint main(void) { printf("%d\\n", ANSWER); }\n')
    (place.work / "Makefile").write_text("program: main.o\n\tcc -o $@ $^\nmain.o: main.c config.h\n")


def wheel(place: Place) -> None:
    plainly(["/usr/bin/python3", "-m", "venv", place.kept / "venv"])
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(place.kept / "tiny-1.0-py3-none-any.whl", "w") as packed:
        packed.writestr("tiny.py", "ANSWER = 42\n")
        packed.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def install_wheel(place: Place) -> list:
    target = place.work / "site"
    script = (
        f"{place.kept}/venv/bin/pip install -q --no-index --no-cache-dir --disable-pip-version-check --target {target} "
        f"{place.kept}/tiny-1.0-py3-none-any.whl && PYTHONPATH={target} {place.kept}/venv/bin/python -c 'import tiny; print(tiny.ANSWER)'"
    )
    return ["sh", "-ec", f"cd {place.work}\n{script}"]


def package(place: Place) -> None:
    (place.kept / "tiny").mkdir()
    (place.kept / "tiny/package.json").write_text('{"name": "tiny", "version": "1.0.0", "main": "tiny.js"}\n')
    (place.kept / "tiny/tiny.js").write_text("module.exports = 42\n")


def application(place: Place) -> None:
    (place.work / "package.json").write_text('{"name": "app", "version": "1.0.0"}\n')


def node_server(place: Place) -> None:
    (place.work / "page").write_text("page of node\n")
    (place.work / "server.js").write_text(
        "const fs = require('fs'), http = require('http')\n"
        "http.createServer((_, answer) => { fs.appendFileSync('log', 'asked\\n'); answer.end(fs.readFileSync('page')) })"
        f".listen({place.port}, '127.0.0.1')\nprocess.on('SIGTERM', () => process.exit(0))\n"
    )


def fetched(place: Place) -> str:
    return plainly(["curl", "-sS", "--max-time", "20", f"http://127.0.0.1:{place.port}/page"])


def nginx_files(place: Place) -> None:
    (place.work / "files").mkdir()
    (place.work / "files/page").write_text("page of nginx\n")
    (place.work / "state").mkdir()
    state = place.work / "state"
    temporary = "".join(f"{name}_temp_path {state}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (place.work / "nginx.conf").write_text(
        f"user www-data;\nworker_processes 2;\ndaemon off;\npid {state}/pid;\nerror_log {state}/error.log;\nevents {{}}\n"
        f"http {{ access_log {state}/access.log; {temporary}\nserver {{ listen 127.0.0.1:{place.port}; root {place.work}/files; }} }}\n"
    )


def cluster(place: Place) -> None:
    plainly([postgres("initdb"), "-D", place.kept / "data", "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C"], user="postgres")


def postgres(tool: str) -> Path:
    return max(Path("/usr/lib/postgresql").glob(f"*/bin/{tool}"))


def fresh_cluster(place: Place) -> None:
    shutil.copytree(place.kept / "data", place.work / "data", symlinks=True)
    for path in (place.work / "data", *(place.work / "data").rglob("*")):
        shutil.chown(path, "postgres", "postgres")


def serve_postgres(place: Place) -> list:
    return [postgres("postgres"), "-D", place.work / "data", "-p", place.port, "-k", place.work, "-h", "127.0.0.1", "-F"]


def queried(place: Place) -> str:
    text = "CREATE TABLE t AS SELECT generate_series(1, 1000) AS n; SELECT sum(n) FROM t; CHECKPOINT;"
    return plainly(["psql", "-h", "127.0.0.1", "-p", place.port, "-U", "postgres", "-Atc", text, "postgres"])


CASES = {
    "configure": Case(shell("./configure\nmake -s\n./program"), fresh=sources),
    "git": Case(shell(
        "git init -q one && cd one && git config user.name a && git config user.email a@b\n"
        "echo text >file && git add file && git commit -qm first && git log --format=%s\n"
        "cd .. && git clone -q one two && cat two/file && cd two && git status --short && git gc -q"
    )),
    "pip": Case(install_wheel, prepare=wheel),
    "npm": Case(
        lambda place: ["sh", "-ec", f"cd {place.work}\nnpm install --offline --silent --no-audit --no-fund {place.kept}/tiny\nnode -p \"require('tiny')\""],
        prepare=package, fresh=application,
    ),
    "node": Case(lambda place: ["sh", "-ec", f"cd {place.work}\nexec node server.js"], fresh=node_server, client=fetched),
    "ffmpeg": Case(shell(
        "ffmpeg -v error -f lavfi -i testsrc=duration=1:size=64x64:rate=5 -c:v mpeg4 out.avi\n"
        "ffmpeg -v error -i out.avi -f null - && ffprobe -v error -show_entries stream=codec_name -of csv=p=0 out.avi"
    )),
    "nginx": Case(lambda place: ["/usr/sbin/nginx", "-c", place.work / "nginx.conf", "-p", place.work / "state"],
                  fresh=nginx_files, client=fetched, ending=signal.SIGQUIT),
    "postgres": Case(serve_postgres, prepare=cluster, fresh=fresh_cluster, client=queried, user="postgres", ending=signal.SIGINT),
}  # fmt: skip
