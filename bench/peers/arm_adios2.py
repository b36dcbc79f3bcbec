"""ADIOS2: steps of a stream from one writer to one reader, by SST and by Heliostat's engine.

SST of the wheel has one data plane, EVPath over TCP sockets: no RDMA, UCX or shared memory. Set
as its documentation advises for a reader that wants the newest: a queue of one step, older ones
discarded, AlwaysProvideLatestTimestep; deferred puts; a reader fetches what it selects.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import adios2
import numpy
from adios2 import bindings
from place import Place

WAN = {"DataTransport": "WAN", "ControlTransport": "sockets"}
# Between two looks for a step: well under what a step costs.
POLL_S = 0.0002

EngineOf = Callable[[Place, bindings.Mode], tuple[str, dict]]


def sst(_place: Place, mode: bindings.Mode) -> tuple[str, dict]:
    """Engine and parameters of SST."""
    if mode == bindings.Mode.Write:
        more = {"QueueLimit": "1", "QueueFullPolicy": "Discard", "RendezvousReaderCount": "1"}
    else:
        more = {"AlwaysProvideLatestTimestep": "True", "OpenTimeoutSecs": "60"}
    return "SST", WAN | more


def plugin(place: Place, _mode: bindings.Mode) -> tuple[str, dict]:
    """Engine and parameters of Heliostat's engine, over the array that is put."""
    import heliostat.adios2

    return "Plugin", heliostat.adios2.parameters(place.name, in_place=True)


def declared(place: Place, engine_of: EngineOf, mode: bindings.Mode) -> adios2.IO:
    """An IO of the place's name, with engine and parameters."""
    io = adios2.Adios().declare_io(place.name)
    engine, settings = engine_of(place, mode)
    io.set_engine(engine)
    io.set_parameters(settings)
    return io


class Writer:
    engine_of = staticmethod(sst)

    def __init__(self, place: Place):
        self.memory = numpy.zeros(place.elements, dtype=numpy.int64)
        self.io = declared(place, self.engine_of, bindings.Mode.Write)
        count = [place.elements]
        self.variable = self.io.define_variable("field", self.memory, count, [0], count)
        self.engine = self.io.open(str(place.folder / place.name), bindings.Mode.Write)

    def publish(self) -> None:
        self.engine.begin_step()
        self.engine.put(self.variable, self.memory, bindings.Mode.Deferred)
        self.engine.end_step()

    def close(self) -> None:
        self.engine.close()


class Reader:
    engine_of = staticmethod(sst)

    def __init__(self, place: Place):
        self.copy = numpy.zeros(place.elements, dtype=numpy.int64)
        self.io = declared(place, self.engine_of, bindings.Mode.Read)
        self.engine = self.io.open(str(place.folder / place.name), bindings.Mode.Read)
        self.variable = None

    def wait(self, seconds: float) -> bool:
        # A timeout that expires while a step arrives crashes SST's reader; a poll does not.
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


class PluginWriter(Writer):
    engine_of = staticmethod(plugin)


class PluginReader(Reader):
    engine_of = staticmethod(plugin)
