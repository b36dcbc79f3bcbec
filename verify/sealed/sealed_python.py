"""Small Python programs run sealed, and servers for them to reach or not to reach."""

from __future__ import annotations

import os
import socket
import subprocess
import textwrap
import threading
from contextlib import contextmanager

from heliostat_run import BINARY

PYTHON = "/usr/bin/python3"
HELPERS = """
import errno, os, socket, sys, threading
def attempt(what, *arguments):
    try:
        what(*arguments)
        return "done"
    except OSError as error:
        return errno.errorcode[error.errno]
"""


def sealed(flags: list[str], program: str, *arguments: str, environment=None, timeout=60, stub=False):
    """Runs a Python program sealed; its result, with what it printed as text."""
    text = HELPERS + textwrap.dedent(program)
    command = [str(BINARY), "run", "--sealed", *flags, "--", PYTHON, "-c", text, *arguments]
    surroundings = dict(os.environ, **(environment or {}))
    if not stub:
        # A stub that is not there: everything goes by the supervisor.
        surroundings["HELIOSTAT_STUB"] = "/nonexistent"
    return subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=timeout)


def printed(*arguments, **keywords) -> list[str]:
    """The lines that a sealed program printed; it must have ended well."""
    done = sealed(*arguments, **keywords)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@contextmanager
def server(family=socket.AF_INET, address="127.0.0.1"):
    """A listener that answers each connection with its name; (port, connections so far)."""
    listener = socket.create_server((address, 0), family=family)
    accepted: list[int] = []

    def answer():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            accepted.append(1)
            connection.sendall(b"hello")
            connection.close()

    threading.Thread(target=answer, daemon=True).start()
    try:
        yield listener.getsockname()[1], accepted
    finally:
        listener.close()
