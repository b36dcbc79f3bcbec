"""What a snapshot promises: nothing that is held ever changes, and nothing can be written."""

from __future__ import annotations

import ctypes
import gc
import signal

import heliostat
import numpy as np
import pytest

WRITE_THROUGH_A_POINTER = """
import ctypes, sys, heliostat
a = heliostat.attach(sys.argv[1]).latest().array()
address = a.__array_interface__["data"][0]
assert ctypes.c_double.from_address(address).value == 7
print("read", flush=True)
ctypes.c_double.from_address(address).value = 8
"""


@pytest.fixture
def heat(name):
    """A region of ones, not yet published."""
    with heliostat.Region.from_array(np.ones((300, 500)), name=name) as region:
        yield region


def test_a_held_version_is_equal_to_a_copy_at_its_publishing(heat):
    source, held = heat.attachment(), []
    random = np.random.default_rng(1)
    for _ in range(200):
        rows = random.integers(0, 300, 5)
        heat.array[rows] = random.random((5, 500))
        heat.publish()
        held.append((source.latest().array(), heat.array.copy()))
        heat.array[random.integers(0, 300, 5)] += 1
        del held[:-2]
        for seen, copied in held:
            assert np.array_equal(seen, copied)


def test_arrays_outlive_the_block_and_keep_their_version(heat):
    heat.publish()
    with heat.attachment().latest() as snapshot:
        seen = snapshot.array()
    assert snapshot.is_released and snapshot.is_pinned
    for _ in range(20):
        heat.array += 1
        heat.publish()
    assert seen.sum() == seen.size
    part = seen[3:5]
    del seen
    gc.collect()
    assert snapshot.is_pinned and part.sum() == part.size
    del part
    assert not snapshot.is_pinned


def test_a_block_without_arrays_lets_go_at_its_end(heat):
    heat.publish()
    with heat.attachment().latest() as snapshot:
        assert snapshot.copy().sum() == heat.array.size
        assert snapshot.is_pinned
    assert not snapshot.is_pinned
    with pytest.raises(ValueError, match="closed"):
        snapshot.array()
    assert snapshot.release() is True


def test_memoryviews_and_capsules_keep_the_version_too(heat):
    heat.publish()
    snapshot = heat.attachment().latest()
    view = memoryview(snapshot)
    assert (view.nbytes, view.readonly, view.format) == (heat.nbytes, True, "B")
    assert snapshot.release() is False
    view.release()
    assert not snapshot.is_pinned
    snapshot = heat.attachment().latest()
    capsule = snapshot.__dlpack__(max_version=(1, 0))
    assert snapshot.release() is False
    del capsule
    assert not snapshot.is_pinned


def test_a_snapshot_that_is_only_forgotten_lets_go(heat):
    source = heat.attachment()
    for _ in range(50):
        heat.publish()
        source.latest().array()


def test_an_array_outlives_snapshot_attachment_and_producer(name):
    with heliostat.Region.from_array(np.full(100_000, 5.0), name=name) as region:
        region.publish()
        seen = heliostat.attach(name).latest().array()
    gc.collect()
    assert seen.sum() == 500_000


def test_nothing_writes_an_array(heat):
    heat.publish()
    seen = heat.attachment().latest().array()
    with pytest.raises(ValueError, match="read-only"):
        seen[0, 0] = 1
    with pytest.raises(ValueError):
        seen.setflags(write=True)
    with pytest.raises(TypeError):
        ctypes.c_char.from_buffer(seen)
    with pytest.raises(TypeError, match="not writable"):
        ctypes.c_char.from_buffer(heat.attachment().latest())


def test_a_write_through_a_pointer_ends_the_consumer_and_changes_nothing(heat, name, other):
    heat.array[:] = 7
    heat.publish()
    consumer = other(WRITE_THROUGH_A_POINTER, name)
    output, _ = consumer.communicate(timeout=60)
    assert (output, consumer.returncode) == ("read\n", -signal.SIGSEGV)
    assert (heat.attachment().latest().array() == 7).all()


def test_versions_by_number_while_they_are_kept(name):
    a = np.zeros(1000)
    with heliostat.Region.from_array(a, name=name, keep=3) as region:
        source = heliostat.attach(name)
        for value in range(1, 6):
            a[:] = value
            region.publish()
        assert [source.numbered(n).array()[0] for n in (3, 4, 5)] == [3, 4, 5]
        for number in (0, 1, 99):
            with pytest.raises(heliostat.Gone):
                source.numbered(number)


