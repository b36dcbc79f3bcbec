"""An idle connection costs no CPU on either side, nor in the control plane.

Both ends exchange messages, fall silent, and after a second of grace their running time is
read over ten seconds, from the scheduler (nanoseconds) and from utime + stime (ticks).
"""

from __future__ import annotations

import time

import kernel_view
from heliostat_run import Program, Side
from measure import Bench, Result, placements

GRACE_SECONDS = 1.0
WATCHED_SECONDS = 10.0
AIM_MS = 1.0


def start_pair(bench: Bench, side: Side, how: str) -> list[Program]:
    """A server and a client that have exchanged messages and wait for ever."""
    port, binary, place = kernel_view.free_port(), bench.program("idle"), placements()[-1]
    server = bench.harness.start(side, [binary, "server", port, how], core=place.server)
    kernel_view.wait_listening(port, server.process)
    client = bench.harness.start(side, [binary, "client", port, how], core=place.client)
    for program in (server, client):
        kernel_view.wait_until(lambda: "idle" in program.output(), 20, f"{program.name} idle")
    return [server, client]


def cpu_ms(bench: Bench, side: Side, how: str, seconds: float) -> float:
    """Milliseconds that both ends and the control plane ran while nothing happened."""
    programs = start_pair(bench, side, how)
    time.sleep(GRACE_SECONDS)
    watched = [program.pid for program in programs]
    watched += [bench.harness.control_plane()] if side is Side.HELIOSTAT else []
    ticks = sum(sum(kernel_view.cpu_ticks(pid)) for pid in watched)
    before = kernel_view.cpu_ns(*watched)
    time.sleep(seconds)
    spent = kernel_view.cpu_ns(*watched) - before
    ticks = sum(sum(kernel_view.cpu_ticks(pid)) for pid in watched) - ticks
    for program in programs:
        program.kill()
    return max(spent / 1e6, ticks * 10.0)


def measure(bench: Bench) -> list[Result]:
    seconds = WATCHED_SECONDS if bench.repetitions >= 5 else WATCHED_SECONDS / 5
    bench.cachelines = [line for line in [bench.cacheline_ns()] if line is not None]
    found = []
    for how in ("read", "epoll"):
        spent = {side: [cpu_ms(bench, side, how, seconds)] for side in bench.sides()}
        found.append(
            bench.compare(
                f"CPU in {seconds:.0f} s of silence, waiting in {how}",
                spent.get(Side.HELIOSTAT, []), spent[Side.PLAIN], "ms",
                better="less", aim=AIM_MS, aim_is="ours at most", cores="two cores",
            )
        )  # fmt: skip
    return found
