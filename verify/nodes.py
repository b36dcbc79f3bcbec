"""Several nodes of a cluster on one machine: their control planes, their networks, what runs on them, their end.

Two modes. *loopback* needs no privilege: a node is a control plane with a port of its own, and "the node dies"
means that all its processes are killed at once. *networks* needs the right to make network namespaces: each
node has one of its own, a veth pair leads from it to a bridge, and the bridge is in a namespace of its own too,
so that the machine's own network is never touched. None of the namespaces has a name: they belong to
processes that die with this one (setpriv --pdeathsig), and the kernel removes what is in them. So nothing is
left behind, whether a suite ends, is interrupted, or is killed itself.

Who is a member each node knows by a list of all (`LIST`), or etcd says it (`ETCD`); etcd is on no node then, but
where the bridge is.

    with Cluster(3) as cluster:
        worker = cluster.start(2, ["heliostat-mapreduce", "work", ...])
        cluster.kill(2)                        # kill -9 of the control plane and of all that runs on the node
        cluster.restart(2)
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import kernel_view
from heliostat_run import BINARY, Program, wait_control

LOOPBACK, NETWORKS = "loopback", "networks"
LIST, ETCD = "list", "etcd"
CONTROL_PLANE = BINARY.with_name("heliostatd")
CAP_SYS_ADMIN, CAP_NET_ADMIN = 21, 12
# Nobody else's: the namespaces lead nowhere.
SUBNET, BRIDGE, HUB, CLUSTER_PORT = "10.77.0", "hub", 254, 7700
LEASE_S = 2
WATCHDOG_S = 60.0


def modes() -> list[str]:
    """What this machine allows."""
    may = kernel_view.has_capability(CAP_SYS_ADMIN) and kernel_view.has_capability(CAP_NET_ADMIN)
    return [LOOPBACK, *([NETWORKS] if may and shutil.which("ip") and _makes_bridges() else [])]


def registries() -> list[str]:
    """Who can say which nodes are members."""
    return [LIST, *([ETCD] if shutil.which("etcd") else [])]


def _makes_bridges() -> bool:
    words = ["unshare", "--net", "ip", "link", "add", BRIDGE, "type", "bridge"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@dataclass
class Node:
    """One node: its control plane and what was started on it."""

    number: int
    folder: Path
    address: str
    # The process whose network namespace is the node's; none on loopback.
    holder: subprocess.Popen | None = None
    daemon: Program | None = None
    programs: list[Program] = field(default_factory=list)

    @property
    def socket(self) -> str:
        return str(self.folder / "control.sock")

    def inside(self) -> list[str]:
        """Words that run a command in the node's network."""
        return inside(self.holder) if self.holder else []


def inside(holder: subprocess.Popen) -> list[str]:
    """Words that run a command in the network namespace of a process."""
    return ["nsenter", "--target", str(holder.pid), "--net", "--"]


