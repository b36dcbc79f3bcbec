"""The tests of nodes with each node in a network of its own, over wires that lose, delay, reorder and are cut.

`run.py [--transport tcp,ucx] [--wire clean,delay,reorder,loss] [--seed N] [--test NAME ...]`; `make test-cluster`.

Runs the node tests of the control plane (heliostatd/tests) with their nodes in network namespaces, and
`networks.rs` besides, which cuts nodes off for less and for more than a node may be silent, and
`networks_histories.rs`, which looks for an order of what programs of all nodes saw meanwhile. Needs the right to
make network namespaces and /dev/net/tun; without it says so and ends with status 77, which is no success.
"""

from __future__ import annotations

import argparse
import ctypes.util
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "verify")]

import kernel_view  # noqa: E402

HERE = Path(__file__).resolve().parent
NODES = 3
CAP_SYS_ADMIN, CAP_NET_ADMIN = 21, 12
# At some loss TCP stands still for longer than a node may be silent, and the link is lost: that is right, and
# only tests that reckon with it (networks*.rs) can be run so.
WIRES = {
    "clean": {},
    "delay": {"delay_ms": 5, "jitter_ms": 5},
    "reorder": {"delay_ms": 1, "reorder": 0.1},
    "loss": {"loss": 0.01, "delay_ms": 1},
    "heavy": {"loss": 0.05, "delay_ms": 2, "reorder": 0.05},
}
EVERYWHERE = ["cluster", "memory_remote"]
ANY_WIRE = ["networks", "networks_histories"]
# What is about one machine: a port of it, the unit's confinement, which allows no other network.
NOT_HERE = ["a_port_that_is_taken", "with_no_more_than_the_shipped_unit"]
# An answer within 0.3 s is promised to programs on a network that is not slow.
NOT_SLOW = ["tell_of_each_other"]
NO_SUCH_MACHINE = 77


class Networks:
    """Namespaces, each held by a process that dies with this one, and the wire between them."""

    def __init__(self, seed: int) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix="helio-wire-")
        self.socket = str(Path(self.folder.name) / "wire.sock")
        self.seed = seed
        self.processes: list[subprocess.Popen] = []

    def __enter__(self) -> Networks:
        try:
            self.begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def begin(self) -> None:
        dies = ["setpriv", "--pdeathsig", "KILL"]
        holders = [subprocess.Popen([*dies, "unshare", "--net", "sleep", "infinity"]) for _ in range(NODES)]
        self.processes += holders
        own = os.readlink("/proc/self/ns/net")
        for holder in holders:
            apart = lambda holder=holder: os.readlink(f"/proc/{holder.pid}/ns/net") != own  # noqa: E731
            kernel_view.wait_until(apart, 30, "a network namespace")
        self.pids = [str(holder.pid) for holder in holders]
        words = [sys.executable, HERE / "wire.py", self.socket, str(self.seed), *self.pids]
        wire = subprocess.Popen([*dies, *words], stdout=subprocess.PIPE, text=True)
        self.processes.append(wire)
        if wire.stdout.readline() != "ready\n":
            raise RuntimeError("the wire has not begun")

    def set(self, wire: dict) -> None:
        with socket.socket(socket.AF_UNIX) as told:
            told.connect(self.socket)
            with told.makefile("rw") as lines:
                lines.write(json.dumps(wire) + "\n")
                lines.flush()
                lines.readline()

    def __exit__(self, *_) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self.folder.cleanup()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--transport", default="tcp,ucx")
    parser.add_argument("--wire", default=",".join(WIRES))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--test", nargs="*", help="only these tests of Rust")
    return parser.parse_args()


def why_not() -> str | None:
    may = kernel_view.has_capability(CAP_SYS_ADMIN) and kernel_view.has_capability(CAP_NET_ADMIN)
    if not may:
        return "making network namespaces takes CAP_SYS_ADMIN and CAP_NET_ADMIN"
    return None if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "there is no /dev/net/tun to be opened"


def run_one(networks: Networks, transport: str, wire: str, tests: list[str]) -> bool:
    """The tests over one transport and one wire; whether all passed."""
    networks.set(WIRES[wire])
    # Not by -p: that chooses other features of what others use, and builds all of it a second time.
    words = [os.environ.get("CARGO", "cargo"), "test", "--offline", "--quiet", "--workspace"]
    for test in tests:
        words += ["--test", test]
    told = {
        "HELIOSTAT_TEST_NETWORKS": ",".join(networks.pids),
        "HELIOSTAT_TEST_WIRE": networks.socket,
        "HELIOSTAT_TEST_WIRE_IS": json.dumps(WIRES[wire]),
        "HELIOSTAT_TEST_TRANSPORT": transport,
        "UCX_TLS": "tcp,self",
        "UCX_NET_DEVICES": "eth0",
    }
    print(f"== {transport}, {wire}: {' '.join(tests)}", flush=True)
    begun = time.monotonic()
    skipped = [*NOT_HERE, *([] if wire == "clean" else NOT_SLOW)]
    words += ["--no-fail-fast", "--", "--test-threads", "1", *(word for name in skipped for word in ("--skip", name))]
    done = subprocess.run(words, cwd=ROOT, env={**os.environ, **told}, check=False)
    print(f"== {transport}, {wire}: {'passed' if done.returncode == 0 else 'FAILED'} in {time.monotonic() - begun:.0f} s", flush=True)
    return done.returncode == 0


def main() -> int:
    asked = arguments()
    if why := why_not():
        print(f"nothing was tested: {why}")
        return NO_SUCH_MACHINE
    transports = asked.transport.split(",")
    if "ucx" in transports and not ctypes.util.find_library("ucp"):
        print("UCX is not installed: nothing is tested over it")
        transports.remove("ucx")
    print(f"seed {asked.seed}")
    good = True
    with Networks(asked.seed) as networks:
        for transport in transports:
            for wire in asked.wire.split(","):
                tests = ANY_WIRE if wire == "heavy" else [*EVERYWHERE, *ANY_WIRE]
                good &= run_one(networks, transport, wire, asked.test or tests)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
