"""Shared listeners with unmodified programs: who serves, and that nobody is lost (docs/listeners.md)."""

from __future__ import annotations

import collections
import os
import resource
import signal
import socket
import subprocess
import sys

import kernel_view
import pytest
import shared_port
from heliostat_run import BINARY, Harness, Side
from nginx_server import SMALL, write_files
from shared_port import KINDS, Load, ask, shared, start_worker, start_workers

pytestmark = pytest.mark.heliostat


@pytest.mark.parametrize("kind", KINDS)
def test_programs_that_know_nothing_of_each_other_share_a_port(harness, kind):
    port, workers = start_workers(harness, 4, kind=kind)
    served = collections.Counter(ask(port) for _ in range(40))
    assert sorted(served) == sorted(it["pids"][0] for it in shared(harness, port)["workers"])
    assert all(count == 10 for count in served.values()), served
    assert all(worker.process.poll() is None for worker in workers)


def test_redis_servers_share_a_port(harness):
    port = kernel_view.free_port()
    command = [BINARY, "run", "--share", f"{port}:round-robin", "--", "redis-server", "--bind", "127.0.0.1"]
    command += ["--port", port, "--save", ""]
    servers = [harness.start(Side.PLAIN, command, name="redis", cwd=harness.folder) for _ in range(4)]
    shared_port.wait_ready(harness, port, 4)
    seen = set()
    for _ in range(16):
        with socket.create_connection(("127.0.0.1", port), 10) as client:
            client.sendall(b"INFO server\r\n")
            text = client.recv(65536)
            seen.add(int(text.split(b"process_id:")[1].split()[0]))
    assert seen == {server.pid for server in servers}


NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log warn;
events {{ worker_connections 1024; }}
http {{ access_log off;
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {files}; }} }}
"""


def test_nginx_of_one_process_is_started_four_times(harness, tmp_path):
    port = kernel_view.free_port()
    write_files(tmp_path, 1 << 20)
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=port, files=tmp_path / "files"))
        words = ["nginx", "-p", folder, "-e", folder / "error.log", "-c", folder / "nginx.conf"]
        harness.start(Side.PLAIN, [BINARY, "run", "--share", f"{port}:round-robin", "--", *words], name="nginx")
    shared_port.wait_ready(harness, port, 4)
    for _ in range(20):
        fetched = subprocess.run(
            ["curl", "-sS", f"http://127.0.0.1:{port}/small.txt"], capture_output=True, timeout=30, check=True
        )
        assert fetched.stdout == SMALL
    assert [worker["given"] for worker in shared(harness, port)["workers"]] == [5] * 4


def test_forked_workers_have_queues_of_their_own(harness):
    port = kernel_view.free_port()
    parent = start_worker(harness, port, "round-robin", shared_port.FORKS, "-", "3")
    shared_port.wait_ready(harness, port, 3)
    served = collections.Counter(ask(port) for _ in range(30))
    assert len(served) == 3 and set(served.values()) == {10} and parent.pid not in served


def test_a_client_under_heliostat_is_direct(harness):
    port, _ = start_workers(harness, 2)
    script = f"""
import socket, sys, time
with socket.create_connection(("127.0.0.1", {port})) as client:
    lines = client.makefile("rb")
    lines.readline(); client.sendall(b"3000\\n"); print("up", flush=True); print(lines.readline())
