"""Small clients and servers for the tests of `heliostat explain`, and how to wait for what it says."""

from __future__ import annotations

import sys

import kernel_view
from heliostat_run import Harness, Program, Side

ECHO = """
import os, socket, sys
forks = sys.argv[2] == "fork"
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    connection, _ = listener.accept()
    if forks and os.fork():
        connection.close()
        continue
    while part := connection.recv(4096):
        connection.send(part)
    os._exit(0)
"""
CLIENT = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
connection.send(b"0123456789")
assert connection.recv(4096) == b"0123456789"
print("answered", flush=True)
time.sleep(600)
"""


def echo(harness: Harness, mode: str = "stay", side: Side = Side.HELIOSTAT, **more) -> tuple[int, Program]:
    """A server that gives back what it gets: itself, or by a child forked for each connection."""
    port = kernel_view.free_port()
    server = harness.start(side, [sys.executable, "-c", ECHO, port, mode], name="echo", **more)
    kernel_view.wait_listening(port, server.process)
    return port, server


def client(harness: Harness, port: int, side: Side = Side.HELIOSTAT, text: str = CLIENT, **more) -> Program:
    """A client that has had its answer and stays connected."""
    program = harness.start(side, [sys.executable, "-c", text, port], name="client", **more)
    kernel_view.wait_until(lambda: "answered" in program.output(), 60, "an answer")
    return program


def connection(harness: Harness, pid: int) -> dict:
    """The only connection that a process has, once its report lists it."""
    found = kernel_view.wait_until(lambda: listed(harness, pid), 60, f"a connection of {pid}")
    assert len(found) == 1, found
    return found[0]


def listed(harness: Harness, pid: int) -> list[dict]:
    """The connections of a process; none while it has no session."""
    try:
        return harness.explain(pid)
    except RuntimeError:
        return []


def children(pid: int) -> list[int]:
    """The children of a process."""
    with open(f"/proc/{pid}/task/{pid}/children") as numbers:
        return [int(number) for number in numbers.read().split()]
