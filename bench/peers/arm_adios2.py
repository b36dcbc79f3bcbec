"""ADIOS2's SST engine: steps of a stream from one writer to one reader.

The wheel brings one data plane, EVPath over TCP sockets: no RDMA, UCX or shared memory. Set as
its documentation advises for a reader that wants the newest: a queue of one step, older ones
discarded, AlwaysProvideLatestTimestep; deferred puts; the selection read is what is fetched.
"""

from __future__ import annotations

import time

import adios2
import numpy
from adios2 import bindings
from place import Place

WAN = {"DataTransport": "WAN", "ControlTransport": "sockets"}
WRITER = WAN | {"QueueLimit": "1", "QueueFullPolicy": "Discard", "RendezvousReaderCount": "1"}
READER = WAN | {"AlwaysProvideLatestTimestep": "True", "OpenTimeoutSecs": "60"}


def stream(place: Place, mode: bindings.Mode, settings: dict) -> tuple:
    """A declared IO and its opened engine; opening blocks until the other side is there."""
    io = adios2.Adios().declare_io(place.name)
    io.set_engine("SST")
    io.set_parameters(settings)
    return io, lambda: io.open(str(place.folder / place.name), mode)


# Between two looks for a step: well under what a step costs.
POLL_S = 0.0002


class Writer:
    def __init__(self, place: Place):
        self.memory = numpy.zeros(place.elements, dtype=numpy.int64)
        io, open_stream = stream(place, bindings.Mode.Write, WRITER)
        count = [place.elements]
        self.variable = io.define_variable("field", self.memory, count, [0], count)
        self.io, self.engine = io, open_stream()

    def publish(self) -> None:
        self.engine.begin_step()
        self.engine.put(self.variable, self.memory, bindings.Mode.Deferred)
        self.engine.end_step()

    def close(self) -> None:
        self.engine.close()


class Reader:
    def __init__(self, place: Place):
        self.copy = numpy.zeros(place.elements, dtype=numpy.int64)
        self.io, open_stream = stream(place, bindings.Mode.Read, READER)
        self.engine = open_stream()
        self.variable = None

    def wait(self, seconds: float) -> bool:
        # A timeout that expires while a step arrives crashes the wheel's reader; a poll does not.
        ends = time.monotonic() + seconds
        while self.engine.begin_step(bindings.StepMode.Read, 0.0) != bindings.StepStatus.OK:
            if time.monotonic() > ends:
                return False
            time.sleep(POLL_S)
        return True

    def attach(self) -> None:
        self.variable = self.io.inquire_variable("field")

    def part(self, start: int, count: int) -> numpy.ndarray:
        self.variable.set_selection([[start], [count]])
        into = self.copy[start : start + count]
        self.engine.get(self.variable, into, bindings.Mode.Sync)
        return into

    def all(self) -> numpy.ndarray:
        return self.part(0, len(self.copy))

    def release(self) -> None:
        self.engine.end_step()
