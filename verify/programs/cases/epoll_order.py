"""The order in which epoll tells of connections from several processes: the kernel's, event by event.

The client's processes write one after the other, each when the one before has written; the server
waits when it is told to, over a local socket that no stub looks at. What is written, how much of it
is read and how many events are asked for comes from a seeded generator, so that every run asks the
same, and the transcript is the answer.
"""

from __future__ import annotations

import os
import random
import select
import socket
import time

from pair import Talk

WRITERS, EACH, ROUNDS = 4, 2, 120
CONNECTIONS = WRITERS * EACH
# Of each connection's writes between two waits, so many are told apart.
WRITES_MAX = 3


def writer(talk: Talk, orders: int, done: int) -> None:
    """One process of the client: connects and writes when it is told to."""
    connections = []
    while order := os.read(orders, 1):
        if order == b"c":
            connections.append(socket.create_connection(("127.0.0.1", talk.port)))
            # What is written has arrived.
            connections[-1].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            connections[order[0] - ord("0")].sendall(b"abcd")
        os.write(done, b"x")


class Writers:
    """The client's processes."""

    def __init__(self, talk: Talk):
        self.pipes = []
        for _ in range(WRITERS):
            orders, done = os.pipe(), os.pipe()
            if os.fork() == 0:
                os.close(orders[1])
                for other, _ in self.pipes:
                    os.close(other)
                writer(talk, orders[0], done[1])
                os._exit(0)
            os.close(orders[0])
            self.pipes.append((orders[1], done[0]))

    def order(self, process: int, what: bytes) -> None:
        orders, done = self.pipes[process]
        os.write(orders, what)
        os.read(done, 1)

    def write(self, connection: int) -> None:
        self.order(connection // EACH, b"%d" % (connection % EACH))

    def end(self) -> None:
        for orders, _ in self.pipes:
            os.close(orders)
        for _ in self.pipes:
            os.wait()


def serve(talk: Talk, flags: int) -> None:
    """Does what the client says: accepts, waits, and reads of what was told."""
    listener, watch = talk.listen(), select.epoll()
    with socket.socket(socket.AF_UNIX) as local:
        local.bind(str(talk.folder / "orders"))
        local.listen()
        talk.mark("ready")
        orders = local.accept()[0].makefile("rw", buffering=1)
    connections = []
    names: dict[int, int] = {}
    for line in orders:
        word, *numbers = line.split()
        if word == "accept":
            connections.append(listener.accept()[0])
            connections[-1].setblocking(False)
            names[connections[-1].fileno()] = len(connections) - 1
            watch.register(connections[-1], select.EPOLLIN | flags)
        elif word == "wait":
            limit, *reads = map(int, numbers)
            # A negative limit asks for a wait that is over at once.
            told = [names[number] for number, _ in watch.poll(20 if limit > 0 else 0, abs(limit))]
            talk.say(line.strip(), "->", *told)
            for name in told:
                if reads[name]:
                    talk.outcome(connections[name].recv, reads[name])
                if flags & select.EPOLLONESHOT and reads[name] != 1:
                    watch.modify(connections[name], select.EPOLLIN | flags)
        orders.write("done\n")


class Server:
    """The server as the client tells it what to do."""

    def __init__(self, talk: Talk, writers: Writers):
        talk.await_mark("ready")
        local = socket.socket(socket.AF_UNIX)
        local.connect(str(talk.folder / "orders"))
        self.orders = local.makefile("rw", buffering=1)
        for number in range(CONNECTIONS):
            writers.order(number // EACH, b"c")
            self.tell("accept")

    def begin(self, line: str) -> None:
        self.orders.write(line + "\n")

    def tell(self, line: str) -> None:
        self.begin(line)
        self.orders.readline()


def drive(talk: Talk, seed: int) -> None:
    """The client's side: rounds of writes and a wait."""
    chance, writers = random.Random(seed), Writers(talk)
    server = Server(talk, writers)
    for _ in range(ROUNDS):
        written: list[int] = []
        for _ in range(chance.randrange(10)):
            connection = chance.randrange(CONNECTIONS)
            if written.count(connection) < WRITES_MAX:
                writers.write(connection)
                written.append(connection)
        limit = -chance.choice([1, 2, CONNECTIONS])
        reads = [chance.choice([0, 1, 100, 100]) for _ in range(CONNECTIONS)]
        server.tell(" ".join(map(str, ["wait", limit, *reads])))
    writers.end()
    talk.say("driven", ROUNDS)


class OrderLevel:
    """Level-triggered."""

    def server(talk: Talk):
        serve(talk, 0)

    def client(talk: Talk):
        drive(talk, 1)


class OrderEdge:
    """Edge-triggered."""

    def server(talk: Talk):
        serve(talk, select.EPOLLET)

    def client(talk: Talk):
        drive(talk, 2)


class OrderOneShot:
    """One-shot, level-triggered; not all of them are armed again."""

    def server(talk: Talk):
        serve(talk, select.EPOLLONESHOT)

    def client(talk: Talk):
        drive(talk, 3)


class OrderOneShotEdge:
    """One-shot, edge-triggered."""

    def server(talk: Talk):
        serve(talk, select.EPOLLONESHOT | select.EPOLLET)

    def client(talk: Talk):
        drive(talk, 4)


class OrderAfterSleep:
    """A server that sleeps is woken by each process in turn; what follows is told in its order."""

    def server(talk: Talk):
        serve(talk, 0)

    def client(talk: Talk):
        chance, writers = random.Random(5), Writers(talk)
        server = Server(talk, writers)
        every = " ".join(["100"] * CONNECTIONS)
        for _ in range(10):
            first, *others = chance.sample(range(CONNECTIONS), 5)
            server.begin(f"wait 1 {every}")
            time.sleep(0.05)
            writers.write(first)
            server.orders.readline()
            for connection in others:
                writers.write(connection)
            server.tell(f"wait -{CONNECTIONS} {every}")
        writers.end()
        talk.say("driven")
