"""A function that four processes serve, called by another one; one of the four dies amid its calls.

Each call goes to a server that is free. Who gets no reply is told whether the function may have run, and
this one, which only computes, may be called again in any case.
"""

import multiprocessing
import os

import heliostat

NAME, SERVERS, CALLS = "example/factorial", 4, 200


def serve(ready: multiprocessing.Barrier, mortal: bool) -> None:
    with heliostat.rpc.open().serve(NAME, request_bytes=8, reply_bytes=4096) as service:
        ready.wait()
        for number, call in enumerate(service):
            if mortal and number == 10:
                os._exit(1)
            product = 1
            for factor in range(2, int.from_bytes(call.payload) + 1):
                product *= factor
            call.reply(product.to_bytes(4096))


def ask(function: heliostat.rpc.Function, number: int) -> tuple[int, int]:
    """The answer, and in how many tries."""
    for tries in range(1, 10):
        try:
            return int.from_bytes(function.call(number.to_bytes(8), timeout=10.0)), tries
        except heliostat.Unanswered:
            continue
    raise RuntimeError("nobody answers")


def main() -> None:
    ready = multiprocessing.Barrier(SERVERS + 1)
    servers = [multiprocessing.Process(target=serve, args=(ready, at == 0), daemon=True) for at in range(SERVERS)]
    for server in servers:
        server.start()
    ready.wait()
    with heliostat.rpc.open().find(NAME) as function:
        answers = [ask(function, number) for number in range(1, CALLS + 1)]
    for number, (answer, _) in enumerate(answers[1:], 2):
        assert answer == number * answers[number - 2][0]
    again = sum(tries - 1 for _, tries in answers)
    print(f"{CALLS} answers, {again} after a server's death")
    for server in servers:
        server.terminate()


if __name__ == "__main__":
    main()
