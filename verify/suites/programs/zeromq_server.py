"""Four ZeroMQ sockets behind consecutive conversations on one process: `zeromq_server.py PORT`.

PORT answers requests; the ports of the publisher and of the pipeline's ends are the system's and
are told on request.
"""

import signal
import sys
import threading

import zmq

ITEMS = 3000


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    context = zmq.Context(io_threads=2)
    replies, news, work = (context.socket(kind) for kind in (zmq.REP, zmq.XPUB, zmq.PUSH))
    ports = {b"news": news.bind_to_random_port("tcp://127.0.0.1"), b"work": work.bind_to_random_port("tcp://127.0.0.1")}
    replies.bind(f"tcp://127.0.0.1:{sys.argv[1]}")
    threading.Thread(target=publish, args=(news,), daemon=True).start()
    threading.Thread(target=push, args=(work,), daemon=True).start()
    while True:
        parts = replies.recv_multipart()
        replies.send_multipart([b"%d" % ports[parts[0]]] if parts[0] in ports else parts[::-1])


def publish(news) -> None:
    """Everything to whoever subscribes, when he does."""
    while news.recv():
        for number in range(ITEMS):
            news.send(b"item %d" % number)


def push(work) -> None:
    """Work of growing size; waits for whoever takes it."""
    for number in range(ITEMS):
        work.send(b"x" * (number * 7))


main()
