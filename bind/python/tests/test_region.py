"""What memory becomes a region, and what a consumer sees of it."""

from __future__ import annotations

import array
import mmap

import heliostat
import numpy as np
import pytest

PARTICLE = np.dtype([("place", "<f8", (3,)), ("charge", "<i2"), ("name", "S5")], align=True)


def shown(region: heliostat.Region, source: heliostat.Attachment) -> np.ndarray:
    """The newest version's array, after one more publishing."""
    region.publish()
    return source.latest().array()


@pytest.mark.parametrize(
    "a",
    [
        np.arange(1_000_000, dtype=np.float64).reshape(1000, 1000),
        np.arange(7, dtype=np.int16),
        np.zeros(5000, PARTICLE),
        np.zeros((2, 3, 4, 5), ">c8"),
        np.array(["2026-01-01", "1999-12-31"], "datetime64[ns]"),
        np.array(["a", "bcd"]),
        np.ones((3, 3), bool),
        np.arange(100_001, dtype=np.float64)[1:],
        np.arange(1000, dtype=np.uint8)[3:].view(),
    ],
    ids=lambda a: f"{a.dtype}-{a.shape}",
)
def test_consumer_sees_type_shape_and_values(a, name):
    with heliostat.Region.from_array(a, name=name) as region:
        seen = shown(region, heliostat.attach(name))
        assert (seen.dtype, seen.shape) == (a.dtype, a.shape)
        assert seen.tobytes() == a.tobytes()


def test_structured_fields_are_named_alike(name):
    a = np.zeros(100, PARTICLE)
    a["charge"] = np.arange(100)
    with heliostat.Region.from_array(a, name=name) as region:
        seen = shown(region, heliostat.attach(name))
        assert seen["charge"][99] == 99
        assert seen.dtype.fields == a.dtype.fields


@pytest.mark.parametrize(
    "memory", [bytearray(b"abcd"), array.array("i", [1, 2, 3]), memoryview(bytearray(9))]
)
def test_any_writable_buffer_is_a_region(memory):
    with heliostat.Region.from_array(memory) as region:
        assert shown(region, region.attachment()).tobytes() == bytes(memory)


def test_mmap_is_a_region_and_cannot_be_closed_under_it():
    memory = mmap.mmap(-1, 8192)
    memory[:3] = b"abc"
    region = heliostat.Region.from_array(memory)
    assert bytes(shown(region, region.attachment())[:3]) == b"abc"
    with pytest.raises(BufferError):
        memory.close()
    region.close()


def test_allocated_memory_begins_a_page_and_is_zero(name):
    with heliostat.Region.allocate((10, 10), "f4", name=name) as region:
        assert region.address % mmap.PAGESIZE == 0
        region.array[3, 4] = 5
        assert shown(region, heliostat.attach(name)).sum() == 5


@pytest.mark.parametrize(
    ("a", "word"),
    [
        (np.zeros((4, 5), order="F"), "a.T"),
        (np.zeros((10, 10))[:, ::2], "not contiguous"),
        (np.zeros(()), "without dimensions"),
        (np.zeros((0, 3)), "no bytes"),
        (b"abc", "read-only"),
        (np.broadcast_to(np.zeros(3), (4, 3)), "not contiguous"),
        (np.array([object()]), "Python objects"),
        (17, "neither a buffer nor DLPack"),
    ],
)
def test_what_cannot_be_a_region_says_why(a, word):
    with pytest.raises(heliostat.InvalidRegion, match=word):
        heliostat.Region.from_array(a)


@pytest.mark.parametrize(
    "settings", [{"colours": 1}, {"keep": 0}, {"keep": 4}, {"engine": "magic"}, {"placement": "here"}, {"patience": -1}]
)
def test_settings_outside_their_limits_are_refused(settings):
    with pytest.raises(ValueError):
        heliostat.Region.from_array(np.zeros(3), **settings)


def test_a_name_that_is_none_says_what_names_are():
    with pytest.raises(heliostat.InvalidName, match="no character of a name"):
        heliostat.Region.from_array(np.zeros(3), name="a b")
    with pytest.raises(heliostat.InvalidName):
        heliostat.attach("")


def test_a_name_is_one_producers(name):
    with heliostat.Region.from_array(np.zeros(3), name=name):
        with pytest.raises(heliostat.NameTaken):
            heliostat.Region.from_array(np.zeros(3), name=name)
    with pytest.raises(heliostat.NotFound):
        heliostat.attach(name)


def test_a_type_too_long_to_describe_is_refused():
    wide = np.dtype([(f"field_number_{i}", "f8") for i in range(200)])
    with pytest.raises(heliostat.InvalidRegion, match="2,044"):
        heliostat.Region.from_array(np.zeros(3, wide))


@pytest.mark.parametrize("engine", ["tracked", "declared", "whole", "probed"])
def test_every_engine_shows_what_was_written(engine, tracks):
    if engine == "tracked" and not tracks:
        pytest.skip("the kernel tells nobody here which pages were written")
    a = np.zeros(1 << 16)
    with heliostat.Region.from_array(a, engine=engine) as region:
        source = region.attachment()
        region.declare(0, region.nbytes)
        region.publish()
        a[5000:5010] = 3
        region.declare(a[5000:5010])
        published = region.publish()
        assert source.latest().array().sum() == 30
        assert (published.copied_bytes == a.nbytes) or engine != "whole"
    assert region.engine in ("tracked", "whole") or engine == "declared"


@pytest.mark.parametrize("placement", ["chunks", "slab", "probed"])
def test_every_placement_shows_what_was_written_to_those_who_hold_what_was(placement, name):
    a = np.zeros(3 << 18)  # three chunks
    with heliostat.Region.from_array(a, name=name, placement=placement) as region:
        source = heliostat.attach(name)
        held = shown(region, source)
        a[1 << 18 : (1 << 18) + 10] = 3
        assert shown(region, source).sum() == 30
        assert held.sum() == 0


def test_declared_ranges_by_bytes_slice_and_part():
    a = np.zeros((64, 512))
    with heliostat.Region.from_array(a, engine="declared") as region:
        source = region.attachment()
        region.declare(0, a.nbytes)
        region.publish()
        # Each slot copies a whole chunk at its first use; two slots take turns here.
        for _ in range(3):
            region.declare(0, 1)
            region.publish()
        a[:] = 1
        region.declare(slice(10, 11))
        region.declare(a[20])
        region.declare(30 * 4096, 31 * 4096)
        region.publish()
        rows = set(np.flatnonzero(source.latest().array()[:, 0]))
        assert {10, 20, 30} <= rows and len(rows) < 10
        with pytest.raises(heliostat.InvalidRegion):
            region.declare(0, a.nbytes + 1)
        with pytest.raises(heliostat.InvalidRegion):
            region.declare(np.zeros(3))


def test_a_closed_region_says_so_and_lets_its_memory_go():
    memory = bytearray(5000)
    region = heliostat.Region.from_array(memory)
    region.publish()
    region.close()
    region.close()
    assert region.is_closed
    with pytest.raises(ValueError, match="closed"):
        region.publish()
    region.array = None
    memory.append(1)


def test_metrics_count():
    with heliostat.Region.from_array(np.zeros(1000)) as region:
        region.publish()
        region.publish()
        assert region.metrics().published == 2
        assert region.metrics().copied_bytes >= 8000


def test_attachments_that_are_gone_leave_their_places():
    with heliostat.Region.allocate(100) as region:
        for _ in range(200):
            region.attachment()
        kept = region.attachment()
        region.publish()
        with kept.latest() as snapshot:
            assert snapshot.number == 1
