"""gunicorn with processes and threads, uvicorn with uvloop and httptools, and clients on uvloop."""

from __future__ import annotations

import pytest
from case_run import HERE, PYTHON, CaseRun
from web import fetch, large, load

SERVERS = {
    "gunicorn_sync": ["-m", "gunicorn", "-w", "2", "-b", "127.0.0.1:{port}", "--no-control-socket", "hello:wsgi"],
    "gunicorn_threads": ["-m", "gunicorn", "-w", "1", "--threads", "8", "-b", "127.0.0.1:{port}",
                         "--no-control-socket", "hello:wsgi"],
    "uvicorn": ["-m", "uvicorn", "--loop", "uvloop", "--http", "httptools", "--port", "{port}",
                "--log-level", "warning", "hello:asgi"],
}  # fmt: skip


@pytest.mark.parametrize("name", SERVERS)
def test_server_answers_curl_wrk_and_a_uvloop_client(compare, name):
    compare(f"python.{name}", lambda case: converse(case, SERVERS[name]))


def converse(case: CaseRun, words: list[str]) -> str:
    port = case.port()
    words = [word.format(port=port) for word in words]
    case.serve(port, [PYTHON, *words], env={"PYTHONPATH": str(HERE / "programs")})
    body = case.folder / "body"
    body.write_bytes(large())
    address = f"http://127.0.0.1:{port}"
    answers = [fetch(case, f"{address}/hello"), fetch(case, f"{address}/large")]
    answers.append(fetch(case, f"{address}/echo", "--data-binary", f"@{body}", "-H", "Expect:"))
    answers.append(case.python("fetching.py", port))
    answers.append(load(case, f"{address}/hello", {"client": port}, connections=4))
    return "\n".join(answers)
