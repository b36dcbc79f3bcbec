"""A ZeroMQ client of zeromq_server.py: `zeromq_client.py PORT`."""

import sys

import marks
import zmq

ITEMS = 3000
LARGE = bytes(range(256)) * 30_000


def main() -> None:
    context = zmq.Context()
    requests = connect(context, zmq.REQ, sys.argv[1])
    print(ask(requests, b"hello", b"world"))
    marks.make("connected")
    marks.wait("looked")
    print("large", ask(requests, b"a", LARGE) == [LARGE, b"a"])
    print("in turn", sum(len(ask(requests, b"%d" % number)[0]) for number in range(1000)))
    news = connect(context, zmq.SUB, ask(requests, b"news")[0].decode())
    news.setsockopt(zmq.RCVHWM, 0)
    news.setsockopt(zmq.SUBSCRIBE, b"item")
    heard = [news.recv() for _ in range(100)]
    print("news", heard == [b"item %d" % number for number in range(100)])
    work = connect(context, zmq.PULL, ask(requests, b"work")[0].decode())
    print("work", [len(work.recv()) for _ in range(ITEMS)] == [number * 7 for number in range(ITEMS)])
    context.destroy(linger=0)


def connect(context, kind: int, port: str):
    socket = context.socket(kind)
    socket.setsockopt(zmq.RCVTIMEO, 30_000)
    socket.connect(f"tcp://127.0.0.1:{port}")
    return socket


def ask(requests, *parts: bytes) -> list[bytes]:
    requests.send_multipart(parts)
    return requests.recv_multipart()


main()
