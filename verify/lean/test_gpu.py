"""A GPU as the processor of a worker: its kernels read files and serve connections through the rings."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading

import pytest
from heliostat_run import ROOT, Harness
from test_workers import HEADERS, connected, free_port, start

HAS_GPU = shutil.which("nvcc") is not None and os.path.exists("/dev/nvidia0")

pytestmark = [pytest.mark.heliostat, pytest.mark.skipif(not HAS_GPU, reason="no nvcc, or no GPU")]


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    program = tmp_path_factory.mktemp("gpu") / "gpu"
    source = ROOT / "bind/lean/examples/gpu.cu"
    subprocess.run(["nvcc", "-arch=native", "-std=c++17", f"-I{HEADERS}", "-o", program, source], check=True)
    return program


@pytest.fixture
def harness():
    with Harness() as one:
        yield one


@pytest.mark.parametrize("size", [0, 1, 64 * 1024, 48 * 1024 * 1024 + 4321])
def test_a_kernel_reads_a_file_to_its_end(harness, gpu, tmp_path, size):
    text = os.urandom(size)
    (tmp_path / "file").write_bytes(text)
    program = start(harness, ["--workers", "1", "--unsealed", "--watch", "--root", str(tmp_path)], gpu, "count", tmp_path / "file", 10)
    assert program.wait(60) == 0, program.errors()
    assert int(program.output()) == text.count(b"\n")


def test_a_kernel_is_refused_what_was_not_granted(harness, gpu, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").write_text("secret")
    program = start(harness, ["--workers", "1", "--unsealed", "--watch", "--root", str(tmp_path / "in")], gpu, "count", tmp_path / "out", 10)
    assert program.wait(60) == 1
    assert "errno 13" in program.errors()


def test_warps_serve_connections_at_once(harness, gpu):
    port, peers, rounds = free_port(), 8, 50
    program = start(harness, ["--workers", "1", "--unsealed", "--watch", "--listen", f"127.0.0.1:{port}"], gpu, "echo", port, peers)
    said = [os.urandom(32 * 1024) for _ in range(peers)]
    failed = []

    def talk(peer: socket.socket, what: bytes) -> None:
        for _ in range(rounds):
            peer.sendall(what)
            heard = b""
            while len(heard) < len(what) and (more := peer.recv(1 << 20)):
                heard += more
            if heard != what:
                failed.append(len(heard))
                return

    ends = [connected(port) for _ in said]
    talks = [threading.Thread(target=talk, args=pair) for pair in zip(ends, said)]
    for one in talks:
        one.start()
    for one in talks:
        one.join(60)
    for end in ends:
        end.close()
    assert not failed and not any(one.is_alive() for one in talks)
    assert program.wait(60) == 0, program.errors()
