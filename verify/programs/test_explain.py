"""`heliostat explain` tells of each connection what both ends together know of it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import kernel_view
import pytest
from explained import children, client, connection, echo, listed
from heliostat_run import BINARY, Harness, Side

pytestmark = pytest.mark.heliostat


def test_a_client_that_is_native_by_option_is_named_with_its_reason(harness):
    port, server = echo(harness)
    other = client(harness, port, env={"HELIOSTAT_DIRECT": "0"})
    found = connection(harness, server.pid)
    assert (found["path"], found["reason_text"]) == ("native", "at the other end: switched off by option")
    assert [(one["pid"], one["reason"]) for one in found["peers"]] == [(other.pid, "Disabled")]


def test_a_client_that_is_not_ours_is_told_from_one_that_is(harness):
    port, server = echo(harness)
    client(harness, port, Side.PLAIN)
    found = connection(harness, server.pid)
    assert (found["reason"], found["peers"]) == ("PeerNotOurs", [])


def test_a_direct_connection_names_the_process_at_its_other_end(harness):
    port, server = echo(harness)
    other = client(harness, port)
    here, there = connection(harness, server.pid), connection(harness, other.pid)
    assert [one["pid"] for one in here["peers"]] == [other.pid]
    assert [(one["pid"], one["path"]) for one in there["peers"]] == [(server.pid, "direct")]


@pytest.mark.parametrize("how", ["direct", "plain"])
def test_a_forked_child_lists_the_connection_it_serves_with_its_bytes(harness, how):
    port, server = echo(harness, "fork")
    client(harness, port, Side.HELIOSTAT if how == "direct" else Side.PLAIN)
    [child] = children(server.pid)
    found = connection(harness, child)
    assert found["path"] == ("direct" if how == "direct" else "native")
    kernel_view.wait_until(lambda: connection(harness, child)["sent"] == 10, 60, "ten bytes")
    assert (connection(harness, child)["received"], found["accepted"]) == (10, True)
    assert listed(harness, server.pid) == []
    [session] = [one for one in harness.status()["sessions"] if one["pid"] == child]
    assert session["connections"] == {"direct": int(how == "direct"), "native": int(how == "plain")}


REFUSED = """
import socket, sys
address = ("127.0.0.1", int(sys.argv[1]))
if sys.argv[2] == "ended":
    first = socket.create_connection(address)
    for _ in range(3):  # the first is the kernel's, then the rings are begun
        first.sendall(b"x")
        assert first.recv(1) == b"x"
print("ready", flush=True)
sys.stdin.read()
for patience in (None, 10):
    try:
        socket.create_connection(address, timeout=patience)
    except ConnectionRefusedError:
        print("refused", flush=True)
