"""Arrays of `heliostat.cluster` on this node: indices, views, words, names, ends."""

from __future__ import annotations

import asyncio
import gc
import pickle

import heliostat
import numpy as np
import pytest
from heliostat import cluster

OPEN = """
import sys, pickle, numpy
from heliostat import cluster
array = cluster.open().open(sys.argv[1])
print(array.shape, array.dtype, float(array[3, 4]), flush=True)
array[3] = 9
numpy.asarray(array)[0, 0] = 7
print(array.fetch_add((0, 1), -2), flush=True)
sys.stdin.readline()
"""

INDICES = [
    np.s_[...],
    np.s_[2],
    np.s_[2, 3],
    np.s_[2, 3, 4],
    np.s_[-1, -1, -1],
    np.s_[1:3],
    np.s_[:, 2:5, 1],
    np.s_[::2, ::3, ::2],
    np.s_[::-1, 3:0:-1, ::-2],
    np.s_[..., 0],
    np.s_[0, ..., 3:3],
    np.s_[:, None, 1],
    np.s_[3:1],
    np.s_[np.int64(1), :, 5],
]


@pytest.fixture(scope="module")
def nodes():
    return cluster.open()


@pytest.mark.parametrize("key", INDICES, ids=str)
@pytest.mark.parametrize("dtype", ["f8", "i2", [("a", "u1"), ("b", "f4")]], ids=str)
def test_an_index_means_what_it_means_to_numpy(nodes, key, dtype):
    shape = (4, 6, 7)
    plain = np.zeros(shape, dtype)
    plain.reshape(-1).view("u1")[:] = np.arange(plain.nbytes) % 251
    with nodes.from_array(None, plain) as array:
        found = array[key]
        assert np.array_equal(found, plain[key]) and np.shape(found) == np.shape(plain[key])
        assert type(found) is type(plain[key])
        value = np.zeros_like(plain[key])
        plain[key] = value
        array[key] = value
        assert np.array_equal(array[...], plain), "and nothing beside them"
        plain[key] = plain[0, 0, 0]
        array[key] = array[0, 0, 0]
        assert np.array_equal(array[...], plain)


def test_elements_far_apart_are_read_and_written_one_by_one(nodes):
    plain = np.arange(30_000 * 50, dtype="i4").reshape(30_000, 50)
    with nodes.from_array(None, plain) as array:
        for key in (np.s_[:, 7], np.s_[::3, 40:42], np.s_[::-1, 1::25]):
            assert np.array_equal(array[key], plain[key])
            array[key] = -plain[key]
            plain[key] = -plain[key]
        assert np.array_equal(array, plain)


def test_what_is_no_view_or_does_not_fit_is_refused_as_numpy_does(nodes):
    with nodes.create(None, (4, 5), "i8") as array:
        for key in ([1, 2], np.array([True] * 4), "a", True, 1.5):
            with pytest.raises(TypeError):
                array[key]
        for key in (4, (0, 5), (0, 0, 0), (..., ...)):
            with pytest.raises(IndexError):
                array[key]
        with pytest.raises(ValueError, match="broadcast"):
            array[0] = [1, 2]
        with pytest.raises(ValueError, match="could not convert|invalid literal"):
            array[0, 0] = "word"
        assert not array[...].any()


def test_another_program_knows_type_and_shape_by_the_name(nodes, name, other):
    with nodes.create(name, (10, 5), "i8") as array:
        array[...] = np.arange(50).reshape(10, 5)
        process = other(OPEN, name)
        assert process.stdout.readline() == "(10, 5) int64 19.0\n"
        assert process.stdout.readline() == "1\n"
        assert array[0].tolist() == [7, -1, 2, 3, 4] and (array[3] == 9).all()


def test_asarray_and_dlpack_show_the_memory_itself(nodes):
    array = nodes.create(None, (10, 5), "f4")
    view, taken = np.asarray(array), np.from_dlpack(array)
    view[2, 3], taken[0, 0] = 5, 6
    assert (array[2, 3], array[0, 0], array.__dlpack_device__()) == (5, 6, (1, 0))
    assert not np.shares_memory(np.array(array), view)
    assert np.asarray(array, "f8")[2, 3] == 5
    with pytest.raises(ValueError):
        np.asarray(array, "f8", copy=False)
    with pytest.raises(BufferError):
        array.free()
    array.close()
    assert view[2, 3] == 5, "it is kept until the last view has gone"
    with pytest.raises(ValueError, match="closed"):
        array[0]


