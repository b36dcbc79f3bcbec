"""A client that pings a Redis server on a Unix socket, at fixed times, and keeps each latency.

`redis_pings.py SOCKET PERIOD_US OUT`, ended by the end of its standard input. A ping that was due
while another had no answer counts as if it had waited for that one, so a stop shows in all of them.
Writes pairs of doubles: when it was due (s, CLOCK_MONOTONIC) and how long it took (us).
"""

from __future__ import annotations

import array
import select
import socket
import sys
import time


def main() -> None:
    path, period, out = sys.argv[1], float(sys.argv[2]) / 1e6, sys.argv[3]
    found = array.array("d")
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        due = time.monotonic() + period
        while not select.select([sys.stdin], [], [], 0)[0]:
            while (left := due - time.monotonic()) > 0:
                time.sleep(left)
            server.sendall(b"PING\r\n")
            server.recv(64)
            now = time.monotonic()
            while due <= now:
                found.extend((due, (now - due) * 1e6))
                due += period
    with open(out, "wb") as file:
        found.tofile(file)


if __name__ == "__main__":
    main()
