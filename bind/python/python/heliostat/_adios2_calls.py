"""Between the compiled ADIOS2 engine and the steps in Python: a table of C functions.

Every function of the table catches what its body raises, keeps the text as the reason, and
answers FAILED; the engine turns that into an exception of ADIOS2's.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p
from typing import Any

from ._adios2_reader import Reader
from ._adios2_steps import Attribute
from ._adios2_writer import Writer

FAILED = 9
SIZES = POINTER(c_size_t)

_streams: dict[int, Any] = {}
# Never given again: an engine's end may come long after its stream was closed.
_numbers = itertools.count(1)
_reason = b""
_text = b""
# ctypes does not keep what C keeps.
_kept: list[Any] = []


class Definitions:
    """What a reader tells its engine."""

    def __init__(self, library: ctypes.CDLL, engine: int):
        self._library, self._engine = library, c_void_p(engine)

    def define(self, name: str, kind: str, shape: tuple[int, ...]) -> None:
        sizes = (c_size_t * max(1, len(shape)))(*shape)
        self._call("define", name, kind.encode(), c_size_t(len(shape)), sizes)

    def forget(self, name: str) -> None:
        self._call("forget", name)

    def attribute(self, name: str, it: Attribute) -> None:
        data, size = c_char_p(it.data), c_size_t(len(it.data))
        self._call("define_attribute", name, it.kind.encode(), c_int(it.single), data, size)

    def _call(self, what: str, name: str, *words: Any) -> None:
        function = getattr(self._library, f"heliostat_engine_{what}")
        if function(self._engine, name.encode(), *words) != 0:
            raise ValueError(f"ADIOS2 does not take {name} from this step")


def guarded(body: Callable[..., Any], failed: Any) -> Callable[..., Any]:
    """`body`, whose exceptions become `failed` with a reason."""

    def call(*words: Any) -> Any:
        global _reason
        try:
            answer = body(*words)
            return 0 if answer is None else answer
        except BaseException as error:  # noqa: BLE001 - C++ above has no use for any of them
            _reason = f"{type(error).__name__}: {error}".encode()
            return failed

    return call


def opener(library: ctypes.CDLL) -> Callable[[int, int, bytes], int]:
    """Opens a stream for an engine; answers its number."""

    def open_stream(engine: int, writes: int, text: bytes) -> int:
        said = dict(line.split("=", 1) for line in text.decode().splitlines())
        name, number = said["Region"], next(_numbers)
        if writes:
            in_place = said.get("InPlace", "").lower() in ("true", "yes", "on", "1")
            _streams[number] = Writer(name, int(said.get("Queue", "1")), in_place, merger(library))
        else:
            is_ordered = said.get("Order", "latest") == "next"
            _streams[number] = Reader(name, is_ordered, Definitions(library, engine))
        return number

    return open_stream


def merger(library: ctypes.CDLL) -> Callable[[int, int, int], None]:
    """Copies the pages that differ: (into, from, bytes)."""
    merge = library.heliostat_engine_merge
    merge.argtypes, merge.restype = [c_void_p, c_void_p, c_size_t], None
    return merge


def begin(number: int, seconds: float) -> int:
    return int(_streams[number].begin(seconds))


def end(number: int) -> None:
    _streams[number].end()


def current(number: int) -> int:
    return max(0, int(_streams[number].step))


def put(number: int, name: bytes, kind: bytes, deferred: int, rank: int, *where: Any) -> None:
    shape, start, count = (tuple(sizes[:rank]) for sizes in where[:3])
    box = (shape, start, count)
    _streams[number].put(name.decode(), kind.decode(), bool(deferred), box, where[3])


def get(number: int, name: bytes, rank: int, start: Any, count: Any, into: int) -> None:
    _streams[number].get(name.decode(), tuple(start[:rank]), tuple(count[:rank]), into)


def put_text(number: int, name: bytes, text: bytes) -> None:
    _streams[number].put_text(name.decode(), text.decode())


def get_text(number: int, name: bytes) -> int:
    global _text
    _text = _streams[number].get_text(name.decode()).encode()
    _kept[0] = ctypes.create_string_buffer(_text)
    return ctypes.addressof(_kept[0])


def reason() -> int:
    _kept[1] = ctypes.create_string_buffer(_reason)
    return ctypes.addressof(_kept[1])


def attribute(number: int, name: bytes, kind: bytes, single: int, data: int, size: int) -> None:
    content = ctypes.string_at(data, size) if size else b""
    _streams[number].attribute(name.decode(), Attribute(kind.decode(), bool(single), content))


def close(number: int) -> None:
    """Twice is once: the engine closes, and its end does."""
    stream = _streams.pop(number, None)
    if stream is not None:
        stream.close()


def table(library: ctypes.CDLL) -> list[Any]:
    """The functions in the order of `Calls` in the engine."""
    typed: list[tuple[Any, Callable[..., Any], Any]] = [
        (CFUNCTYPE(c_int64, c_void_p, c_int, c_char_p), opener(library), -1),
        (CFUNCTYPE(c_int, c_int64, c_double), begin, FAILED),
        (
            CFUNCTYPE(
                c_int, c_int64, c_char_p, c_char_p, c_int, c_size_t, SIZES, SIZES, SIZES, c_void_p
            ),
            put,
            FAILED,
        ),
        (CFUNCTYPE(c_int, c_int64, c_char_p, c_size_t, SIZES, SIZES, c_void_p), get, FAILED),
        (
            CFUNCTYPE(c_int, c_int64, c_char_p, c_char_p),
            put_text,
            FAILED,
        ),
        (CFUNCTYPE(c_void_p, c_int64, c_char_p), get_text, None),
        (
            CFUNCTYPE(c_int, c_int64, c_char_p, c_char_p, c_int, c_void_p, c_size_t),
            attribute,
            FAILED,
        ),
        (CFUNCTYPE(c_int, c_int64), end, FAILED),
        (CFUNCTYPE(c_int64, c_int64), current, 0),
        (CFUNCTYPE(None, c_int64), close, None),
        (CFUNCTYPE(c_void_p), reason, None),
    ]
    return [kind(guarded(body, failed)) for kind, body, failed in typed]


def register(library: ctypes.CDLL) -> None:
    """Gives a loaded engine its functions."""
    functions = table(library)
    pointers = (c_void_p * len(functions))(*(ctypes.cast(one, c_void_p) for one in functions))
    _kept.extend([None, None] if not _kept else [])
    _kept.append(functions)
    library.heliostat_engine_calls(pointers)