def test_words_change_in_one_step(nodes):
    with nodes.create(None, (3, 3), "i8") as array:
        assert [array.fetch_add((1, 2), more) for more in (5, -7, 0)] == [0, 5, -2]
        assert (array.compare_swap((1, 2), 0, 1), array.compare_swap((1, 2), -2, 1)) == (-2, -2)
        assert (array.swap((1, 2), 3), array[1, 2], array[...].sum()) == (1, 3, 3)
        with pytest.raises(IndexError):
            array.fetch_add(1, 1)
    with nodes.create(None, 3, "i4") as array, pytest.raises(TypeError, match="int32"):
        array.fetch_add(0, 1)


def test_tasks_await_reads_and_writes(nodes):
    async def fill(array, at):
        await array.write(np.s_[at, ::2], at)
        return await array.read(np.s_[at])

    async def fill_all():
        rows = await asyncio.gather(*[fill(array, at) for at in range(300)])
        await array.write(np.s_[0], np.arange(20))
        waits = asyncio.create_task(array.read())
        waits.cancel()
        return rows, await array.read(0)

    with nodes.create(None, (300, 20), "i4") as array:
        for _ in range(2):  # each event loop by itself
            rows, first = asyncio.run(fill_all())
            assert all((row[::2] == at).all() and row[3] == 0 for at, row in enumerate(rows[1:], 1))
            assert np.array_equal(first, np.arange(20))
            array[...] = 0


def test_a_pickled_array_is_a_name_and_not_another_one(nodes, name):
    array = nodes.from_array(name, np.arange(1000))
    told = pickle.dumps(array)
    assert len(told) < 300
    again = pickle.loads(told)
    array.close()
    assert again[999] == 999, "it lives as long as one who may manage it"
    again.free()
    with pytest.raises(heliostat.NotFound):
        pickle.loads(told)
    with nodes.create(name, 1000, "i8"), pytest.raises(heliostat.Gone, match=name):
        pickle.loads(told)


def test_errors_name_the_array(nodes, name, memory):
    with pytest.raises(heliostat.NotFound, match=name):
        nodes.open(name)
    with nodes.create(name, 10):
        with pytest.raises(heliostat.NameTaken, match=name) as told:
            nodes.create(name, 10)
        assert (told.value.array, told.value.node) == (name, None)
        with nodes.open(name, rights="read") as array, pytest.raises(heliostat.Denied, match=name):
            array[0] = 1
    gc.collect()
    with nodes.create(name, 10) as array:
        nodes.open(name, rights="all").free()
        with pytest.raises(heliostat.Gone, match=f"array {name}"):
            array[0]
    with memory.allocate(5000, name=name) as region:
        for head in (b"", b"HLARRAY\0", b"HLARRAY\0" + bytes([1, 0, 0, 0, 255, 255])):
            region.write(0, head)
            with pytest.raises(heliostat.Corrupt, match=name):
                nodes.open(name)
    for shape, dtype in ((0, "f8"), ((3, -1), "f8"), (3, "O"), (3, "S0")):
        with pytest.raises(heliostat.InvalidRegion):
            nodes.create(None, shape, dtype)


def test_a_lasting_array_stays_until_it_is_freed(nodes, name):
    nodes.create(name, 3, lasting=True).close()
    array = nodes.open(name, rights="all")
    array.set_lasting(False)
    array.close()
    with pytest.raises(heliostat.NotFound):
        nodes.open(name)


def test_a_spread_array_needs_no_cluster_for_one_node(nodes, name):
    with nodes.create(name, (3000, 5), "i8", spread=[0]) as array:
        array[...] = np.arange(15_000).reshape(3000, 5)
        with nodes.open(name, rights="all") as found:
            assert np.array_equal(found, array) and found.nodes == (0,)
            assert found.fetch_add((2999, 4), 1) == 14_999
            assert asyncio.run(found.read(np.s_[::1000, 1])).tolist() == [1, 5001, 10_001]
        with pytest.raises(heliostat.Unsupported):
            array.view()
        assert pickle.loads(pickle.dumps(array))[1, 1] == 6
        with pytest.raises(heliostat.NameTaken):
            nodes.create(name, 3, spread=[0])
        array.free()


def test_locks_and_functions_are_there_too(nodes, name):
    with nodes.locks().lock(name).acquire(timeout=1) as held:
        assert held.token
    with nodes.rpc().serve(name):
        assert [it.name for it in nodes.rpc().list(name)] == [name]
    assert nodes.nodes() == ()
