"""A gRPC server without generated code, whose messages are bytes: `grpc_server.py PORT`."""

import signal
import sys
import threading
from concurrent import futures

import grpc


def once(request, context):
    if request == b"fail":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such thing")
    return request[::-1]


def many_answers(request, _context):
    for number in range(int(request)):
        yield b"%d" % number * 100


def many_requests(requests, _context):
    return b"%d" % sum(len(request) for request in requests)


def both(requests, _context):
    for request in requests:
        yield request + b"!"


METHODS = {
    "Once": grpc.unary_unary_rpc_method_handler(once),
    "ManyAnswers": grpc.unary_stream_rpc_method_handler(many_answers),
    "ManyRequests": grpc.stream_unary_rpc_method_handler(many_requests),
    "Both": grpc.stream_stream_rpc_method_handler(both),
}


def main() -> None:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    server = grpc.server(futures.ThreadPoolExecutor(8), options=options)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Suite", METHODS)])
    server.add_insecure_port(f"127.0.0.1:{sys.argv[1]}")
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    server.start()
    ended.wait()
    server.stop(1).wait()


main()
