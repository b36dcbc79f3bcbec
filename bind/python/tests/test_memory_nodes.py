"""Memory regions of another node: two control planes of one cluster, a program of each."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from pathlib import Path

import pytest

BEGIN = """
import os, sys, time
os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
os.environ["HELIOSTAT_SOCKET"] = sys.argv[1] + "/control.sock"
import heliostat
memory = heliostat.memory.open()
def tell(*words):
    print(*words, flush=True)
    sys.stdin.readline()
"""

HOLD = (
    BEGIN
    + """
region = memory.allocate(4 << 20, name="kv")
region.write(0, b"begun")
tell(region.identity)
print(region.read(1 << 20, 1 << 20) == bytes(range(256)) * 4096, region.fetch_add(8, 0), flush=True)
tell(len(memory.list()))
os.kill(heliostat.status()["pid"], 9)
tell("killed")
"""
)

REACH = (
    BEGIN
    + """
def found(there, deadline=time.monotonic() + 20):
    while True:
        try:
            return there.map("kv")
        except heliostat.NoControlPlane:  # the nodes are not joined yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
there = memory.on(2)
region = found(there)
tell(region.node, region.path, region.identity, len(region), region.read(0, 5).decode())
region.write(1 << 20, bytes(range(256)) * 4096)
tell(region.fetch_add(8, 5), region.compare_swap(8, 5, 6), region.swap(8, 7), len(memory.list()))
late = there.allocate(64)
tell(late.node, len(there.list()))
for ask in (lambda: region.read(0, 5), lambda: there.map("kv"), lambda: memory.on(9).map("kv")):
    try:
        ask()
    except heliostat.NoControlPlane as error:
        print(error, flush=True)
print(memory.allocate(64).node, flush=True)
"""
)


@pytest.fixture
def houses():
    """Two nodes, numbers 1 and 2, each with a folder of its own."""
    import heliostat._binaries as binaries

    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    ports = [listener.getsockname()[1] for listener in listeners]
    for listener in listeners:
        listener.close()
    with tempfile.TemporaryDirectory(prefix="helio-py-") as folder:
        secret = Path(folder, "secret")
        secret.write_text("5a" * 32)
        secret.chmod(0o600)
        made = [Path(folder, str(node)) for node in (1, 2)]
        for at, house in enumerate(made):
            house.mkdir(mode=0o700)
            config = house / "config.toml"
            config.write_text(
                f'[cluster]\nnode = {at + 1}\nlisten = "tcp:127.0.0.1:{ports[at]}"\n'
                f'secret = "{secret}"\n'
                f'[[cluster.peer]]\nnode = {2 - at}\naddress = "tcp:127.0.0.1:{ports[1 - at]}"\n'
            )
            words = ["start", "--socket", str(house / "control.sock"), "--config", str(config)]
            environment = {**os.environ, "XDG_RUNTIME_DIR": str(house)}
            command = [binaries.program(), *words]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=30)
        yield made
        for house in made:
            # One of them was killed.
            command = [binaries.program(), "stop", "--socket", str(house / "control.sock")]
            subprocess.run(command, capture_output=True, timeout=30)


def said(process, go=True) -> str:
    """Its next line; then it may go on."""
    line = process.stdout.readline().strip()
    assert line, process.communicate()[1]
    if go:
        process.stdin.write("go\n")
        process.stdin.flush()
    return line


def test_a_region_of_another_node_is_used_by_the_same_calls(houses, other):
    here, there = houses
    holder = other(HOLD, there)
    identity = said(holder, go=False)
    reacher = other(REACH, here)
    assert said(reacher) == f"2 delegated {identity} {4 << 20} begun"
    assert said(reacher) == "0 5 6 0", "no region is on its own node"
    assert said(reacher, go=False) == "2 2"
    holder.stdin.write("go\n")
    holder.stdin.flush()
    assert said(holder, go=False) == "True 7"
    assert said(holder) == "2"
    assert said(holder, go=False) == "killed"
    reacher.stdin.write("go\n")
    reacher.stdin.flush()
    told = [said(reacher, go=False) for _ in range(4)]
    assert all("node 2" in line for line in told[:2]), told
    assert "node 9" in told[2] and told[3] == "None", told


MOVE = (
    BEGIN
    + """
region = memory.allocate(1 << 16, name="mover")
region.write(0, b"moved")
tell(region.node, region.path)
region.move_to(1)
print(region.read(0, 5).decode(), region.node, region.path, flush=True)
region.unmap()
tell(region.node, region.path)
"""
)

FOLLOW = (
    BEGIN
    + """
def found(there, deadline=time.monotonic() + 20):
    while True:
        try:
            return there.map("mover", "all")
        except heliostat.NoControlPlane:  # the nodes are not joined yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
region = found(memory.on(2))
region.set_class("low")
try:
    region.set_class("urgent")
except ValueError as error:
    print(error, flush=True)
tell(region.node, region.path)
print(region.read(0, 5).decode(), region.node, region.path, flush=True)
try:
    region.set_class("low")
except heliostat.InvalidRegion:
    print("none here", flush=True)
"""
)


def test_a_region_that_has_moved_says_where_it_is_now(houses, other):
    here, there = houses
    mover = other(MOVE, there)
    assert said(mover, go=False) == "None direct"
    follower = other(FOLLOW, here)
    assert said(follower, go=False) == 'no class "urgent"; there are high, normal and low'
    assert said(follower, go=False) == "2 delegated"
    mover.stdin.write("go\n")
    mover.stdin.flush()
    assert said(mover, go=False) == "moved 1 delegated"
    follower.stdin.write("go\n")
    follower.stdin.flush()
    assert said(follower, go=False) == "moved None direct"
    assert said(follower, go=False) == "none here"
    assert said(mover) == "1 delegated"
