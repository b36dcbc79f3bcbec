"""A producer is killed, the next takes the name: consumers notice, and what they hold stays whole."""

from __future__ import annotations

import pytest
from heliostat_run import Harness
from regions import said, start, start_control, start_producer

pytestmark = pytest.mark.heliostat
GENERATIONS = 3


@pytest.fixture
def harness():
    """A control plane that stays while no program runs."""
    with Harness(plain=True) as one:
        start_control(one)
        yield one


@pytest.mark.parametrize("memory", ["anonymous", "malloc"])
def test_consumer_follows_a_name_over_killed_producers_and_old_mappings_stay_whole(harness, memory):
    orders = {"name": f"restart/{memory}", "memory": memory}
    producer, generation = start_producer(harness, **orders)
    assert generation == 1
    consumer = start(harness, "consume", rounds=GENERATIONS, name=orders["name"])
    for number in range(1, GENERATIONS + 1):
        assert said(consumer, r"generation (\d+)", number) == number
        producer.kill()
        producer.process.wait()
        producer, generation = start_producer(harness, seed=number + 1, **orders)
        assert generation == number + 1
        assert said(consumer, r"verified (\d+)", number) > 0
    assert consumer.wait(60) == 0, consumer.errors()
    assert f"whole over {GENERATIONS} producers" in consumer.output()


def test_killed_consumers_leave_nothing_with_the_producer_or_the_control_plane(harness):
    start_producer(harness, name="killed", colours=3)
    for _ in range(6):
        consumer = start(harness, "consume", rounds=1, name="killed")
        said(consumer, r"generation (\d+)")
        consumer.kill()
        consumer.process.wait()
    # With three places, two dead consumers' pins would have stopped it.
    last = start(harness, "consume", rounds=1, name="killed")
    said(last, r"generation (\d+)")
    assert [len(one["consumers"]) for one in harness.status()["regions"] if "killed" in one["name"]] == [1]
