"""Node 20, 22 and 24: an HTTP server and a client with kept connections, files, pipes and half closes."""

from __future__ import annotations

import pytest
from case_run import HERE, INSTALLED, CaseRun
from web import fetch, load

VERSIONS = ["20", "22", "24"]


@pytest.mark.parametrize("version", VERSIONS)
def test_server_and_client_exchange_pages_files_and_streams(compare, version):
    compare(f"node.http_{version}", lambda case: converse(case, node(version)))


@pytest.mark.parametrize("version", VERSIONS)
def test_cluster_hands_connections_to_its_workers(compare, version):
    compare(f"node.cluster_{version}", lambda case: share(case, node(version)))


def converse(case: CaseRun, program) -> str:
    port, raw = case.port(), case.port()
    case.serve(raw, [program, script("server.js"), port, raw])
    address = f"http://127.0.0.1:{port}"
    answers = [fetch(case, f"{address}/file")]
    client = case.start([program, script("client.js"), port, raw])
    case.await_mark("connected", client)
    case.look("client", port)
    case.look("raw", raw)
    case.mark("looked")
    answers.append(case.finish(client))
    answers.append(load(case, f"{address}/hello", {"client": port}))
    return "\n".join(answers)


def share(case: CaseRun, program) -> str:
    port = case.port()
    case.serve(port, [program, script("cluster.js"), port])
    address = f"http://127.0.0.1:{port}"
    answers = [fetch(case, f"{address}/hello"), fetch(case, f"{address}/large")]
    answers.append(load(case, f"{address}/hello", {"client": port}))
    return "\n".join(answers)


def node(version: str):
    return INSTALLED / f"node_modules/node{version}/bin/node"


def script(name: str):
    return HERE / "programs" / name
