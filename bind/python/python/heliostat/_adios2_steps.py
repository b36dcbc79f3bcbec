"""What a step of a stream is: one region per variable, and an index that says which versions.

    STREAM/steps         the index: a length (8 bytes, little-endian) and JSON
    STREAM/NAME.N        a variable, as an array; N counts up when its type or shape changes

The writer publishes the variables first and the index last, so an index that can be read names
versions that exist. A reader pins them all before it believes the step; if one has gone, so has
the step, and there is a newer one.
"""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

INDEX_BYTES = 1 << 20
VARIABLES_MAX = 1000

# ADIOS2's names of types, as GetType and Type() say them.
KINDS = {
    "char": "i1", "int8_t": "i1", "int16_t": "<i2", "int32_t": "<i4", "int64_t": "<i8",
    "uint8_t": "u1", "uint16_t": "<u2", "uint32_t": "<u4", "uint64_t": "<u8",
    "float": "<f4", "double": "<f8", "float complex": "<c8", "double complex": "<c16",
}  # fmt: skip


@dataclass(frozen=True)
class Attribute:
    """Values of one of ADIOS2's types, as bytes; texts end with a zero each."""

    kind: str
    single: bool
    data: bytes


@dataclass(frozen=True)
class Part:
    """Where a variable of a step is."""

    kind: str
    shape: tuple[int, ...]
    region: str
    version: int


@dataclass
class Step:
    """The index's content."""

    number: int
    is_last: bool = False
    parts: dict[str, Part] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Attribute] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Length and JSON. Raises ValueError when there is more to say than the index holds."""
        parts = {k: [v.kind, v.shape, v.region, v.version] for k, v in self.parts.items()}
        attributes = {
            k: [v.kind, v.single, base64.b64encode(v.data).decode()]
            for k, v in self.attributes.items()
        }
        said = {"step": self.number, "last": self.is_last, "variables": parts}
        text = json.dumps(said | {"texts": self.texts, "attributes": attributes}).encode()
        if len(text) + 8 > INDEX_BYTES:
            raise ValueError(f"names and attributes of a step take {len(text)} bytes; 1 MiB is room")
        return len(text).to_bytes(8, "little") + text


def decode(content: npt.NDArray[np.uint8]) -> Step:
    """The index of a foreign stream, checked. Raises ValueError for anything else."""
    length = int.from_bytes(content[:8].tobytes(), "little")
    if length > len(content) - 8:
        raise ValueError("this region is no stream of steps")
    try:
        return _step(json.loads(content[8 : 8 + length].tobytes()))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"this region is no stream of steps: {error!r}") from None


def _step(said: dict[str, Any]) -> Step:
    step = Step(int(said["step"]), bool(said["last"]))
    for name, (kind, shape, region, version) in list(said["variables"].items())[:VARIABLES_MAX]:
        if kind not in KINDS:
            raise ValueError(f"{name} is of type {kind}, which is none of ADIOS2's numbers")
        step.parts[name] = Part(kind, tuple(int(one) for one in shape), str(region), int(version))
    step.texts = {str(name): str(text) for name, text in said["texts"].items()}
    for name, (kind, single, data) in said["attributes"].items():
        content = base64.b64decode(data)
        if kind != "string" and len(content) % np.dtype(KINDS[kind]).itemsize or not content:
            raise ValueError(f"attribute {name} is {len(content)} bytes of {kind}")
        if kind == "string" and not content.endswith(b"\0"):
            raise ValueError(f"attribute {name} is a text without an end")
        step.attributes[name] = Attribute(str(kind), bool(single), content)
    return step


def region_name(stream: str, variable: str, count: int) -> str:
    """A region's name for a variable, whose own name may hold anything."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", variable)[:24]
    return f"{stream}/{plain}.{count}"
