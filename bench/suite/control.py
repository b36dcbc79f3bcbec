"""What requests to the control plane cost with few and with many sessions.

The control plane is one thread with tables, so a request should cost the same however many
sessions there are. This benchmark speaks the protocol itself (docs/control-protocol.md), as a
stub does; "theirs" is the same control plane with none of the other sessions.
"""

from __future__ import annotations

import resource
import socket
import struct
import time

from heliostat_run import BINARY, CONTROL_PLANE, Side, wait_control
from measure import Bench, Result

MAGIC, VERSION = b"HELI", 1
REQUEST_BYTES, REPLY_BYTES_MAX = 128, 4096
HELLO, LISTEN, OPEN, ATTACH = 1, 2, 4, 5
OTHERS, ROUNDS = 1500, 200
LIMITS = "[limits]\nconnects_burst = 100000\nchannels_per_pair = 64\n"
NOTE = f"median of {ROUNDS} requests, with {OTHERS} other sessions and without"


class Session:
    """A connection to the control plane that has greeted."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)
        self.granted(HELLO, struct.pack("<I", 5) + b"bench")

    def ask(self, kind: int, body: bytes = b"", *fds: int) -> tuple[int, bytes]:
        """Code and body of the answer; descriptors that come along are closed."""
        record = MAGIC + struct.pack("<HHIHH", VERSION, kind, 0, 0, 0) + body
        socket.send_fds(self.socket, [record.ljust(REQUEST_BYTES, b"\0")], fds)
        answer, given, _, _ = socket.recv_fds(self.socket, REPLY_BYTES_MAX, 16)
        for one in given:
            socket.close(one)
        return struct.unpack_from("<H", answer, 12)[0], answer[16:]

    def granted(self, kind: int, body: bytes = b"", *fds: int) -> bytes:
        """Body of an answer that must not be a refusal."""
        code, answer = self.ask(kind, body, *fds)
        if code != 0:
            raise RuntimeError(f"the control plane refused request {kind} with code {code}")
        return answer

    def close(self) -> None:
        self.socket.close()


def address(port: int) -> bytes:
    """127.0.0.1, as it travels."""
    return struct.pack("<BBH", 4, 0, port) + bytes([127, 0, 0, 1]).ljust(16, b"\0")


def timed(work) -> float:
    """Microseconds."""
    began = time.perf_counter_ns()
    work()
    return (time.perf_counter_ns() - began) / 1e3


def costs(path: str, others: int) -> dict[str, list[float]]:
    """Samples of each request beside so many sessions that do nothing."""
    idle = [Session(path) for _ in range(others)]
    server, listening = Session(path), socket.create_server(("127.0.0.1", 0))
    port = server.granted(LISTEN, b"", listening.fileno())[:8]
    there = address(listening.getsockname()[1])
    clients = [Session(path) for _ in range(ROUNDS)]
    client = clients[0]
    found = {
        "a session, greeted and ended": [timed(lambda: Session(path).close()) for _ in range(ROUNDS)],
        "a channel to nobody, refused": [timed(lambda: client.ask(OPEN, address(1))) for _ in range(ROUNDS)],
        "a channel, opened": [timed(lambda one=one: one.granted(OPEN, there)) for one in clients],
        "no new channels, asked for": [timed(lambda: server.granted(ATTACH, port)) for _ in range(ROUNDS)],
    }
    for one in (*idle, *clients, server):
        one.close()
    listening.close()
    return found


def measure(bench: Bench) -> list[Result]:
    """Few and many take turns."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 8192), limit[1]))
    harness = bench.harness
    (harness.folder / "costs.toml").write_text(LIMITS)
    path = f"{harness.folder}/costs.sock"
    words = [BINARY.with_name(CONTROL_PLANE), "--foreground", "--config", harness.folder / "costs.toml", "--socket", path]
    harness.start(Side.PLAIN, words, name="control plane")
    wait_control(path)
    samples: dict[int, dict[str, list[float]]] = {OTHERS: {}, 0: {}}
    for _ in range(min(bench.repetitions, 3)):
        for others, known in samples.items():
            for name, values in costs(path, others).items():
                known.setdefault(name, []).extend(values)
    return [
        bench.compare(name, values, samples[0][name], "us", better="less", cores="any", note=NOTE)
        for name, values in samples[OTHERS].items()
    ]
