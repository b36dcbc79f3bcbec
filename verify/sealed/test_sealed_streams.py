"""The stub inside a sealed program: what its connection to the control plane may ask, and streams."""

from __future__ import annotations

import socket
import subprocess
import textwrap

import pytest
from heliostat_run import BINARY
from sealed_python import HELPERS, PYTHON, printed, server

pytestmark = pytest.mark.heliostat


def test_inside_the_control_plane_answers_only_what_the_policy_gives(harness):
    program = """
    import struct
    def ask(one, kind, body=b"", fds=()):
        record = (b"HELI" + struct.pack("<HHIHH", 1, kind, 7, 0, 0) + body).ljust(128, b"\\0")
        socket.send_fds(one, [record], fds) if fds else one.sendall(record)
        reply = socket.recv_fds(one, 4096, 16)[0]
        return struct.unpack_from("<HIH", reply, 6)[0::2]
    def address(port):
        return struct.pack("<BBH4s12x", 4, 0, port, b"\\x7f\\0\\0\\1")
    one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    one.connect(os.environ["HELIOSTAT_SOCKET"])
    print(ask(one, 1, struct.pack("<I4s", 4, b"evil")))
    for kind in (6, 7, 8, 9, 10, 13, 20, 21, 22):
        print(kind, ask(one, kind, address(1) + struct.pack("<HH", 1, 0) if kind == 21 else b""))
    print(ask(one, 4, address(int(sys.argv[1]))), ask(one, 4, address(int(sys.argv[2]))))
    stream = socket.socket(socket.AF_UNIX)
    print(attempt(stream.connect, os.environ["HELIOSTAT_SOCKET"]))
    """
    with server() as (granted, _), server() as (other, _):
        flags = ["--connect", f"127.0.0.1:{granted}"]
        lines = printed(flags, program, str(granted), str(other), environment=harness.environment())
    denied, not_found = (106, 2), (106, 1)
    assert lines[0] == "(101, 0)"
    assert lines[1:10] == [f"{kind} {denied}" for kind in (6, 7, 8, 9, 10, 13, 20, 21, 22)]
    assert lines[10] == f"{not_found} {denied}"
    assert lines[11] == "EPROTOTYPE"


def test_streams_to_a_granted_program_on_this_node_are_direct(harness, tmp_path):
    echo = """
    import socket, sys
    listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
    while True:
        one, _ = listener.accept()
        while data := one.recv(4096):
            one.sendall(data)
    """
    client = """
    import json, subprocess, time
    one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
    for _ in range(200):
        one.sendall(b"ping")
        assert one.recv(9) == b"ping"
    print("ready", flush=True)
    sys.stdin.read()
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    place = harness.environment()
    here = [PYTHON, "-c", textwrap.dedent(echo), str(port)]
    with subprocess.Popen([str(BINARY), "run", "--", *here], env=place) as echoing:
        while subprocess.call([PYTHON, "-c", f"import socket; socket.create_connection(('127.0.0.1', {port}))"]):
            pass
        command = [str(BINARY), "run", "--sealed", "--connect", f"127.0.0.1:{port}", "--", PYTHON, "-c"]
        command += [HELPERS + textwrap.dedent(client), str(port)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=place, text=True, **pipes) as program:
            assert program.stdout.readline() == "ready\n", program.stderr.read()
            sessions = harness.status()["sessions"]
            program.stdin.close()
        echoing.kill()
    restricted = [one for one in sessions if one["restricted_by"]]
    assert [one["counters"]["direct_streams"] for one in restricted] == [1], sessions


def test_a_grant_around_the_control_plane_leads_to_it_by_its_own_name_only(tmp_path):
    program = """
    place = os.environ["HELIOSTAT_SOCKET"]
    folder, name = os.path.split(place)
    def connect(path):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect(path)
    os.symlink(place, "alias")
    print(attempt(connect, f"{folder}/./{name}"), attempt(connect, "alias"), attempt(connect, f"control/{name}"))
    print(attempt(os.unlink, place), attempt(os.rename, place, "taken"), attempt(os.link, place, "second"))
    print(attempt(os.rename, "control", "moved"), attempt(connect, place))
    """
    (tmp_path / "control").mkdir()
    place = {"HELIOSTAT_SOCKET": str(tmp_path / "control/control.sock")}
    enter = f"import os; os.chdir({str(tmp_path)!r})\n"
    lines = printed(["--grant", f"{tmp_path}:rw"], enter + textwrap.dedent(program), environment=place, stub=True)
    assert lines == ["EACCES EACCES EACCES", "EROFS EROFS EXDEV", "EBUSY done"]