"""
    client = harness.start(Side.HELIOSTAT, [sys.executable, "-c", script])
    kernel_view.wait_until(lambda: "up" in client.output(), 20, "an answer")
    paths = [it["path"] for it in harness.explain(client.pid)]
    assert client.wait() == 0 and "done" in client.output()
    assert paths == ["direct"], paths


def test_a_drained_worker_finishes_what_it_has_and_nothing_is_lost(harness):
    port, _ = start_workers(harness, 4)
    with Load(port) as load:
        load.go_on(100)
        worker = shared(harness, port)["workers"][1]
        harness.call("listener", "drain", worker["id"])
        load.go_on(20)
        before = load.served[worker["pids"][0]]
        load.go_on(100)
        assert load.served[worker["pids"][0]] - before <= 1
        harness.call("listener", "drain", worker["id"], "--back")
        load.go_on(100)
        assert load.served[worker["pids"][0]] > before + 1
    assert load.failed == []


def test_a_killed_worker_takes_only_what_it_was_serving_and_one_that_comes_has_its_place(harness):
    port, workers = start_workers(harness, 4)
    with Load(port) as load:
        for turn in range(5):
            load.go_on(60)
            victim = workers.pop(0)
            victim.kill()
            victim.process.wait()
            load.go_on(60)
            # A worker serves one connection at a time: that one ends with it.
            assert len(load.failed) <= turn + 1, load.failed
            script, words = KINDS["blocking"]
            workers.append(start_worker(harness, port, "round-robin", script, *words))
            shared_port.wait_ready(harness, port, 4)
    assert [it["place"] for it in shared(harness, port)["workers"]] == [0, 1, 2, 3]
    assert shared(harness, port)["accepted"] == load.served.total() + len(load.failed)


def test_the_first_worker_may_die_and_the_last_one_too_for_a_moment(harness):
    port, workers = start_workers(harness, 1)
    workers[0].kill()
    workers[0].process.wait()
    with socket.create_connection(("127.0.0.1", port), 10) as waiting:
        script, words = KINDS["blocking"]
        start_worker(harness, port, "round-robin", script, *words)
        lines = waiting.makefile("rb")
        assert int(lines.readline()) > 0
        waiting.sendall(b"0\n")
        assert lines.readline() == b"done\n"


def test_a_worker_that_never_accepts_or_is_stopped_holds_up_nobody(harness):
    port, workers = start_workers(harness, 3)
    start_worker(harness, port, "round-robin", shared_port.IDLE)
    shared_port.wait_ready(harness, port, 4)
    os.kill(workers[0].pid, signal.SIGSTOP)
    with Load(port) as load:
        load.go_on(300)
    passed = [worker["passed_over"] for worker in shared(harness, port)["workers"]]
    os.kill(workers[0].pid, signal.SIGCONT)
    assert load.failed == [] and passed[3] > 0, passed


def test_ten_thousand_silent_clients_hold_up_nobody(harness):
    clients = 10_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < clients + 1000:
        pytest.fail(f"{hard} descriptors are not enough for this test")
    resource.setrlimit(resource.RLIMIT_NOFILE, (clients + 1000, hard))
    port, _ = start_workers(harness, 4, rule="content", kind="asyncio")
    silent = []
    try:
        for _ in range(clients):
            silent.append(socket.create_connection(("127.0.0.1", port), 30))
        for number in range(20):
            with socket.create_connection(("127.0.0.1", port), 30) as client:
                client.sendall(b"0\n")
                assert client.makefile("rb").readline()
        assert shared(harness, port)["silent"] > 0
    finally:
        for client in silent:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_equal_first_lines_go_to_one_worker(harness):
    port, _ = start_workers(harness, 4, rule="content")

    def served(line: bytes) -> int:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(line)
            return int(client.makefile("rb").readline())

    of = {number: {served(b"0 %d\n" % number) for _ in range(5)} for number in range(12)}
    assert all(len(pids) == 1 for pids in of.values()), of
    assert len(set.union(*of.values())) > 1


def test_without_the_control_plane_workers_accept_by_themselves(tmp_path):
    with Harness() as harness:
        port, workers = start_workers(harness, 2, kind="epoll")
        os.kill(harness.control_plane(), signal.SIGKILL)
        served = {ask(port) for _ in range(20)}
        assert served <= {pid for worker in workers for pid in [worker.pid, *kernel_view.descendants(worker.pid)]}
        assert all(worker.process.poll() is None for worker in workers)


EXECUTES = shared_port.ANSWER + shared_port.LISTEN + """
os.set_inheritable(listener.fileno(), True)
os.execv(sys.executable, [sys.executable, "-c", '''
import socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
assert listener.getsockname()[1] == int(sys.argv[2]), listener.getsockname()
while True:
    connection = listener.accept()[0]
    connection.sendall(b"1\\\\n"); connection.recv(100); connection.sendall(b"done\\\\n"); connection.close()
''', str(listener.fileno()), str(port)])
"""


def test_a_program_that_executes_another_hands_its_listening_socket_on(harness):
    port = kernel_view.free_port()
    start_worker(harness, port, "round-robin", EXECUTES)
    kernel_view.wait_listening(port)
    assert [ask(port) for _ in range(5)] == [1] * 5


PLUGIN = """
import os, socket, struct
asked = socket.socket(fileno=0)
while True:
    record = asked.recv(8192)
    if not record:
        break
    serial, length, workers = struct.unpack_from("<Q", record, 8)[0], *struct.unpack_from("<II", record, 36)
    first = record[48 + 8 * workers:]
    asked.send(struct.pack("<4sIQ", b"HPLA", int(first.split()[1]) % workers, serial))
"""


def test_a_plugin_of_the_users_decides(harness):
    port, _ = start_workers(harness, 4)
    address = f"127.0.0.1:{port}"
    words = [BINARY, "listener", "plugin", address, "--bytes", "64", "--", sys.executable, "-c", PLUGIN]
    plugin = harness.start(Side.PLAIN, words, name="plugin")
    kernel_view.wait_until(lambda: shared(harness, port)["plugin"], 20, "a plug-in")
    pids = {worker["place"]: worker["pids"][0] for worker in shared(harness, port)["workers"]}
    for number in [3, 1, 1, 2, 0, 3]:
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(b"0 %d\n" % number)
            assert int(client.makefile("rb").readline()) == pids[number]
    plugin.kill()
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", port), 30) as client:
            client.sendall(b"0 1\n")
            assert int(client.makefile("rb").readline()) > 0


def test_a_listener_made_by_command_waits_for_its_workers(harness):
    port = kernel_view.free_port()
    address = f"127.0.0.1:{port}"
    harness.call("listener", "create", address, "--rule", "round-robin")
    with socket.create_connection(("127.0.0.1", port), 30) as client:
        plain = [BINARY, "run", "--", sys.executable, "-c", shared_port.BLOCKING, port]
        harness.start(Side.PLAIN, plain, name="worker")
        assert int(client.makefile("rb").readline()) > 0
    assert address in harness.call("listener", "list") and "ready" in harness.call("listener", "inspect", address)
    harness.call("listener", "rule", address, "--rule", "address")
    assert shared(harness, port)["rule"] == "address"
    assert len({ask(port) for _ in range(5)}) == 1
    harness.call("listener", "remove", address)
    assert shared(harness, port) == {"workers": []}
    assert ask(port) > 0, "its worker has the listening socket"
