"""gunicorn with processes and threads, uvicorn with uvloop and httptools, and clients on uvloop."""

from __future__ import annotations

import pytest
from stage import HERE, PYTHON, Stage
from web import fetch, large, load

SERVERS = {
    "gunicorn_sync": ["-m", "gunicorn", "-w", "2", "-b", "127.0.0.1:{port}", "--no-control-socket", "hello:wsgi"],
    "gunicorn_threads": ["-m", "gunicorn", "-w", "1", "--threads", "8", "-b", "127.0.0.1:{port}",
                         "--no-control-socket", "hello:wsgi"],
    "uvicorn": ["-m", "uvicorn", "--loop", "uvloop", "--http", "httptools", "--port", "{port}",
                "--log-level", "warning", "hello:asgi"],
}  # fmt: skip


@pytest.mark.parametrize("name", SERVERS)
def test_server_answers_curl_wrk_and_a_uvloop_client(play, name):
    play(f"python.{name}", lambda stage: converse(stage, SERVERS[name]))


def converse(stage: Stage, words: list[str]) -> str:
    port = stage.port()
    words = [word.format(port=port) for word in words]
    stage.serve(port, [PYTHON, *words], env={"PYTHONPATH": str(HERE / "programs")})
    body = stage.folder / "body"
    body.write_bytes(large())
    address = f"http://127.0.0.1:{port}"
    answers = [fetch(stage, f"{address}/hello"), fetch(stage, f"{address}/large")]
    answers.append(fetch(stage, f"{address}/echo", "--data-binary", f"@{body}", "-H", "Expect:"))
    answers.append(stage.python("fetching.py", port))
    answers.append(load(stage, f"{address}/hello", {"client": port}, connections=4))
    return "\n".join(answers)
