"""A long transfer whose every byte is checked: `python checked_transfer.py send|take PORT SECONDS`.

The sender writes numbered 4 KiB blocks for so long; the taker checks the numbers and prints
how many arrived in order. Both print "ready" when bytes flow.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

BLOCK = 4096


def send(port: int, seconds: float) -> None:
    with socket.create_connection(("127.0.0.1", port)) as connection:
        print("ready", flush=True)
        number, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(struct.pack("<Q", number) * (BLOCK // 8))
            number += 1
            time.sleep(0.0005)
    print("sent", number, flush=True)


def take(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection = listener.accept()[0]
    print("ready", flush=True)
    blocks, number = connection.makefile("rb"), 0
    while block := blocks.read(BLOCK):
        if block != struct.pack("<Q", number) * (BLOCK // 8):
            print("wrong block", number, flush=True)
            return
        number += 1
    print("taken", number, flush=True)


def main() -> None:
    role, port = sys.argv[1], int(sys.argv[2])
    send(port, float(sys.argv[3])) if role == "send" else take(port)


if __name__ == "__main__":
    main()
