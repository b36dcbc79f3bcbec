"""The reading side of a stream of steps: pins a step's versions, and shows them to ADIOS2."""

from __future__ import annotations

import time
from typing import Protocol

import numpy as np

from ._adios2_steps import KINDS, Attribute, Part, Step, decode
from ._adios2_writer import at_address
from ._attachment import Attachment, attach
from ._errors import Gone, NotFound
from ._snapshot import Snapshot

OK, NOT_READY, END, FAILED = range(4)
# What a region without an index is called among a step's variables.
VARIABLE = "array"
# Between two looks for a stream that is not there yet, and for a writer that was killed.
LOOK_S = 0.005
ALIVE_S = 1.0


class Definitions(Protocol):
    """What ADIOS2 wants to know of a step."""

    def define(self, name: str, kind: str, shape: tuple[int, ...]) -> None: ...
    def forget(self, name: str) -> None: ...
    def attribute(self, name: str, it: Attribute) -> None: ...


class Reader:
    """A stream that this process reads. A step stays pinned until its end."""

    def __init__(self, stream: str, is_ordered: bool, definitions: Definitions):
        self.stream, self.is_ordered, self.definitions = stream, is_ordered, definitions
        self.index: Attachment | None = None
        self.title = ""
        self.attached: dict[str, Attachment] = {}
        self.pinned: dict[str, Snapshot] = {}
        self.defined: set[str] = set()
        self.now = Step(-1)
        self.seen = 0

    @property
    def step(self) -> int:
        return self.now.number

    def begin(self, seconds: float) -> int:
        """Waits for a step; for ever if `seconds` is negative."""
        ends = time.monotonic() + seconds if seconds >= 0 else None
        while True:
            if self.index is None and not self._find():
                time.sleep(LOOK_S)
            elif self._take():
                return OK
            elif self.now.is_last:
                return END
            elif not self._wait(ends):
                return END if self.index and self.index.is_closed else FAILED
            if ends is not None and time.monotonic() >= ends:
                return NOT_READY

    def _find(self) -> bool:
        """Attaches to the stream's index, or to a region that has the stream's name itself."""
        for name in (f"{self.stream}/steps", self.stream):
            try:
                self.index, self.title = attach(name), name
            except NotFound:
                continue
            return True
        return False

    def _wait(self, ends: float | None) -> bool:
        """Sleeps for a while; false when the writer has ended, in whatever way."""
        assert self.index is not None
        left = ALIVE_S if ends is None else min(ALIVE_S, max(0.0, ends - time.monotonic()))
        if self.index.wait(self.seen, left) or left < ALIVE_S:
            return True
        if self.index.is_closed:
            return False
        try:
            attach(self.title)
        except NotFound:
            return False
        return True

    def _take(self) -> bool:
        """Pins the next step that can be had; false when there is none now."""
        assert self.index is not None
        newest = self.index.latest_number
        first = self.seen + 1 if self.is_ordered else max(newest, 1)
        for number in range(max(first, newest - 16), newest + 1):
            if number > self.seen and self._take_version(number):
                return True
        return False

    def _take_version(self, number: int) -> bool:
        assert self.index is not None
        if self.title == self.stream:
            return self._take_region(number)
        try:
            with self.index.numbered(number) as snapshot:
                step = decode(snapshot.array())
        except Gone:
            return False
        if step.number == self.step:
            self.now.is_last, self.seen = step.is_last, number
            return False
        try:
            self.pinned = {name: self._pin(part) for name, part in step.parts.items()}
        except (Gone, NotFound):
            return False
        self.now, self.seen = step, number
        self._define()
        return True

    def _take_region(self, number: int) -> bool:
        """A version of a region that some Heliostat program publishes: a step of one variable."""
        assert self.index is not None
        try:
            snapshot = self.index.numbered(number)
        except Gone:
            return False
        kind = {np.dtype(code): kind for kind, code in KINDS.items()}.get(snapshot.dtype)
        if kind is None:
            raise ValueError(f"{self.stream} is of {snapshot.dtype}, which ADIOS2 has not")
        part = Part(kind, snapshot.array().shape, self.stream, number)
        self.now, self.seen = Step(number - 1, parts={VARIABLE: part}), number
        self.pinned = {VARIABLE: snapshot}
        self._define()
        return True

    def _pin(self, part: Part) -> Snapshot:
        if part.region not in self.attached:
            self.attached[part.region] = attach(part.region)
        source = self.attached[part.region]
        expected = (np.dtype(KINDS[part.kind]), part.shape or (1,))
        if (source.layout.dtype, source.layout.shape) != expected:
            raise ValueError(f"{part.region} is not what the index says: {expected}")
        return source.numbered(part.version)

    def _define(self) -> None:
        """Tells ADIOS2 the step's variables and attributes, and those that it has not."""
        kinds = {name: (part.kind, part.shape) for name, part in self.now.parts.items()}
        kinds |= {name: ("string", ()) for name in self.now.texts}
        for name in self.defined - kinds.keys():
            self.definitions.forget(name)
        for name, (kind, shape) in kinds.items():
            self.definitions.define(name, kind, shape)
        self.defined = set(kinds)
        for name, it in self.now.attributes.items():
            self.definitions.attribute(name, it)
        regions = {part.region for part in self.now.parts.values()}
        self.attached = {name: it for name, it in self.attached.items() if name in regions}

    def get(self, name: str, start: tuple[int, ...], count: tuple[int, ...], into: int) -> None:
        """Copies a selection of a variable to where the program wants it."""
        part = self.now.parts.get(name)
        if part is None or name not in self.pinned:
            raise ValueError(f"{name} is not in this step")
        target, source = at_address(into, part.kind, count), self.pinned[name].array()
        if part.shape:
            places = zip(start, count, part.shape, strict=True)
            if not all(s + c <= extent for s, c, extent in places):
                raise ValueError(f"{count} at {start} is not inside {name}, which is {part.shape}")
            source = source[tuple(slice(s, s + c) for s, c in zip(start, count, strict=True))]
        np.copyto(target, source)

    def get_text(self, name: str) -> str:
        return self.now.texts[name]

    def end(self) -> None:
        for snapshot in self.pinned.values():
            snapshot.release()
        self.pinned = {}

    def close(self) -> None:
        self.end()
        self.attached, self.index = {}, None
