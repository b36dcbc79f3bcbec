"""Word count and sort on three nodes: the result of one thread, whoever is killed meanwhile."""

from __future__ import annotations

import filecmp
import subprocess

import pytest
from map_reduce import Job, plain, text_of
from nodes import Cluster

pytestmark = pytest.mark.heliostat
BYTES = 4_000_000
# Some forty tasks, so that there is a middle.
SPLIT = 100_000


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return text_of(BYTES, tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def right(text):
    """What one thread makes of the text, for each job."""
    found = {}
    for job in ("count", "sort"):
        found[job] = text.with_name(job)
        plain(job, text, found[job])
    return found


@pytest.fixture
def cluster():
    with Cluster(3) as one:
        yield one


def same(one, other) -> bool:
    return filecmp.cmp(one, other, shallow=False)


def test_one_thread_says_what_other_programs_say(text, right):
    counts = dict(line.split("\t") for line in right["count"].read_text().splitlines())
    expected: dict = {}
    for word in text.read_text().split():
        expected[word] = expected.get(word, 0) + 1
    assert counts == {word: str(count) for word, count in expected.items()}
    ordered = subprocess.run(["sort", str(text)], env={"LC_ALL": "C"}, capture_output=True, check=True).stdout
    assert right["sort"].read_bytes() == ordered


@pytest.mark.parametrize("work", ["count", "sort"])
def test_three_workers_on_three_nodes(cluster, text, right, tmp_path, work):
    job = Job(cluster, work, text, tmp_path / "out", split=SPLIT)
    workers = [job.worker(node) for node in (1, 2, 3)]
    told = job.result()
    assert same(tmp_path / "out", right[work])
    assert (told["again"], told["deaths"], told["maps"]) == (0, [], -(-text.stat().st_size // SPLIT))
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert {task["node"] for task in told["tasks"]} == {1, 2, 3}


def test_a_worker_is_killed(cluster, text, right, tmp_path):
    job = Job(cluster, "count", text, tmp_path / "out", split=SPLIT, patience=2)
    victim = job.worker(2, slow=30)
    job.wait_done(6)
    [job.worker(node, slow=30) for node in (1, 3)]
    job.wait_done(8)
    victim.kill()
    told = job.result()
    assert same(tmp_path / "out", right["count"])
    assert told["again"] >= 6, "what it had done went with it"
    # Who had no task when he was killed is found by who wants his results, and need not be missed before the end.
    assert [death["node"] for death in told["deaths"]] in ([2], [])


def test_a_node_is_killed(cluster, text, right, tmp_path):
    job = Job(cluster, "sort", text, tmp_path / "out", split=SPLIT)
    job.worker(3, slow=30)
    job.wait_done(6)
    [job.worker(node, slow=30) for node in (1, 2)]
    job.wait_done(8)
    cluster.kill(3)
    told = job.result()
    assert same(tmp_path / "out", right["sort"])
    assert [death["node"] for death in told["deaths"]] == [3] and told["again"] > 0
    assert all(task["node"] != 3 for task in told["tasks"] if task["done"])


def test_all_but_one_are_killed_one_after_the_other_and_one_comes_late(cluster, text, right, tmp_path):
    job = Job(cluster, "count", text, tmp_path / "out", split=SPLIT, patience=2)
    first, second = job.worker(2, slow=30), job.worker(3, slow=30)
    job.wait_done(8)
    first.kill()
    job.wait_done(12)
    second.kill()
    job.worker(1)
    told = job.result()
    assert all(task["node"] == 1 for task in told["tasks"] if task["kind"] == "reduce" and task["done"])
    assert same(tmp_path / "out", right["count"])


def test_the_master_is_killed_and_nothing_is_left(cluster, text, tmp_path):
    job = Job(cluster, "count", text, tmp_path / "out", split=SPLIT)
    workers = [job.worker(node, slow=30) for node in (1, 2, 3)]
    job.wait_done(6)
    job.master.kill()
    assert [worker.wait() for worker in workers] == [1, 1, 1], "each says that its job is gone"
    assert not (tmp_path / "out").exists()
    for node in (1, 2, 3):
        assert cluster.call(node, "memory", "list", "mapreduce/").count("mapreduce/") == 0


def test_nobody_works(cluster, text, tmp_path):
    job = Job(cluster, "count", text, tmp_path / "out", patience=1)
    assert job.master.wait() == 1
    assert "nobody works" in job.master.errors()


ODD = {
    "nothing": "",
    "one word": "one",
    "no line's end": "one two",
    "ends alone": "\n\n",
    "one long word": "no end of a line " + "x" * 300_000,
    "zero bytes": "a\0b a\n" * 50_000,
}


@pytest.mark.parametrize("form", ODD)
def test_texts_of_odd_forms(cluster, tmp_path, form):
    path = tmp_path / "text"
    path.write_text(ODD[form])
    for work in ("count", "sort"):
        job = Job(cluster, work, path, tmp_path / "out", name=work, split=SPLIT)
        job.worker(2), job.worker(3)
        job.result()
        plain(work, path, tmp_path / "right")
        assert same(tmp_path / "out", tmp_path / "right"), work
