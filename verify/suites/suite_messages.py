"""gRPC and ZeroMQ, whose libraries have threads and event loops of their own."""

from __future__ import annotations

from case_run import HERE, PYTHON, CaseRun


def test_grpc_calls_and_streams_in_all_four_ways(compare):
    compare("messages.grpc", lambda case: converse(case, "grpc_server.py", "grpc_client.py"))


def test_zeromq_requests_publishes_and_pipelines(compare):
    compare("messages.zeromq", lambda case: converse(case, "zeromq_server.py", "zeromq_client.py"))


def converse(case: CaseRun, server: str, client: str) -> str:
    """A server and a client of programs/, whose connections are looked at once the client asks for it."""
    port = case.port()
    case.serve(port, [PYTHON, HERE / "programs" / server, port])
    program = case.start_python(client, port)
    case.await_mark("connected", program)
    case.look("client", port)
    case.mark("looked")
    return case.finish(program)
