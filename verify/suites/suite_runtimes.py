"""Programs on other runtimes: tokio, Boost.Asio, Java, Erlang and Go, each with its own client."""

from __future__ import annotations

import pytest
from stage import INSTALLED, Stage
from web import fetch, load

RUST = INSTALLED / "rust/release"
ERLANG = ["erl", "-noshell", "-noinput", "-start_epmd", "false", "-pa", INSTALLED, "-run", "echo"]
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", INSTALLED, "Pages"]


def test_tokio_hyper_and_reqwest(play):
    play("runtimes.tokio", tokio)


def test_boost_asio(play):
    play("runtimes.asio", lambda stage: pair(stage, [INSTALLED / "asio_echo"]))


def test_java_http_server_and_client(play):
    play("runtimes.java", lambda stage: pair(stage, JAVA))


def test_erlang_gen_tcp(play):
    play("runtimes.erlang", lambda stage: pair(stage, ERLANG))


@pytest.mark.parametrize("linked", ["static", "dynamic"])
def test_go_serves_itself_and_others(play, linked):
    play(f"runtimes.go_{linked}", lambda stage: go(stage, INSTALLED / f"go_{linked}"))


def tokio(stage: Stage) -> str:
    port, raw = stage.port(), stage.port()
    stage.serve(raw, [RUST / "tokio_server", port, raw])
    client = stage.start([RUST / "tokio_client", port, raw])
    stage.await_mark("connected", client)
    stage.look("client", port)
    stage.look("raw", raw)
    stage.mark("looked")
    answers = [stage.finish(client), fetch(stage, f"http://127.0.0.1:{port}/large")]
    answers.append(load(stage, f"http://127.0.0.1:{port}/hello", {"client": port}))
    return "\n".join(answers)


def pair(stage: Stage, words: list) -> str:
    """A program that is server or client by its first word."""
    port = stage.port()
    stage.serve(port, [*words, "server", port])
    client = stage.start([*words, "client", port])
    stage.await_mark("connected", client)
    stage.look("client", port)
    stage.mark("looked")
    return stage.finish(client)


def go(stage: Stage, program) -> str:
    port = stage.port()
    server = stage.serve(port, [program, "server", port])
    client = stage.start([program, "client", port])
    stage.await_mark("connected", client)
    stage.look("client", port)
    stage.mark("looked")
    answers = [stage.finish(client)]
    answers.append(load(stage, f"http://127.0.0.1:{port}/hello", {"wrk": port}))
    stage.notice(server)
    return "\n".join(answers)
