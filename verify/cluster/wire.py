"""The wire between nodes in networks of their own: a switch that loses, delays and reorders frames, and is cut.

`wire.py SOCKET SEED PID...`: in the network namespace of each process an interface eth0 with an address
10.77.0.1, 10.77.0.2 and so on, all on one switch, which is this process (kernels without `tc netem` can have
it too). Whoever connects to the socket sends a line of JSON and gets one back when it holds from then on:

    {"loss": 0.02, "delay_ms": 2, "jitter_ms": 1, "reorder": 0.1}     each may be left out: none of it
    {"cut": [2]}                                                      these nodes hear nobody and nobody them

What is lost is drawn from the seed. Frames of a node that is cut are lost, as are those on their way to it.
"""

from __future__ import annotations

import ctypes
import fcntl
import heapq
import json
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
CLONE_NEWNET = 0x40000000
FRAME_BYTES, QUEUED_MAX = 65_536, 20_000
# A reordered frame is passed by those of so many milliseconds.
REORDER_MS = 3.0


def open_port(pid: int, number: int) -> int:
    """An interface of a namespace, with its address; frames are read and written here."""
    namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
    os.close(namespace)
    port = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(port, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TAP | IFF_NO_PI))
    for words in (
        ["link", "set", "lo", "up"],
        ["address", "add", f"10.77.0.{number}/24", "dev", "eth0"],
        ["link", "set", "eth0", "mtu", "9000", "up"],
    ):
        subprocess.run(["ip", *words], check=True)
    return port


class Switch:
    """Ports, and what becomes of frames between them."""

    def __init__(self, ports: dict[int, int], seed: int) -> None:
        self.ports = ports
        self.random = random.Random(seed)
        self.at: dict[bytes, int] = {}
        self.queue: list[tuple[float, int, int, bytes]] = []
        self.sequence = 0
        self.set({})

    def set(self, told: dict) -> None:
        self.loss, self.reorder = told.get("loss", 0.0), told.get("reorder", 0.0)
        self.delay_s, self.jitter_s = told.get("delay_ms", 0) / 1000, told.get("jitter_ms", 0) / 1000
        self.cut = set(told.get("cut", []))
        if self.cut:
            self.queue = [entry for entry in self.queue if entry[2] not in self.cut]
            heapq.heapify(self.queue)

    def take(self, number: int) -> None:
        """Takes some frames of a node's."""
        for _ in range(64):
            try:
                frame = os.read(self.ports[number], FRAME_BYTES)
            except BlockingIOError:
                return
            self.at[frame[6:12]] = number
            known = self.at.get(frame[0:6])
            others = [known] if known else [other for other in self.ports if other != number]
            for other in others:
                self.carry(number, other, frame)

    def carry(self, number: int, other: int, frame: bytes) -> None:
        if number in self.cut or other in self.cut or self.random.random() < self.loss:
            return
        later = self.delay_s + self.jitter_s * self.random.random()
        if self.reorder and self.random.random() < self.reorder:
            later += REORDER_MS / 1000
        if later == 0 and not self.queue:
            return self.put(other, frame)
        if len(self.queue) < QUEUED_MAX:
            self.sequence += 1
            heapq.heappush(self.queue, (time.monotonic() + later, self.sequence, other, frame))

    def put(self, number: int, frame: bytes) -> None:
        try:
            os.write(self.ports[number], frame)
        except (BlockingIOError, OSError):
            # As a full queue of a card: the frame is lost.
            pass

    def deliver(self) -> float | None:
        """Puts out what is due; seconds until the next."""
        now = time.monotonic()
        while self.queue and self.queue[0][0] <= now:
            _, _, number, frame = heapq.heappop(self.queue)
            self.put(number, frame)
        return max(0.0, self.queue[0][0] - now) if self.queue else None


def serve(switch: Switch, listener: socket.socket) -> None:
    by_port = {port: number for number, port in switch.ports.items()}
    while True:
        ready, _, _ = select.select([*by_port, listener], [], [], switch.deliver())
        for each in ready:
            if each is listener:
                told, _ = listener.accept()
                with told, told.makefile("rw") as lines:
                    switch.set(json.loads(lines.readline()))
                    lines.write("{}\n")
            else:
                switch.take(by_port[each])


def main() -> None:
    path, seed, *pids = sys.argv[1:]
    # Sockets in files are the same in every network namespace.
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    ports = {number: open_port(int(pid), number) for number, pid in enumerate(pids, 1)}
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    listener.listen(8)
    print("ready", flush=True)
    serve(Switch(ports, int(seed)), listener)


if __name__ == "__main__":
    main()
