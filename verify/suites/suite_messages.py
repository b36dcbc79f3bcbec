"""gRPC and ZeroMQ, whose libraries have threads and event loops of their own."""

from __future__ import annotations

from stage import HERE, PYTHON, Stage


def test_grpc_calls_and_streams_in_all_four_ways(play):
    play("messages.grpc", lambda stage: converse(stage, "grpc_server.py", "grpc_client.py"))


def test_zeromq_requests_publishes_and_pipelines(play):
    play("messages.zeromq", lambda stage: converse(stage, "zeromq_server.py", "zeromq_client.py"))


def converse(stage: Stage, server: str, client: str) -> str:
    """A server and a client of programs/, whose connections are looked at once the client asks for it."""
    port = stage.port()
    stage.serve(port, [PYTHON, HERE / "programs" / server, port])
    program = stage.start_python(client, port)
    stage.await_mark("connected", program)
    stage.look("client", port)
    stage.mark("looked")
    return stage.finish(program)