"""


@pytest.mark.parametrize("listener", ["ended", "never there"])
def test_a_refused_connection_is_not_counted_as_native(harness, listener):
    port, before = kernel_view.free_port(), counted_natives(harness)
    if listener == "ended":
        port, server = echo(harness)
    words = [sys.executable, "-c", REFUSED, port, listener]
    program = harness.start(Side.HELIOSTAT, words, stdin=subprocess.PIPE)
    kernel_view.wait_until(lambda: "ready" in program.output(), 60, "its first connection")
    if listener == "ended":
        server.kill()
        server.wait()
    program.process.stdin.close()
    assert (program.wait(), program.output().count("refused")) == (0, 2), program.errors()
    assert counted_natives(harness) == before


def counted_natives(harness) -> list[str]:
    """How many connections are native for each reason, in words."""
    return sorted(line for line in harness.call("metrics").splitlines() if "stub_native_reasons_total{" in line)


def asked(harness, *words, **more) -> subprocess.CompletedProcess:
    """One `heliostat` command, which may fail."""
    command = [str(BINARY), *map(str, words)]
    more.setdefault("env", harness.environment())
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, **more)


def test_a_plain_client_is_named_by_what_the_kernel_knows(harness):
    port, server = echo(harness)
    other = client(harness, port, Side.PLAIN)
    assert connection(harness, server.pid)["outside"]["pid"] == other.pid
    shown = harness.call("explain", str(server.pid))
    assert f"({other.pid})" in shown and "the other end is not under Heliostat" in shown


def test_a_closed_other_end_is_not_said_to_be_anybody(harness):
    port = kernel_view.free_port()
    text = "import socket, time; l = socket.create_server(('127.0.0.1', %d)); c = l.accept(); time.sleep(600)" % port
    server = harness.start(Side.HELIOSTAT, [sys.executable, "-c", text])
    kernel_view.wait_listening(port, server.process)
    brief = "import socket; socket.create_connection(('127.0.0.1', %d)).sendall(b'x')" % port
    harness.run(Side.PLAIN, [sys.executable, "-c", brief])
    assert connection(harness, server.pid)["reason_text"] == "not known any more: the other end is closed"


def test_a_client_of_another_control_plane_is_not_called_foreign(harness):
    port, server = echo(harness)
    with Harness() as neighbour:
        client(neighbour, port)
        text = connection(harness, server.pid)["reason_text"]
        assert "its control plane is" in text and str(neighbour.folder) in text


def test_explain_without_a_session_says_why(harness):
    sleep = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
    plain, ours = harness.start(Side.PLAIN, sleep), harness.start(Side.HELIOSTAT, sleep)
    for program in (plain, ours):
        kernel_view.wait_until(lambda one=program: "up" in one.output(), 60, "a start")
    gone = harness.run(Side.PLAIN, ["true"])
    reasons = {
        plain.pid: "was not started with `heliostat run`",
        ours.pid: "has neither connected nor listened so far",
        gone.pid: "there is no such process",
    }
    for pid, why in reasons.items():
        done = asked(harness, "explain", pid)
        assert done.returncode == 1 and why in done.stderr, done.stderr


def test_a_static_program_is_explained_as_one(harness):
    source = harness.folder / "wait.c"
    source.write_text("#include <unistd.h>\nint main() { pause(); }\n")
    subprocess.run(["gcc", "-static", "-o", harness.folder / "wait", source], check=True)
    program = harness.start(Side.HELIOSTAT, [harness.folder / "wait"])
    kernel_view.wait_until(lambda: kernel_view.command_name(program.pid) == "wait", 60, "a start")
    assert "native as a whole: it is statically linked" in asked(harness, "explain", program.pid).stderr


def test_a_session_that_ended_with_its_control_plane_is_said_to_have(harness):
    with Harness() as own:
        _, server = echo(own)
        kernel_view.wait_until(lambda: own.status()["sessions"], 60, "a session")
        own.call("stop")
        own.call("run", "--", "/bin/true")
        assert "its session has ended" in asked(own, "explain", server.pid).stderr


def test_a_program_that_cannot_be_patched_has_a_session_that_says_so(harness):
    library = harness.folder / "first.so"
    (harness.folder / "first.c").write_text(
        "#include <pthread.h>\n#include <unistd.h>\nstatic void *stay(void *it) { pause(); return it; }\n"
        "__attribute__((constructor)) static void start(void) { pthread_t one; pthread_create(&one, 0, stay, 0); }\n"
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, harness.folder / "first.c"], check=True)
    preloaded = f"{BINARY.with_name('libheliostat_posix.so')}:{library}"
    program = harness.start(Side.HELIOSTAT, ["sleep", "600"], env={"LD_PRELOAD": preloaded})
    # Before it is `sleep` the process is another program, which has a session too.
    sentence = "native as a whole: the program's system calls cannot be caught"
    kernel_view.wait_until(lambda: sentence in asked(harness, "explain", program.pid).stdout, 60, "the sentence")


def test_a_tree_shows_descendants_with_and_without_sessions(harness):
    port = kernel_view.free_port()
    server = "import socket, time; s = socket.create_server(('127.0.0.1', %d)); time.sleep(600)" % port
    words = ["sh", "-c", f"{sys.executable} -c \"{server}\" & sleep 600 & wait"]
    shell = harness.start(Side.HELIOSTAT, words)
    kernel_view.wait_listening(port, shell.process)
    kernel_view.wait_until(lambda: len(children(shell.pid)) == 2, 60, "both children")
    told = json.loads(harness.call("explain", str(shell.pid), "--tree", "--json"))
    below = {one["pid"]: one for one in told["descendants"]}
    assert set(below) == set(children(shell.pid)) and {one["parent"] for one in below.values()} == {shell.pid}
    without = [one["no_session"] for one in below.values() if "no_session" in one]
    assert len(without) == 1 and "has neither connected nor listened so far" in without[0]


def test_a_process_mentions_how_many_it_has_started(harness):
    port, server = echo(harness, "fork")
    client(harness, port)
    connection(harness, children(server.pid)[0])
    assert "1 process(es) started by it" in harness.call("explain", str(server.pid))


MANY = """
import resource, socket, sys, time
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
role, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
if role == "server":
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    while True:
        held.append(listener.accept()[0])
        held[-1].recv(1)  # what nobody uses may stay undecided