def test_before_the_first_version_there_is_none(heat):
    with pytest.raises(heliostat.Gone, match="wait"):
        heat.attachment().latest()


def test_a_producer_without_a_free_place_says_full_and_forgets_nothing(name):
    a = np.zeros(1000)
    with heliostat.Region.from_array(a, name=name, colours=2) as region:
        region.publish()
        with heliostat.attach(name).latest() as snapshot:
            held = snapshot.array()
            a[:] = 1
            assert region.publish().number == 2
            a[1] = 5
            with pytest.raises(heliostat.Full, match="2 versions"):
                region.publish()
            assert region.metrics().skipped == 1
            assert held.sum() == 0
        del held
        region.publish()
        assert heliostat.attach(name).latest().array().sum() == 1004


def test_a_consumer_pins_eight_versions_at_most(name):
    with heliostat.Region.from_array(np.zeros(10), name=name, colours=12) as region:
        source, held = heliostat.attach(name), []
        for _ in range(8):
            region.publish()
            held.append(source.latest())
        region.publish()
        with pytest.raises(heliostat.Full):
            source.latest()
        held.pop().release()
        assert source.latest().number == 9


def test_facts_of_a_version(heat):
    heat.publish()
    heat.array[5, 5] = 0
    published = heat.publish()
    snapshot = heat.attachment().latest()
    assert snapshot.number == published.number == 2
    assert snapshot.cost == (published.dirty_bytes, published.copied_bytes)
    assert snapshot.nbytes == heat.nbytes and snapshot.shape == (300, 500)
    assert snapshot.published_ns > 0 and "pinned" in repr(snapshot)


def test_numpy_takes_it_by_dlpack_read_only(heat):
    heat.publish()
    with heat.attachment().latest() as snapshot:
        taken = np.from_dlpack(snapshot)
    heat.array += 1
    heat.publish()
    heat.publish()
    assert taken.shape == (300, 500) and not taken.flags.writeable
    assert taken.sum() == taken.size


def test_the_older_dlpack_which_cannot_say_read_only_is_refused(heat):
    heat.publish()
    with heat.attachment().latest() as snapshot:
        with pytest.raises(BufferError):
            snapshot.__dlpack__()
        assert snapshot.copy().__dlpack__()


def test_torch_takes_it_by_dlpack(heat):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; it is not needed")
    heat.publish()
    with heat.attachment().latest() as snapshot:
        tensor = torch.from_dlpack(snapshot)
    for _ in range(10):
        heat.array += 1
        heat.publish()
    assert tensor.shape == (300, 500) and float(tensor.sum()) == tensor.numel()
    assert snapshot.is_pinned
    del tensor
    assert not snapshot.is_pinned


def test_jax_takes_it_without_a_copy():
    jax = pytest.importorskip("jax", reason="JAX is not installed; it is not needed")
    # 64-bit numbers, and what is not aligned to 64 bytes, JAX copies.
    heat = heliostat.Region.allocate((300, 500), "f4")
    heat.array += 1
    heat.publish()
    with heat.attachment().latest() as snapshot:
        start = snapshot.array().ctypes.data
        array = jax.device_put(snapshot.array())
    for _ in range(10):
        heat.array += 1
        heat.publish()
    assert array.unsafe_buffer_pointer() == start and snapshot.is_pinned
    assert array.shape == (300, 500) and float(array.sum()) == array.size
    del array
    gc.collect()
    assert not snapshot.is_pinned
    heat.close()


def test_a_tensor_is_a_region(name):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed; it is not needed")
    weights = torch.zeros(64, 64)
    with heliostat.Region.from_array(weights, name=name) as region:
        weights += 3
        region.publish()
        assert heliostat.attach(name).latest().array().mean() == 3


def test_what_was_copied_ahead_is_not_copied_again_and_what_was_written_since_is():
    with heliostat.Region.allocate(4 << 20, np.uint8) as region:
        source = region.attachment()
        region.publish()
        region.array[:] = 5
        pieces = 0
        while not region.copy_ahead(1 << 20).is_done:
            pieces += 1
        assert pieces >= 3 or region.engine == "whole"
        region.array[100_000] = 6
        published = region.publish()
        assert published.copied_bytes <= (4 << 20) + 4096
        assert (source.latest().array() == region.array).all()
        with pytest.raises(ValueError, match="budget"):
            region.copy_ahead(-1)
