"""Descriptions from other programs: what is nonsense means bytes."""

from __future__ import annotations

import json

import heliostat
import numpy as np
import pytest
from heliostat import _native
from heliostat._layout import Layout, decode

BYTES = Layout(np.dtype(np.uint8), (80,))


def said(**more) -> bytes:
    return json.dumps({"heliostat": 1, "typestr": "<f8", "shape": [10], **more}).encode()


def test_a_description_is_read_as_it_was_written():
    for layout in (Layout(np.dtype("<f8"), (2, 5)), Layout(np.dtype("i2,(3,)u2"), (10,))):
        assert decode(layout.encode(), 80) == layout


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"null",
        b"{" * 2000,
        b"[" * 2000,
        said(heliostat=2),
        said(shape=[11]),
        said(shape=[-2, -5]),
        said(shape=[10.0]),
        said(shape=[True] * 10),
        said(shape=[1] * 64 + [10]),
        said(shape="10"),
        said(shape=[2**62, 2**62, 5]),
        said(typestr="|O"),
        said(typestr="nonsense"),
        said(typestr="|V0"),
        said(typestr=8),
        said(typestr="<f8,O"),
        said(descr=[["a", "|O"]]),
        said(descr=[["a", "<f8"], ["a", "<f8"]]),
        said(descr=[["a"]]),
        said(descr=[["a", "<f8", [10**9]]]),
        said(descr={"names": ["a"], "formats": ["O"]}),
        said(descr=None),
    ],
)
def test_nonsense_is_bytes(text):
    assert decode(text, 80) == BYTES


def test_a_region_of_a_program_that_says_nothing_is_bytes(name):
    memory = np.arange(80, dtype=np.uint8)
    heliostat.status()  # there is a control plane now
    for description in (b"", b"temperatures", said(shape=[9])):
        settings = (1, 0.0, 4, "probed", "probed", False, 1)
        region = _native.Region(memory, name, description, *settings)
        region.publish()
        seen = heliostat.attach(name).latest().array()
        assert seen.dtype == np.uint8 and bytes(seen) == bytes(memory)
        region.close()
