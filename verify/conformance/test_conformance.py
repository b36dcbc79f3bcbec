"""File-system cases answer alike on the plain kernel, under Heliostat and sealed.

What a case has to answer is what the plain kernel answered in the same test: nothing is written
down. The statically linked program is not caught by the stub, so that sealed every call that needs
an answer goes by notification.
"""

from __future__ import annotations

import functools
import os

import pytest
from heliostat_run import copies_descriptors
from three_ways import HERE, Way, Workshop, differences

FAMILIES = sorted(source.stem for source in (HERE / "families").glob("*.c"))
CASES_MIN = 400
# What depends on who asks: run as an ordinary user too. A sealed program has no capabilities, root's
# neither: what root may by them only (be another user, make devices, enter what has no x for it) is
# not compared.
OF_USERS = ["users", "modes", "open", "names", "renames", "processes", "descriptors"]
# What begins with inotify, which sealed programs lack where descriptors cannot be copied: docs/sealed.md.
WATCHING = ["faults", "old", "paths", "watch"]
SEALED = [family for family in FAMILIES if family != "users"]

pytestmark = pytest.mark.heliostat


@pytest.fixture(scope="module")
def shop():
    with Workshop() as one:
        one.plain = functools.cache(functools.partial(one.run, Way.PLAIN))
        yield one


def check(shop, way, family, **how):
    if way is Way.SEALED and family in WATCHING and not copies_descriptors():
        pytest.skip("inotify does not exist for sealed programs here")
    found = differences(shop.plain(family, **how), shop.run(way, family, **how), way)
    assert not found, "\n".join([f"{family}, {way.value}:", *found])


@pytest.mark.parametrize("family", FAMILIES)
def test_every_case_answers_as_the_kernel_does(shop, family):
    check(shop, Way.UNSEALED, family)


@pytest.mark.parametrize("family", SEALED)
def test_so_it_does_sealed(shop, family):
    check(shop, Way.SEALED, family)


@pytest.mark.parametrize("family", SEALED)
def test_so_does_a_static_program_whose_calls_nobody_catches(shop, family):
    check(shop, Way.SEALED, family, static=True)


@pytest.mark.parametrize("family", OF_USERS)
@pytest.mark.parametrize("way", [Way.UNSEALED, Way.SEALED], ids=lambda way: way.value)
def test_so_it_does_for_an_ordinary_user(shop, way, family):
    check(shop, way, family, ordinary=os.geteuid() == 0)


def test_there_are_enough_cases(shop):
    """Cases are lines with an answer; equal calls at other places of a part are cases of their own."""
    answers = [line for family in FAMILIES for line in shop.plain(family).lines if line.count(": ")]
    broken = [line for line in answers if " NEEDED " in line or "THE PART" in line]
    assert not broken
    assert len(answers) >= CASES_MIN, len(answers)
