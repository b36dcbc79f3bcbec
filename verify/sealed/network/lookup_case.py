"""One case of sealed look-ups, in a namespace whose only name server is this test's own.

Called by test_network.py behind unshare(1): brings up the loopback, puts a resolv.conf over the
system's, answers questions at 127.0.0.53, runs the sealed program, and compares.
"""

from __future__ import annotations

import os
import socket
import socketserver
import struct
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]
from sealed_python import HELPERS, PYTHON  # noqa: E402

SERVER = "127.0.0.53"
# A wildcard leads to no address of this machine's own; this one belongs to documentation (RFC 5737).
OUTSIDE = "198.51.100.78"
ADDRESS = {
    "granted.test": "127.0.0.77",
    "a.below.test": OUTSIDE,
    "b.below.test": "127.0.0.78",
    "other.test": "127.0.0.79",
}
ASKED: list[str] = []

QUESTION = """
import struct
def question(name, option=b""):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    head = struct.pack(">6H", 7, 0x100, 1, 0, 0, 1 if option else 0)
    carrier = struct.pack(">BHHIHHH", 0, 41, 1232, 0, 4 + len(option), 65001, len(option)) + option
    return head + labels + b"\\0\\0\\1\\0\\1" + (carrier if option else b"")
"""
CASES = {
    # (flags, program, what it prints, names that the server may have been asked for)
    "libc": (
        ["--lookup", "granted.test", "--lookup", "*.below.test"],
        """
        def look(name):
            try:
                return socket.getaddrinfo(name, 1, socket.AF_INET)[0][4][0]
            except socket.gaierror:
                return "none"
        print(look("granted.test"), look("a.below.test"), look("other.test"))
        """,
        f"127.0.0.77 {OUTSIDE} none",
        {"granted.test", "a.below.test"},
    ),
    "connected": (
        ["--lookup", "granted.test"],
        QUESTION
        + """
one = socket.socket(type=socket.SOCK_DGRAM)
one.settimeout(60)
one.connect(("127.0.0.53", 53))
codes = []
for name in ("granted.test", "other.test"):
    one.send(question(name))
    codes.append(one.recv(512)[3] & 15)
print(*codes)
""",
        "0 5",
        {"granted.test"},
    ),
    "unconnected": (
        ["--lookup", "granted.test"],
        QUESTION
        + """
one = socket.socket(type=socket.SOCK_DGRAM)
one.settimeout(60)
asked = question("granted.test", b"smuggled")
sent = one.sendto(asked, ("127.0.0.53", 53))
answer, sender = one.recvfrom(512)
print(answer[3] & 15, sender[0], sent == len(asked), attempt(one.sendto, question("other.test"), ("127.0.0.53", 53)),
      attempt(one.sendto, b"anything", ("127.0.0.53", 53)))
""",
        "0 127.0.0.53 True EACCES EACCES",
        {"granted.test"},
    ),
    "stream": (
        ["--lookup", "granted.test"],
        QUESTION
        + """
one = socket.create_connection(("127.0.0.53", 53))
one.settimeout(60)
codes = []
for name in ("granted.test", "other.test"):
    asked = question(name)
    one.sendall(struct.pack(">H", len(asked)) + asked)
    codes.append(one.recv(512)[5] & 15)
print(*codes)
""",
        "0 5",
        {"granted.test"},
    ),
    "connect": (
        ["--connect", "granted.test:7777", "--connect", "*.below.test:7777"],
        """
        results = []
        for name in ("granted.test", "a.below.test", "b.below.test"):
            ip = socket.gethostbyname(name)
            results.append(attempt(socket.create_connection, (ip, 7777)))
            results.append(attempt(socket.create_connection, (ip, 7778)))
        print(*results, attempt(socket.create_connection, ("127.0.0.79", 7777)))
        """,
        "done EACCES done EACCES EACCES EACCES EACCES",
        {"granted.test", "a.below.test", "b.below.test"},
    ),
    "nothing": (
        [],
        """
        print(attempt(socket.socket(type=socket.SOCK_DGRAM).connect, ("127.0.0.53", 53)))
        """,
        "EACCES",
        set(),
    ),
}


def answer(question: bytes) -> bytes:
    """The answer to one question; names that are not known have no address."""
    labels, at = [], 12
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += 1 + question[at]
    name, kind = ".".join(labels).lower(), struct.unpack_from(">H", question, at + 1)[0]
    ASKED.append(name)
    if b"smuggled" in question:
        ASKED.append("more than the name")
    address = ADDRESS.get(name) if kind == 1 else None
    code = 0 if name in ADDRESS else 3
    head = question[:2] + struct.pack(">5H", 0x8180 | code, 1, 1 if address else 0, 0, 0)
    record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 60, 4) + socket.inet_aton(address) if address else b""
    return head + question[12 : at + 5] + record


class Datagrams(socketserver.BaseRequestHandler):
    """Questions in datagrams."""

    def handle(self):
        data, sock = self.request
        sock.sendto(answer(data), self.client_address)


class Streams(socketserver.BaseRequestHandler):
    """Questions in streams."""

    def handle(self):
        while len(head := self.request.recv(2, socket.MSG_WAITALL)) == 2:
            data = answer(self.request.recv(struct.unpack(">H", head)[0], socket.MSG_WAITALL))
            self.request.sendall(struct.pack(">H", len(data)) + data)


def start(handler) -> None:
    """Serves in a thread that ends with the process."""
    threading.Thread(target=handler.serve_forever, daemon=True).start()


def main(binary: str, case: str, folder: str) -> int:
    """Runs the case; 0 when everything was as it should be."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "address", "add", f"{OUTSIDE}/32", "dev", "lo"], check=True)
    configuration = Path(folder) / "resolv.conf"
    configuration.write_text(f"nameserver {SERVER}\noptions timeout:2 attempts:1\n")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", str(configuration), "/etc/resolv.conf"], check=True)
    start(socketserver.ThreadingUDPServer((SERVER, 53), Datagrams))
    start(socketserver.ThreadingTCPServer((SERVER, 53), Streams))
    listeners = [socket.create_server((ip, 7777)) for ip in ADDRESS.values()]
    flags, program, wanted, may_be_asked = CASES[case]
    text = HELPERS + textwrap.dedent(program)
    command = [binary, "run", "--sealed", *flags, "--", PYTHON, "-c", text]
    surroundings = dict(os.environ, HELIOSTAT_STUB="/nonexistent")
    done = subprocess.run(command, capture_output=True, text=True, env=surroundings, timeout=60)
    print(done.stdout, done.stderr, ASKED)
    del listeners
    is_right = done.stdout.strip() == wanted and {name.removesuffix(".") for name in ASKED} <= may_be_asked
    return 0 if is_right and done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
