"""The replicated log on three nodes: what was acknowledged is read, whole and in one order, whoever is killed."""

from __future__ import annotations

import contextlib
import json
import re
import signal

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


def regions(cluster) -> dict[int, list[str]]:
    """The names of the log's regions on each node."""
    listed = {node: cluster.call(node, "memory", "list", "log/test/", "--json") for node in cluster.living()}
    return {node: sorted(region["name"] for region in json.loads(text)) for node, text in listed.items()}


def clean(cluster, node, before: int) -> int:
    """Frees the segments before one; returns how many, as the cleaner says."""
    said = cluster.run(node, [PROGRAM, "clean", "test", *NODES, "--before", before]).output()
    return int(re.fullmatch(r"(\d+) segments freed\n", said)[1])


def check_kept(cluster, found: dict, first: int, nodes=(1, 2, 3)) -> None:
    """Of what was found before, a reader of each node finds what is in this segment and behind it, and no more."""
    kept = {position: entries for position, entries in found.items() if position[0] >= first}
    for node in nodes:
        seen = read(cluster, node)
        assert seen == kept, f"node {node} reads segments {sorted({at for at, _ in seen})}: {regions(cluster)}"


@contextlib.contextmanager
def silent(cluster, node):
    """A node whose control plane is there and says nothing; its memory is what it was afterwards."""
    cluster.nodes[node].daemon.kill(signal.SIGSTOP)
    try:
        yield
    finally:
        cluster.nodes[node].daemon.kill(signal.SIGCONT)
    cluster.wait_joined()
    for one in cluster.living():
        others = [str(other) for other in cluster.living() if other != one]
        answers = lambda one=one, others=others: all(is_there(cluster, one, other) for other in others)  # noqa: E731
        kernel_view.wait_until(answers, what=f"node {one} reaches the others")


def is_there(cluster, node, other) -> bool:
    """Whether one node's control plane answers to another."""
    words = ["memory", "list", "--node", other, "--socket", cluster.nodes[node].socket]
    return cluster.start(node, [BINARY, *words]).wait() == 0


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
    assert clean(cluster, 2, last) == last
    check_kept(cluster, found, last, nodes=[1])
    assert clean(cluster, 1, last) == 0 == clean(cluster, 3, 0), "there is nothing more to free"
    assert append(cluster, 3, "late", 1).wait() == 0


def test_the_newest_segment_stays_whatever_the_cleaner_is_told(cluster):
    assert append(cluster, 1, "w", 60, segment=2000).wait() == 0
    found = read(cluster, 3)
    last = max(found)[0]
    assert clean(cluster, 2, 1000) == last > 0
    check_kept(cluster, found, last)
    late = append(cluster, 3, "late", 100)
    assert late.wait() == 0
    check(read(cluster, 2), acknowledged(late))


def test_the_cleaner_frees_copies_that_do_not_count_too(cluster):
    assert append(cluster, 1, "first", 5).wait() == 0
    with silent(cluster, 2):
        # Node 2 has a copy of segment 0, which is called lost, so that the log goes on in segment 1.
        assert append(cluster, 1, "second", 5).wait() == 0
    found = read(cluster, 3)
    assert len(found) == 10 and {segment for segment, _ in found} == {0, 1}
    assert clean(cluster, 3, 1) == 1
    check_kept(cluster, found, 1)
    assert "log/test/0" not in sum(regions(cluster).values(), [])


def test_what_a_silent_node_has_kept_of_cleaned_segments_is_nobodys(cluster):
    assert append(cluster, 1, "w", 60, segment=2000).wait() == 0
    found = read(cluster, 3)
    last = max(found)[0]
    with silent(cluster, 2):
        assert clean(cluster, 1, last) == last > 1
    assert "log/test/0" in regions(cluster)[2]
    check_kept(cluster, found, last)
    late = append(cluster, 2, "late", 1)
    assert late.wait() == 0
    assert clean(cluster, 3, last) == 0
    names = set(sum(regions(cluster).values(), []))
    assert names == {f"log/test/{last}", f"log/test/from-{last}"}, "the next cleaner frees what was left"


def test_who_is_behind_the_cleaner_makes_no_cleaned_segment_anew(cluster):
    assert append(cluster, 1, "first", 1, segment=2000).wait() == 0
    # The time while it is stopped counts: it must not be over when it goes on.
    follower = cluster.start(2, [PROGRAM, "read", "test", *NODES, "--for", 60_000])
    kernel_view.wait_until(lambda: follower.output(), what="the follower reads")
    follower.kill(signal.SIGSTOP)
    assert append(cluster, 1, "more", 120, segment=2000).wait() == 0
    last = max(read(cluster, 3))[0]
    assert last > 3
    with silent(cluster, 2):
        assert clean(cluster, 1, last) == last
    # Node 2 has copies of segments 0 and 1: the follower reads on there, and comes to one that is on no node.
    follower.kill(signal.SIGCONT)
    assert follower.wait(120) == 1, regions(cluster)
    assert "the cleaner has freed" in follower.errors()
    assert "log/test/2" not in sum(regions(cluster).values(), [])


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
