"""The head in front of an array in cluster memory: what the bytes behind it are.

    0 mark (8)   8 version u32   12 bytes of the text u32   16 CRC-32 of the text u32   20 zeros
    32 text: a `Layout`, as in a region's description
    4096 the array

Whoever opens the array has it from another program, so it is checked like any foreign input.
"""

from __future__ import annotations

import json
import struct
import zlib

from . import _layout
from ._errors import Corrupt, InvalidRegion
from ._layout import Layout

HEAD_BYTES = 4096
_MARK = b"HLARRAY\0"
_VERSION = 1
_NUMBERS = struct.Struct("<8sIII12x")
_TEXT_MAX = HEAD_BYTES - _NUMBERS.size


def encode(layout: Layout) -> bytes:
    """The head of an array of this layout."""
    text = layout.encode()
    if len(text) > _TEXT_MAX:
        raise InvalidRegion(f"a description of {len(text)} bytes; {_TEXT_MAX} fit in front of an array")
    return _NUMBERS.pack(_MARK, _VERSION, len(text), zlib.crc32(text)) + text


def decode(head: bytes, nbytes: int) -> Layout:
    """The layout that a head tells, of an array for which there are so many bytes."""
    mark, version, length, checksum = _NUMBERS.unpack_from(head)
    if mark != _MARK:
        raise Corrupt("it does not begin with an array's head")
    if version != _VERSION:
        raise Corrupt(f"its head is of version {version}, and {_VERSION} is known")
    text = head[_NUMBERS.size : _NUMBERS.size + length]
    if length > _TEXT_MAX or zlib.crc32(text) != checksum:
        raise Corrupt("its head is damaged")
    try:
        layout = _layout.parse(json.loads(text))
    except Exception as error:  # foreign text: NumPy and json raise many kinds
        raise Corrupt(f"its head tells no data type and shape: {error}") from None
    if layout is None or layout.nbytes > nbytes:
        raise Corrupt("its head tells of more than there is")
    return layout
