"""Workers of a shared port, and clients that count what became of every connection."""

from __future__ import annotations

import collections
import json
import socket
import sys
import threading
import time
from dataclasses import dataclass, field

import kernel_view
from heliostat_run import BINARY, Harness, Program, Side

# Each answers with its process number, so that a client knows who served it. `hello` comes at once,
# the rest after so many milliseconds as the request says.
ANSWER = """
import os, socket, sys, time
port, hello = int(sys.argv[1]), b"%d\\n" % os.getpid()
def serve(connection):
    connection.sendall(hello)
    wanted = connection.recv(4096).split()
    time.sleep(int(wanted[0]) / 1000 if wanted else 0)
    connection.sendall(b"done\\n")
    connection.close()
"""
LISTEN = """
listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
if len(sys.argv) > 2 and sys.argv[2] == "reuseport":
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
listener.bind(("127.0.0.1", port))
listener.listen(512)
assert listener.getsockname() == ("127.0.0.1", port), listener.getsockname()
assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
assert listener.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL) == socket.IPPROTO_TCP
"""
BLOCKING = ANSWER + LISTEN + """
while True:
    connection, peer = listener.accept()
    assert peer == connection.getpeername()
    serve(connection)
"""
TIMED = ANSWER + LISTEN + """
listener.settimeout(0.2)
while True:
    try:
        serve(listener.accept()[0])
    except TimeoutError:
        pass
"""
LOOP = ANSWER + LISTEN + """
import selectors
selector = getattr(selectors, sys.argv[3])()
listener.setblocking(False)
selector.register(listener, selectors.EVENT_READ)
while True:
    for _ in selector.select():
        try:
            while True:
                connection = listener.accept()[0]
                connection.setblocking(True)
                serve(connection)
        except BlockingIOError:
            pass
"""
EDGE = ANSWER + LISTEN + """
import select
epoll = select.epoll()
listener.setblocking(False)
epoll.register(listener, select.EPOLLIN | select.EPOLLET)
while True:
    epoll.poll()
    try:
        while True:
            connection = listener.accept()[0]
            connection.setblocking(True)
            serve(connection)
    except BlockingIOError:
        pass
"""
# Many connections at once, the silent ones too.
ASYNC = """
import asyncio, os, sys
async def serve(reader, writer):
    try:
        writer.write(b"%d\\n" % os.getpid())
        wanted = (await reader.readline()).split()
        await asyncio.sleep(int(wanted[0]) / 1000 if wanted else 0)
        writer.write(b"done\\n")
        await writer.drain()
    except ConnectionError:
        pass
    writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=512)
    await server.serve_forever()
asyncio.run(main())
"""
FORKS = ANSWER + LISTEN + """
for _ in range(int(sys.argv[3])):
    if os.fork() == 0:
        hello = b"%d\\n" % os.getpid()
        while True:
            serve(listener.accept()[0])
while True:
    time.sleep(1)
"""
# It listens and never accepts.
IDLE = ANSWER + LISTEN + """
import select
poll = select.poll()
poll.register(listener, select.POLLIN)
while True:
    poll.poll()
    time.sleep(0.2)
"""
KINDS = {
    "blocking": (BLOCKING, []),
    "timed": (TIMED, []),
    "poll": (LOOP, ["-", "PollSelector"]),
    "select": (LOOP, ["-", "SelectSelector"]),
    "epoll": (LOOP, ["-", "EpollSelector"]),
    "edge": (EDGE, []),
    "asyncio": (ASYNC, []),
    "reuseport": (BLOCKING, ["reuseport"]),
}


def start_worker(harness: Harness, port: int, rule: str, script: str, *words: str) -> Program:
    """One worker, which shares what it listens on."""
    command = [BINARY, "run", "--share", f"{port}:{rule}", "--", sys.executable, "-c", script, port, *words]
    return harness.start(Side.PLAIN, command, name="worker")


def start_workers(harness: Harness, count: int, rule: str = "round-robin", kind: str = "blocking") -> tuple[int, list[Program]]:
    """So many workers of a free port; all are ready."""
    port = kernel_view.free_port()
    script, words = KINDS[kind]
    workers = [start_worker(harness, port, rule, script, *words) for _ in range(count)]
    wait_ready(harness, port, count)
    return port, workers


def shared(harness: Harness, port: int) -> dict:
    """What the control plane says of the listener of a port; nothing where there is none."""
    found = [it for it in harness.status()["listeners"] if it["address"] == f"127.0.0.1:{port}"]
    return found[0] if found else {"workers": []}


def wait_ready(harness: Harness, port: int, count: int, state: str = "ready") -> None:
    """Waits until so many workers wait for connections."""

    def are_ready() -> bool:
        return sum(it["state"] == state for it in shared(harness, port)["workers"]) >= count

    try:
        kernel_view.wait_until(are_ready, 30, f"{count} workers that are {state}")
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{told(harness, port)}") from None


def told(harness: Harness, port: int) -> str:
    """What is known of a port and of every program that was started, for who has waited in vain."""
    lines = [json.dumps(shared(harness, port)), f"listened on: {port in kernel_view.listening_ports()}"]
    for program in harness.programs:
        status = program.process.poll()
        state = "runs" if status is None else f"ended with status {status}"
        if status is None:
            waits = [f"{it.name}: {kernel_view.waits_in(it)}" for it in kernel_view.tasks(program.pid)]
            state += f" ({', '.join(waits)})"
        lines.append(f"{program.name} {program.pid} {state}\n{program.output()[-500:]}{program.errors()[-1500:]}")
    return "\n".join(lines)


def ask(port: int, work_ms: int = 0, timeout: float = 30.0) -> int:
    """One connection: who served it."""
    with socket.create_connection(("127.0.0.1", port), timeout) as client:
        with client.makefile("rb") as lines:
            pid = int(lines.readline())
            client.sendall(b"%d\n" % work_ms)
            if lines.readline() != b"done\n":
                raise ConnectionError(f"process {pid} ended before it was done")
            return pid


@dataclass
class Load:
    """Clients that connect one after the other, each from a thread of its own."""

    port: int
    threads: int = 8
    work_ms: int = 5
    served: collections.Counter = field(default_factory=collections.Counter)
    failed: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _running: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Load:
        self._running = [threading.Thread(target=self._run) for _ in range(self.threads)]
        for thread in self._running:
            thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._stop.set()
        for thread in self._running:
            thread.join(60)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.served[ask(self.port, self.work_ms)] += 1
            except (OSError, ValueError) as error:
                self.failed.append(repr(error))

    def go_on(self, count: int) -> None:
        """Waits until so many more were served."""
        wanted = self.served.total() + count
        kernel_view.wait_until(lambda: self.served.total() >= wanted, 60, f"{count} more connections")


def settle(seconds: float = 0.3) -> None:
    """Lets what was begun come to its end."""
    time.sleep(seconds)