for _ in range(count):
    held.append(socket.create_connection(("127.0.0.1", port)))
    held[-1].send(b"x")
print("done", flush=True)
time.sleep(600)
"""
DIRECT_MAX = 4096  # of one client to one address: 64 channels of 64 streams


def test_connections_beyond_a_clients_limit_name_the_limit_at_both_ends(harness):
    port, beyond = kernel_view.free_port(), 20
    server = harness.start(Side.HELIOSTAT, [sys.executable, "-c", MANY, "server", port, 0])
    kernel_view.wait_listening(port, server.process)
    other = harness.start(Side.HELIOSTAT, [sys.executable, "-c", MANY, "client", port, DIRECT_MAX + beyond])
    kernel_view.wait_until(lambda: "done" in other.output(), 60, "all connections")
    here = kernel_view.wait_until(lambda: all_of(harness, server.pid, DIRECT_MAX + beyond), 60, "all accepted")
    native = [one["reason_text"] for one in here if one["path"] == "native"]
    limit = "a limit on sessions, channels or streams is reached"
    assert native == [f"at the other end: {limit}"] * beyond
    there = [one["reason_text"] for one in harness.explain(other.pid) if one["path"] == "native"]
    assert there == [limit] * beyond
    assert f"of these {beyond} open ones: at the other end: {limit}" in harness.call("explain", str(server.pid))


def all_of(harness, pid: int, count: int) -> list[dict]:
    """The connections of a process once it has all of them."""
    found = listed(harness, pid)
    return found if len(found) == count else []


def of_nobody(harness) -> tuple[dict[str, str], int, int]:
    """Another user's control plane at its default place, with a server that has one connection."""
    user = 65534
    os.chmod(harness.folder, 0o755)
    place = Path(f"/tmp/heliostat-{user}")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as probe:
        assert probe.connect_ex(str(place / "control.sock")) != 0, f"user {user} has a control plane of its own at {place}"
    shutil.rmtree(place, ignore_errors=True)
    home = harness.folder / "home"
    home.mkdir()
    os.chown(home, user, user)
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("HELIOSTAT", "XDG", "LD_"))}
    bare |= {"HOME": str(home), "HELIOSTAT_HARNESS": str(harness.folder)}
    port = kernel_view.free_port()
    text = "import socket, time; s = socket.create_server(('127.0.0.1', %d)); time.sleep(600)" % port
    words = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
    words += [str(BINARY), "run", "--", "/usr/bin/python3", "-c", text]
    server = subprocess.Popen(words, env=bare, stdout=subprocess.DEVNULL, start_new_session=True)
    kernel_view.wait_listening(port, server)
    return bare, server.pid, user


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may look into another user's control plane")
def test_root_looks_into_a_users_control_plane():
    with Harness(plain=True) as harness:
        bare, pid, user = of_nobody(harness)
        socket_path = f"/tmp/heliostat-{user}/control.sock"
        try:
            for words in (["--user", "nobody"], ["--user", str(user)], ["--socket", socket_path]):
                status = asked(harness, "status", "--json", *words, env=bare)
                assert [one["pid"] for one in json.loads(status.stdout)["sessions"]] == [pid], status.stderr
                assert json.loads(asked(harness, "explain", pid, "--json", *words, env=bare).stdout)["pid"] == pid
            found = json.loads(asked(harness, "explain", pid, "--json", env=bare).stdout)
            assert (found["pid"], found["control_plane"]) == (pid, socket_path)
            nobody = asked(harness, "status", "--user", "no-such-user", env=bare)
            assert "there is no user no-such-user" in nobody.stderr
        finally:
            os.killpg(pid, 9)
