"""Node 20, 22 and 24: an HTTP server and a client with kept connections, files, pipes and half closes."""

from __future__ import annotations

import pytest
from stage import HERE, INSTALLED, Stage
from web import fetch, load

VERSIONS = ["20", "22", "24"]


@pytest.mark.parametrize("version", VERSIONS)
def test_server_and_client_exchange_pages_files_and_streams(play, version):
    play(f"node.http_{version}", lambda stage: converse(stage, node(version)))


@pytest.mark.parametrize("version", VERSIONS)
def test_cluster_hands_connections_to_its_workers(play, version):
    play(f"node.cluster_{version}", lambda stage: share(stage, node(version)))


def converse(stage: Stage, program) -> str:
    port, raw = stage.port(), stage.port()
    stage.serve(raw, [program, script("server.js"), port, raw])
    address = f"http://127.0.0.1:{port}"
    answers = [fetch(stage, f"{address}/file")]
    client = stage.start([program, script("client.js"), port, raw])
    stage.await_mark("connected", client)
    stage.look("client", port)
    stage.look("raw", raw)
    stage.mark("looked")
    answers.append(stage.finish(client))
    answers.append(load(stage, f"{address}/hello", {"client": port}))
    return "\n".join(answers)


def share(stage: Stage, program) -> str:
    port = stage.port()
    stage.serve(port, [program, script("cluster.js"), port])
    address = f"http://127.0.0.1:{port}"
    answers = [fetch(stage, f"{address}/hello"), fetch(stage, f"{address}/large")]
    answers.append(load(stage, f"{address}/hello", {"client": port}))
    return "\n".join(answers)


def node(version: str):
    return INSTALLED / f"node_modules/node{version}/bin/node"


def script(name: str):
    return HERE / "programs" / name
