"""Reads and writes of another process's memory by a transfer engine over loopback's TCP.

`python engine_transfers.py nixl|mooncake SECONDS BYTES[,BYTES]`: starts itself again as the target, and prints one
line of JSON, `{"read": {BYTES: us}, "write": {BYTES: us}}`: the median time of a transfer, one after the other.
Ordinary memory on both sides, registered before. NIXL transfers by UCX, held to TCP.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time

import numpy

LENGTH = 16 << 20
SAMPLES_MIN = 20
HOST = "127.0.0.1"


class Nixl:
    """An agent with one registered buffer."""

    def __init__(self, name: str) -> None:
        from nixl_cu12._api import nixl_agent, nixl_agent_config

        self.agent = nixl_agent(name, nixl_agent_config(backends=["UCX"]))
        self.memory = numpy.ones(LENGTH, dtype=numpy.uint8)
        self.address = self.memory.ctypes.data
        self.registered = self.agent.register_memory([(self.address, LENGTH, 0, "")], "DRAM")

    def told(self) -> dict:
        return {"who": self.agent.get_agent_metadata().hex(), "address": self.address}

    def meet(self, told: dict) -> None:
        self.other, self.there = self.agent.add_remote_agent(bytes.fromhex(told["who"])), told["address"]

    def prepare(self, kind: str, size: int):
        """A transfer that can be made again and again."""
        ours = self.agent.get_xfer_descs([(self.address, size, 0)], "DRAM")
        theirs = self.agent.get_xfer_descs([(self.there, size, 0)], "DRAM")
        handle = self.agent.initialize_xfer(kind.upper(), ours, theirs, self.other)

        def transfer() -> None:
            state = self.agent.transfer(handle)
            while state == "PROC":
                state = self.agent.check_xfer_state(handle)
            if state != "DONE":
                raise RuntimeError(f"{kind} of {size}: {state}")

        return transfer


class Mooncake:
    """An engine with one registered buffer."""

    def __init__(self, name: str) -> None:
        from mooncake.engine import TransferEngine

        self.engine = TransferEngine()
        if self.engine.initialize(HOST, "P2PHANDSHAKE", "tcp", "") != 0:
            raise RuntimeError("no transfer engine")
        self.memory = numpy.ones(LENGTH, dtype=numpy.uint8)
        self.address = self.memory.ctypes.data
        if self.engine.register_memory(self.address, LENGTH) != 0:
            raise RuntimeError("memory is not registered")

    def told(self) -> dict:
        return {"who": f"{HOST}:{self.engine.get_rpc_port()}", "address": self.address}

    def meet(self, told: dict) -> None:
        self.other, self.there = told["who"], told["address"]

    def prepare(self, kind: str, size: int):
        move = self.engine.transfer_sync_read if kind == "read" else self.engine.transfer_sync_write

        def transfer() -> None:
            if move(self.other, self.address, self.there, size) != 0:
                raise RuntimeError(f"{kind} of {size} failed")

        return transfer


ENGINES = {"nixl": Nixl, "mooncake": Mooncake}


def median_us(transfer, seconds: float) -> float:
    """Microseconds of one, over as many as there is time for."""
    transfer()
    samples, ends = [], time.perf_counter() + seconds
    while time.perf_counter() < ends or len(samples) < SAMPLES_MIN:
        began = time.perf_counter_ns()
        transfer()
        samples.append(time.perf_counter_ns() - began)
    return statistics.median(samples) / 1e3


def initiate(name: str, seconds: float, sizes: list[int]) -> dict:
    """All sizes, with a target of its own."""
    words = [sys.executable, __file__, name, "target"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as target:
        # Engines write lines of their own.
        told = next(json.loads(line) for line in target.stdout if line.startswith('{"who"'))
        engine = ENGINES[name]("initiator")
        engine.meet(told)
        found = {kind: {size: median_us(engine.prepare(kind, size), seconds) for size in sizes} for kind in ("read", "write")}
        target.stdin.close()
        target.kill()
    return found


def main() -> None:
    os.environ.update(UCX_TLS="tcp,self", UCX_NET_DEVICES="lo", MC_TCP_BIND_ADDRESS=HOST)
    name, what, *more = sys.argv[1:]
    if what == "target":
        engine = ENGINES[name]("target")
        print(json.dumps(engine.told()), flush=True)
        sys.stdin.read()
    else:
        print(json.dumps(initiate(name, float(what), [int(size) for size in more[0].split(",")])), flush=True)
    # Not every engine's threads end with the interpreter.
    os._exit(0)


main()
