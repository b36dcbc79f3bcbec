"""The replicated log on three nodes: what was acknowledged is read, whole and in one order, whoever is killed."""

from __future__ import annotations

import re

import kernel_view
import pytest
from heliostat_run import BINARY
from nodes import NETWORKS, Cluster, modes

pytestmark = pytest.mark.heliostat
PROGRAM = BINARY.with_name("heliostat-log")
NODES = ["--nodes", "1,2,3"]
ENTRIES = 3
LINE = re.compile(r"(\d+) (\d+) (.*)")


@pytest.fixture
def cluster():
    with Cluster(3) as one:
        yield one


def append(cluster, node, writer, count, **options):
    """Starts a writer."""
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    fixed = ["--count", count, "--writer", writer, "--entries", ENTRIES]
    return cluster.start(node, [PROGRAM, "append", "test", *NODES, *fixed, *words])


def acknowledged(program) -> dict[str, tuple]:
    """What a writer was told is in the log: where, and on how many nodes."""
    # The last line may be cut off: it was not said yet.
    lines = [line.split() for line in program.output().split("\n")[:-1]]
    return {name: (int(segment), int(slot), int(copies)) for segment, slot, copies, name in lines}


def read(cluster, node, **options) -> dict[tuple, list[str]]:
    """All that a reader finds: positions in their order, with the entries."""
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    lines = cluster.run(node, [PROGRAM, "read", "test", *NODES, *words]).output().splitlines()
    found = {}
    for line in lines:
        segment, slot, entries = LINE.fullmatch(line).groups()
        position = (int(segment), int(slot))
        assert not found or position > max(found), "in order"
        found[position] = entries.split()
    return found


def check(found: dict, told: dict) -> None:
    """Every transaction is whole and there once, and what was acknowledged is where it was said to be."""
    names = [entries[0].rsplit(".", 1)[0] for entries in found.values()]
    for name, entries in zip(names, found.values()):
        assert entries == [f"{name}.{n}" for n in range(ENTRIES)]
    assert len(set(names)) == len(names), "none is there twice"
    for name, (segment, slot, _) in told.items():
        assert found[segment, slot][0] == f"{name}.0", f"{name} was acknowledged"


def test_writers_of_all_nodes_append_and_all_readers_read_the_same(cluster):
    writers = [append(cluster, node, f"w{node}", 300) for node in (1, 2, 3)]
    assert [writer.wait() for writer in writers] == [0, 0, 0]
    told = {name: at for writer in writers for name, at in acknowledged(writer).items()}
    assert len(told) == 900 and {copies for _, _, copies in told.values()} == {2}
    found = read(cluster, 1)
    check(found, told)
    assert len(found) == 900
    assert read(cluster, 2) == found == read(cluster, 3)


def test_a_log_goes_on_over_many_segments_and_the_cleaner_frees_the_old_ones(cluster):
    writers = [append(cluster, node, f"w{node}", 200, segment=2000) for node in (1, 2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    told = {name: at for writer in writers for name, at in acknowledged(writer).items()}
    found = read(cluster, 3)
    check(found, told)
    assert len(found) == 400
    last = max(segment for segment, _ in found)
    assert last > 10, "segments of 2,000 bytes"
    freed = cluster.run(2, [PROGRAM, "clean", "test", *NODES, "--before", last]).output()
    assert freed == f"{last} segments freed\n"
    kept = {position: entries for position, entries in found.items() if position[0] == last}
    assert read(cluster, 1) == kept
    assert append(cluster, 3, "late", 1).wait() == 0


@pytest.mark.parametrize("round_", range(3))
def test_writers_are_killed_at_any_moment(cluster, round_):
    told = {}
    for wave in range(4):
        writers = [append(cluster, node, f"w{wave}n{node}", 100_000, segment=20_000) for node in (1, 2, 3)]
        kernel_view.wait_until(lambda: all(len(acknowledged(one)) > 20 for one in writers))
        for writer in writers:
            writer.kill()
            writer.process.wait()
        told |= {name: at for writer in writers for name, at in acknowledged(writer).items()}
    found = read(cluster, 1, patience=50)
    check(found, told)
    # Whoever died after the commit and before he said so: one transaction of each at most.
    assert len(told) <= len(found) <= len(told) + 12
    assert read(cluster, 2) == found
    # The log goes on behind what the dead have left.
    late = append(cluster, 2, "late", 10)
    assert late.wait() == 0
    check(read(cluster, 3), told | acknowledged(late))


def test_a_reader_follows_while_writers_are_killed(cluster):
    first = append(cluster, 2, "first", 1)
    assert first.wait() == 0
    reader = cluster.start(1, [PROGRAM, "read", "test", *NODES, "--for", 3000, "--patience", 50])
    told = acknowledged(first)
    for wave in range(5):
        writer = append(cluster, 1 + wave % 3, f"w{wave}", 100_000)
        kernel_view.wait_until(lambda: len(acknowledged(writer)) > 50)
        writer.kill()
        writer.process.wait()
        told |= acknowledged(writer)
    assert reader.wait() == 0, reader.errors()
    found = {}
    for line in reader.output().splitlines():
        segment, slot, entries = LINE.fullmatch(line).groups()
        found[int(segment), int(slot)] = entries.split()
    check(found, told)
    assert read(cluster, 3) == found, "a follower has seen what is read afterwards, and nothing else"


@pytest.mark.parametrize("victim", [2, 3])
def test_a_node_is_killed_and_nothing_acknowledged_is_lost(cluster, victim):
    writers = [append(cluster, 1, name, 100_000) for name in ("one", "other")]
    kernel_view.wait_until(lambda: all(len(acknowledged(one)) > 100 for one in writers))
    before = {len(acknowledged(one)) for one in writers}
    cluster.kill(victim)
    kernel_view.wait_until(lambda: all(len(acknowledged(one)) > max(before) + 100 for one in writers), what="writers go on")
    for writer in writers:
        writer.kill()
        writer.process.wait()
    told = {name: at for writer in writers for name, at in acknowledged(writer).items()}
    found = read(cluster, 1, patience=50)
    check(found, told)
    newest = max(told.values())
    assert newest[2] == 2, "on two of the nodes that live"
    other = ({2, 3} - {victim}).pop()
    assert read(cluster, other) == found


def test_a_node_that_is_cut_off_acknowledges_nothing_that_others_do_not_have():
    if NETWORKS not in modes():
        pytest.skip("no right to make network namespaces here")
    with Cluster(3, NETWORKS) as cluster:
        here, there = append(cluster, 1, "here", 100_000), append(cluster, 3, "there", 100_000)
        kernel_view.wait_until(lambda: min(len(acknowledged(here)), len(acknowledged(there))) > 50)
        cluster.cut(3)
        assert there.wait() == 1, "its log has three nodes, and it reaches one"
        before = len(acknowledged(here))
        kernel_view.wait_until(lambda: len(acknowledged(here)) > before + 100, what="the others go on")
        here.kill()
        here.process.wait()
        cluster.mend(3)
        cluster.wait_joined()
        found = read(cluster, 1, patience=50)
        check(found, acknowledged(here) | acknowledged(there))
        # What node 3 has kept of old segments is not believed.
        assert read(cluster, 3) == found == read(cluster, 2)
