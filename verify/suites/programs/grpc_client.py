"""A gRPC client: large messages, four kinds of calls, errors, cancelled calls: `grpc_client.py PORT`."""

import sys
from concurrent import futures

import grpc
import marks

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
LARGE = bytes(range(256)) * 20_000


def main() -> None:
    with grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}", options=OPTIONS) as channel:
        once = channel.unary_unary("/Suite/Once")
        answers = channel.unary_stream("/Suite/ManyAnswers")
        requests = channel.stream_unary("/Suite/ManyRequests")
        both = channel.stream_stream("/Suite/Both")
        print(once(b"hello", timeout=30))
        marks.make("connected")
        marks.wait("looked")
        print("large", once(LARGE, timeout=30) == LARGE[::-1])
        with futures.ThreadPoolExecutor(16) as threads:
            said = list(threads.map(lambda number: once(b"%d" % number, timeout=30), range(600)))
        print("at once", said == [(b"%d" % number)[::-1] for number in range(600)])
        print("answers", sum(len(answer) for answer in answers(b"3000", timeout=30)))
        print("requests", requests((b"x" * number for number in range(1500)), timeout=30))
        print("both", b"".join(both((b"%d" % number for number in range(500)), timeout=30))[-20:])
        try:
            once(b"fail", timeout=30)
        except grpc.RpcError as error:
            print("error", error.code(), error.details())
        endless = answers(b"100000000")
        print("cancelled", next(endless)[:1], endless.cancel(), once(b"still here", timeout=30))


main()