class Cluster:
    """Nodes 1 to `count`, all joined; closing it ends everything that was started in it."""

    def __init__(self, count: int, mode: str = LOOPBACK, more: str = "", registry: str = LIST) -> None:
        self.mode, self.more, self.registry = mode, more, registry
        self.etcd: Program | None = None
        self.endpoint = ""
        self.folder = Path(tempfile.mkdtemp(prefix="helio-nodes-"))
        self.nodes: dict[int, Node] = {}
        self.holders: list[subprocess.Popen] = []
        self.count = count

    def __enter__(self) -> Cluster:
        try:
            self._begin()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def _begin(self) -> None:
        secret = self.folder / "secret"
        secret.touch(mode=0o600)
        secret.write_text(secrets.token_hex(32))
        networks = self._networks() if self.mode == NETWORKS else {}
        for number in range(1, self.count + 1):
            folder = self.folder / f"node-{number}"
            folder.mkdir()
            at = f"{SUBNET}.{number}:{CLUSTER_PORT}" if networks else f"127.0.0.1:{kernel_view.free_port()}"
            self.nodes[number] = Node(number, folder, f"tcp:{at}", networks.get(number))
        if self.registry == ETCD:
            self._start_etcd()
        # A configuration names all addresses.
        for node in self.nodes.values():
            (node.folder / "heliostat.toml").write_text(self.configuration(node))
            self._start_daemon(node)
        self.wait_joined()

    def _networks(self) -> dict[int, subprocess.Popen]:
        """A namespace with a bridge, and one for each node with a veth pair to it."""
        hub = self._hold()
        _run(inside(hub), "ip", "link", "add", BRIDGE, "type", "bridge")
        _run(inside(hub), "ip", "link", "set", "lo", "up")
        _run(inside(hub), "ip", "link", "set", BRIDGE, "up")
        _run(inside(hub), "ip", "address", "add", f"{SUBNET}.{HUB}/24", "dev", BRIDGE)
        found = {}
        for number in range(1, self.count + 1):
            holder = found[number] = self._hold()
            _run(inside(holder), "ip", "link", "set", "lo", "up")
            peer = ["peer", "name", f"port{number}", "netns", str(hub.pid)]
            _run(inside(holder), "ip", "link", "add", "eth0", "type", "veth", *peer)
            _run(inside(hub), "ip", "link", "set", f"port{number}", "master", BRIDGE, "up")
            _run(inside(holder), "ip", "address", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            _run(inside(holder), "ip", "link", "set", "eth0", "up")
        return found

    def _hold(self) -> subprocess.Popen:
        """A process that does nothing but have a network namespace."""
        words = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sleep", "infinity"]
        holder = subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True)
        self.holders.append(holder)
        own = os.readlink("/proc/self/ns/net")
        apart = lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own  # noqa: E731
        kernel_view.wait_until(apart, WATCHDOG_S, "a network namespace")
        return holder

    def _start_etcd(self) -> None:
        """One server of etcd, which keeps nothing longer than this cluster is there."""
        host = f"{SUBNET}.{HUB}" if self.mode == NETWORKS else "127.0.0.1"
        ports = [2379, 2380] if self.mode == NETWORKS else [kernel_view.free_port(), kernel_view.free_port()]
        self.endpoint, peers = (f"http://{host}:{port}" for port in ports)
        words = ["etcd", "--data-dir", self.folder / "etcd", "--initial-cluster", f"default={peers}"]
        for what, url in (("client", self.endpoint), ("peer", peers)):
            words += [f"--listen-{what}-urls", url]
        words += ["--advertise-client-urls", self.endpoint, "--initial-advertise-peer-urls", peers]
        where = Node(0, self.folder, "", self.holders[0] if self.holders else None)
        self.etcd = self._spawn(where, words, "etcd")
        ask = f"import urllib.request as it; it.urlopen({self.endpoint + '/health'!r}, timeout=1)"
        asks = [*where.inside(), sys.executable, "-c", ask]
        is_well = lambda: subprocess.run(asks, capture_output=True, check=False).returncode == 0  # noqa: E731
        kernel_view.wait_until(is_well, WATCHDOG_S, f"etcd at {self.endpoint}")

    def configuration(self, node: Node) -> str:
        """The configuration of a node that knows all others, or whom to ask."""
        lines = [self.more, "[cluster]", f"node = {node.number}", f'listen = "{node.address}"']
        lines += [f'secret = "{self.folder / "secret"}"']
        if self.registry == ETCD:
            return "\n".join([*lines, f'registry = "etcd:{self.endpoint}"', f"lease_s = {LEASE_S}"]) + "\n"
        for other in self.nodes.values():
            if other is not node:
                lines += ["[[cluster.peer]]", f"node = {other.number}", f'address = "{other.address}"']
        return "\n".join(lines) + "\n"

    def _start_daemon(self, node: Node) -> None:
        words = [CONTROL_PLANE, "--socket", node.socket, "--config", node.folder / "heliostat.toml"]
        node.daemon = self._spawn(node, words, "heliostatd")
        wait_control(node.socket)

    def _spawn(self, node: Node, words: list, name: str, env: dict | None = None) -> Program:
        """Starts a program on a node; it dies with this process."""
        stem = node.folder / f"{len(node.programs):03}-{time.monotonic_ns()}-{name}"
        stdout, stderr = stem.with_suffix(".out"), stem.with_suffix(".err")
        dies = ["setpriv", "--pdeathsig", "KILL"]
        # First too: this process may end before the other network is entered.
        words = [*dies, *node.inside(), *dies, *map(str, words)]
        moved = {"HELIOSTAT_SOCKET": node.socket, "XDG_RUNTIME_DIR": str(node.folder)}
        with open(stdout, "wb") as out, open(stderr, "wb") as err:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env={**os.environ, **moved, **(env or {})}, start_new_session=True,
            )  # fmt: skip
        return Program(name, process, stdout, stderr)

    def start(self, number: int, words: list, env: dict | None = None) -> Program:
        """Starts a program on a node."""
        node = self.nodes[number]
        program = self._spawn(node, words, Path(str(words[0])).name, env)
        node.programs.append(program)
        return program

    def run(self, number: int, words: list, seconds: float = WATCHDOG_S) -> Program:
        """Starts a program on a node and waits for its end, which has to be a good one."""
        program = self.start(number, words)
        status = program.wait(seconds)
        if status != 0:
            raise RuntimeError(f"{program.name} on node {number} ended with {status}: {program.errors()[-2000:]}")
        return program

    def call(self, number: int, *words: str) -> str:
        """Runs one `heliostat` command on a node; returns what it printed."""
        return self.run(number, [BINARY, *words, "--socket", self.nodes[number].socket]).output()

    def states(self, number: int) -> dict[int, str]:
        """The state of each node as one of them sees it."""
        listed = json.loads(self.call(number, "cluster", "list", "--json"))
        return {entry["node"]: entry["state"] for entry in listed["nodes"]}

    def living(self) -> list[int]:
        return [number for number, node in self.nodes.items() if node.daemon is not None]

    def wait_joined(self) -> None:
        """Waits until every node that lives has joined every other one."""
        alive = self.living()
        wanted = lambda one: {  # noqa: E731
            other for other, state in self.states(one).items() if state in ("joined", "here")
        } >= set(alive)
        for one in alive:
            kernel_view.wait_until(lambda one=one: wanted(one), WATCHDOG_S, f"node {one} has joined the others")

    def kill(self, number: int) -> None:
        """Kills a node at once: its control plane and everything that was started on it."""
        node = self.nodes[number]
        dying = [program for program in [node.daemon, *node.programs] if program]
        for program in dying:
            program.kill()
        for program in dying:
            program.process.wait()
        node.daemon, node.programs = None, []

    def restart(self, number: int) -> None:
        """Starts a node's control plane anew; nothing of what the node held is there any more."""
        self.kill(number)
        Path(self.nodes[number].socket).unlink(missing_ok=True)
        self._start_daemon(self.nodes[number])
        self.wait_joined()

    def cut(self, number: int) -> None:
        """Cuts a node off from all others, which it does not notice by itself (networks only)."""
        self._set_link(number, "down")

    def mend(self, number: int) -> None:
        """Ends what `cut` has done."""
        self._set_link(number, "up")

    def _set_link(self, number: int, state: str) -> None:
        if self.mode != NETWORKS:
            raise RuntimeError("a node is cut off where it has a network of its own")
        _run(inside(self.holders[0]), "ip", "link", "set", f"port{number}", state)

    def close(self) -> None:
        """Ends everything. What is in the namespaces goes with those who hold them."""
        # A second ^C must not leave the half of it.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            for number in self.nodes:
                self.kill(number)
            if self.etcd:
                self.etcd.kill()
                self.etcd.process.wait()
            for holder in self.holders:
                holder.kill()
                holder.wait()
            shutil.rmtree(self.folder, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, before)


def _run(before: list[str], *words: str) -> None:
    done = subprocess.run([*before, *words], capture_output=True, text=True, timeout=WATCHDOG_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
