"""Programs on other runtimes: tokio, Boost.Asio, Java, Erlang and Go, each with its own client."""

from __future__ import annotations

import pytest
from case_run import INSTALLED, CaseRun
from web import fetch, load

RUST = INSTALLED / "rust/release"
ERLANG = ["erl", "-noshell", "-noinput", "-start_epmd", "false", "-pa", INSTALLED, "-run", "echo"]
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", INSTALLED, "Pages"]


def test_tokio_hyper_and_reqwest(compare):
    compare("runtimes.tokio", tokio)


def test_boost_asio(compare):
    compare("runtimes.asio", lambda case: pair(case, [INSTALLED / "asio_echo"]))


def test_java_http_server_and_client(compare):
    compare("runtimes.java", lambda case: pair(case, JAVA))


def test_erlang_gen_tcp(compare):
    compare("runtimes.erlang", lambda case: pair(case, ERLANG))


@pytest.mark.parametrize("linked", ["static", "dynamic"])
def test_go_serves_itself_and_others(compare, linked):
    compare(f"runtimes.go_{linked}", lambda case: go(case, INSTALLED / f"go_{linked}"))


def tokio(case: CaseRun) -> str:
    port, raw = case.port(), case.port()
    case.serve(raw, [RUST / "tokio_server", port, raw])
    client = case.start([RUST / "tokio_client", port, raw])
    case.await_mark("connected", client)
    case.look("client", port)
    case.look("raw", raw)
    case.mark("looked")
    answers = [case.finish(client), fetch(case, f"http://127.0.0.1:{port}/large")]
    answers.append(load(case, f"http://127.0.0.1:{port}/hello", {"client": port}))
    return "\n".join(answers)


def pair(case: CaseRun, words: list) -> str:
    """A program that is server or client by its first word."""
    port = case.port()
    case.serve(port, [*words, "server", port])
    client = case.start([*words, "client", port])
    case.await_mark("connected", client)
    case.look("client", port)
    case.mark("looked")
    return case.finish(client)


def go(case: CaseRun, program) -> str:
    port = case.port()
    server = case.serve(port, [program, "server", port])
    client = case.start([program, "client", port])
    case.await_mark("connected", client)
    case.look("client", port)
    case.mark("looked")
    answers = [case.finish(client)]
    answers.append(load(case, f"http://127.0.0.1:{port}/hello", {"wrk": port}))
    case.notice(server)
    return "\n".join(answers)
