"""iceoryx2: samples in shared memory, one publisher, one subscriber, its own event service.

`Copier` copies its array into the loaned sample, which is what a program does whose data lives
somewhere already. `Lender` works in the loaned sample: no copy, but each sample comes empty, so
it is measured only where every byte is written. A buffer of one with safe overflow keeps to the
newest, as its documentation says; samples and queue are allocated ahead.
"""

from __future__ import annotations

import ctypes
import time

import iceoryx2
import numpy
from place import Place

iceoryx2.set_log_level(iceoryx2.LogLevel.Error)


def services(place: Place) -> tuple:
    """The node, the data service and the event service of a place."""
    node = iceoryx2.NodeBuilder.new().create(iceoryx2.ServiceType.Ipc)
    data = node.service_builder(iceoryx2.ServiceName.new(place.name))
    data = data.publish_subscribe(iceoryx2.Slice[ctypes.c_uint8]).max_publishers(1)
    data = data.max_subscribers(1).history_size(0).subscriber_max_buffer_size(1)
    data = data.subscriber_max_borrowed_samples(2).enable_safe_overflow(True)
    event = node.service_builder(iceoryx2.ServiceName.new(place.name + "/bell")).event()
    return node, data.open_or_create(), event.open_or_create()


def elements(sample) -> numpy.ndarray:
    return numpy.frombuffer(sample.payload().as_memory_view(), dtype=numpy.int64)


class Publisher:
    """Loans and sends; a subclass says where the program's array is."""

    def __init__(self, place: Place):
        self.size_bytes = place.size_bytes
        self.node, data, event = services(place)
        ready = data.publisher_builder().initial_max_slice_len(place.size_bytes)
        ready = ready.allocation_strategy(iceoryx2.AllocationStrategy.Static)
        self.publisher = ready.max_loaned_samples(2).create()
        self.notifier = event.notifier_builder().create()

    def loan(self):
        return self.publisher.loan_slice_uninit(self.size_bytes)

    def send(self, sample) -> None:
        sample.assume_init().send()
        self.notifier.notify()

    def close(self) -> None:
        pass


class Copier(Publisher):
    def __init__(self, place: Place):
        super().__init__(place)
        self.memory = numpy.zeros(place.elements, dtype=numpy.int64)

    def publish(self) -> None:
        sample = self.loan()
        numpy.copyto(elements(sample), self.memory)
        self.send(sample)


class Lender(Publisher):
    def __init__(self, place: Place):
        super().__init__(place)
        self.sample = self.loan()
        self.memory = elements(self.sample)

    def publish(self) -> None:
        self.send(self.sample)
        self.sample = self.loan()
        self.memory = elements(self.sample)


class Subscriber:
    def __init__(self, place: Place):
        self.node, data, event = services(place)
        self.subscriber = data.subscriber_builder().create()
        self.listener = event.listener_builder().create()
        self.sample, self.seen = None, None

    def wait(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        # An event may be of a sample that was received already: look again.
        while not self.subscriber.has_samples():
            left = ends - time.monotonic()
            if left <= 0:
                return False
            self.listener.timed_wait(iceoryx2.Duration.from_nanos(int(left * 1e9)))
        return True

    def attach(self) -> None:
        self.sample = self.subscriber.receive()
        self.seen = elements(self.sample)

    def part(self, start: int, count: int) -> numpy.ndarray:
        return self.seen[start : start + count]

    def all(self) -> numpy.ndarray:
        return self.seen

    def release(self) -> None:
        self.seen = None
        self.sample.delete()
