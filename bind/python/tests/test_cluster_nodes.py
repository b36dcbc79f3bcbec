"""Arrays of `heliostat.cluster` on other nodes, and spread over three that each have too little memory."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

NODES = (1, 2, 3)
# Three of them have 24 MiB together, and none has the 18 MiB of the array.
LIMIT = "[memory]\nbytes_per_user = 8_388_608\n"

BEGIN = """
import os, sys, time, asyncio, pickle
os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
os.environ["HELIOSTAT_SOCKET"] = sys.argv[1] + "/control.sock"
import numpy as np
import heliostat
from heliostat import cluster
nodes = cluster.open()
until = time.monotonic() + 30
while [it.state for it in nodes.nodes()].count("joined") < 2 and time.monotonic() < until:
    time.sleep(0.02)
def tell(*words):
    print(*words, flush=True)
    sys.stdin.readline()
def error_of(act):
    try:
        act()
    except heliostat.Error as error:
        return f"{type(error).__name__} {error.array} {error.node}: {error}"
"""

MAKE = (
    BEGIN
    + """
print(error_of(lambda: nodes.create("big", (3000, 1536), "u4", node=2)), flush=True)
big = nodes.create("big", (3000, 1536), "u4", spread=[1, 2, 3], lasting=True)
big[...] = np.arange(big.size, dtype="u4").reshape(big.shape)
far = nodes.from_array("far", np.arange(10), node=3)
tell(big.nodes, far.nodes, nodes.nodes()[1].number)
tell(far.fetch_add(9, 1), big[1000, 0], far[:3].tolist())
"""
)

USE = (
    BEGIN
    + """
big, far = nodes.open("big", rights="all"), nodes.open("far")
plain = np.arange(big.size, dtype="u4").reshape(big.shape)
tell(big.shape, big.dtype, np.array_equal(big, plain), np.array_equal(big[::-7, 3:1500:9], plain[::-7, 3:1500:9]))
big[1000] = 5
async def some():
    await big.write(np.s_[900:1100:2, 4], 6)
    rows = await asyncio.gather(*[big.read(at) for at in range(950, 1050)])
    plain[1000] = 5
    plain[900:1100:2, 4] = 6
    return all(np.array_equal(row, plain[at]) for at, row in enumerate(rows, 950))
print(asyncio.run(some()), pickle.loads(pickle.dumps(far))[4], pickle.loads(pickle.dumps(big))[2, 2], flush=True)
print(error_of(far.view), flush=True)
try:
    far.__dlpack__()
except BufferError:
    tell(far.dtype, np.asarray(far).sum(), far.fetch_add(9, 1), far.nodes)
while not error_of(lambda: far[0]):  # killed, and soon noticed
    pass
print(error_of(lambda: far[0]), flush=True)
print(error_of(lambda: big[...]), flush=True)
print(np.array_equal(big[:1900], plain[:1900]), flush=True)
again = nodes.open("big", rights="all")
print(error_of(lambda: again.__setitem__(-1, 0)), again.nodes, again[1, 1], flush=True)
del big
print(error_of(again.free), flush=True)
print(error_of(lambda: nodes.open("big")), flush=True)
"""
)


@pytest.fixture
def houses():
    """Three nodes, each with a folder of its own."""
    import heliostat._binaries as binaries

    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in NODES]
    ports = {node: it.getsockname()[1] for node, it in zip(NODES, listeners, strict=True)}
    for listener in listeners:
        listener.close()
    with tempfile.TemporaryDirectory(prefix="helio-py-") as folder:
        secret = Path(folder, "secret")
        secret.write_text("5c" * 32)
        secret.chmod(0o600)
        made = [Path(folder, str(node)) for node in NODES]
        for node, house in zip(NODES, made, strict=True):
            house.mkdir(mode=0o700)
            peers = "".join(
                f'[[cluster.peer]]\nnode = {peer}\naddress = "tcp:127.0.0.1:{ports[peer]}"\n'
                for peer in NODES
                if peer != node
            )
            own = f'[cluster]\nnode = {node}\nlisten = "tcp:127.0.0.1:{ports[node]}"\nsecret = "{secret}"\n'
            (house / "config.toml").write_text(own + peers + LIMIT)
            words = ["start", "--socket", str(house / "control.sock")]
            command = [binaries.program(), *words, "--config", str(house / "config.toml")]
            environment = {**os.environ, "XDG_RUNTIME_DIR": str(house)}
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=30)
        yield made
        for house in made:
            # One of them was killed.
            command = [binaries.program(), "stop", "--socket", str(house / "control.sock")]
            subprocess.run(command, capture_output=True, timeout=30)


def said(process) -> str:
    """Its next line."""
    line = process.stdout.readline().strip()
    assert line, process.communicate()[1]
    return line


def go(process) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def kill(house: Path) -> None:
    """Its control plane, as a crash does."""
    import heliostat._binaries as binaries

    command = [binaries.program(), "status", "--json", "--socket", str(house / "control.sock")]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    os.kill(json.loads(told.stdout)["pid"], signal.SIGKILL)


def test_an_array_is_longer_than_a_nodes_memory_and_lost_in_part(houses, other):
    maker = other(MAKE, houses[0])
    full = said(maker)
    assert full.startswith("Full big 2: array big (node 2)"), full
    assert said(maker) == "(1, 2, 3) (3,) 2"
    user = other(USE, houses[1])
    assert said(user) == "(3000, 1536) uint32 True True"
    go(user)
    assert said(user) == "True 4 3074"
    assert said(user).startswith("Unsupported far 3: array far (node 3)")
    assert said(user) == "int64 45 9 (3,)"
    go(maker)
    assert said(maker) == "10 5 [0, 1, 2]"
    kill(houses[2])
    go(user)
    told = said(user)
    assert told.startswith("NoControlPlane far 3: array far (node 3)"), told
    told = said(user)
    assert told.startswith("NoControlPlane big None: array big (node 1, node 2, node 3): bytes "), told
    assert " to 18436096, on node 3: " in told, "which bytes, and where"
    assert said(user) == "True", "the others are there"
    told = said(user)
    assert "on node 3: " in told and told.endswith("(1, 2, 3) 1537"), told
    assert "on node 3: " in said(user), "what could not be freed"
    assert said(user).startswith("NotFound")
