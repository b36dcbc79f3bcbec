"""Snapshots across users and containers: attached by a rule, readable, and writable by no means."""

from __future__ import annotations

import subprocess

import pytest
import regions
from heliostat_run import Harness
from regions import NOBODY, contained, copy_for_others, start_producer, without_privilege, words

pytestmark = [
    pytest.mark.heliostat,
    pytest.mark.skipif(regions.why_no_containers() is not None, reason=str(regions.why_no_containers())),
]

RULE = f"""
[[rule]]
action = "allow"
rights = ["attach"]
users = [{NOBODY}]
names = ["/snapshot/shared/*"]
"""
MEANS_LEAST = 23 * 2 + 2


@pytest.fixture
def harness(request):
    """A control plane that other users reach, with a rule for one of them."""
    with Harness(plain=True) as one:
        regions.start_control(one, RULE)
        yield one


def run(command: list[str]) -> subprocess.CompletedProcess:
    """Runs it to its end."""
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


def inside(harness: Harness, role: str, **orders) -> list[str]:
    """A role in a container, which finds the control plane at a path of its own."""
    orders = {"socket": "/mnt/control.sock", "owner": 0, **orders}
    return contained(harness.folder, "/mnt", ["/mnt/verifier", role, *words(orders)])


def outside(harness: Harness, role: str, **orders) -> list[str]:
    """A role of another user on this machine."""
    orders = {"socket": regions.socket_of(harness), "owner": 0, **orders}
    return without_privilege([harness.folder / "verifier", role, *words(orders)])


def refused(answer: subprocess.CompletedProcess) -> None:
    """Every attempt was made, and got nowhere."""
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert answer.stdout.count(": refused") >= MEANS_LEAST and "NOT REFUSED" not in answer.stdout
    assert "refused by all means" in answer.stdout


@pytest.mark.parametrize("place", [inside, outside], ids=["container", "other user"])
def test_consumer_with_a_rule_reads_whole_versions_over_a_restart(harness, place):
    copy_for_others(harness)
    producer, _ = start_producer(harness, name="shared/a")
    command = place(harness, "consume", name="shared/a", rounds=1)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as consumer:
        assert consumer.stdout.readline() == "generation 1\n", consumer.stderr.read()
        producer.kill()
        producer.process.wait()
        start_producer(harness, name="shared/a", seed=7)
        said, wrong = consumer.communicate(timeout=100)
    assert consumer.returncode == 0, wrong
    assert "whole over 1 producers" in said


@pytest.mark.parametrize("place", [inside, outside], ids=["container", "other user"])
def test_consumer_can_write_by_no_means(harness, place):
    copy_for_others(harness)
    producer, _ = start_producer(harness, name="shared/a")
    # Who lives in another pid namespace has no number for the producer; one's own number space
    # begins with oneself, so the attacks go to what the number means there, or to nobody.
    refused(run(place(harness, "intrude", name="shared/a", pid=producer.pid)))
    # What it tried to write is what the next consumer checks.
    witness = regions.start(harness, "consume", name="shared/a", rounds=1)
    regions.said(witness, r"generation (\d+)")
    producer.kill()
    producer.process.wait()
    start_producer(harness, name="shared/a", seed=9)
    assert witness.wait(60) == 0, witness.errors()


@pytest.mark.parametrize("place", [inside, outside], ids=["container", "other user"])
def test_consumer_without_a_rule_is_denied_whether_the_region_exists_or_not(harness, place):
    copy_for_others(harness)
    start_producer(harness, name="private")
    answers = [run(place(harness, "consume", name=name, rounds=1)) for name in ("private", "nothing")]
    assert [answer.returncode for answer in answers] == [1, 1]
    assert answers[0].stderr == answers[1].stderr and "generation" not in answers[0].stdout


def test_owner_needs_no_rule(harness):
    start_producer(harness, name="own")
    witness = regions.start(harness, "consume", name="own", rounds=1)
    assert regions.said(witness, r"generation (\d+)") == 1
