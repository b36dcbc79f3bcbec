"""A sealed program reaches nothing that it was not granted, whatever it tries.

Each attack is run twice: sealed, where every try must be refused and nothing outside may
change, and unsealed, where it must work. An attack that does not work where nothing stops it
would show nothing by failing.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import attacks
import pytest
from heliostat_run import BINARY, serves_other_users

USERS = (0, attacks.ORDINARY_USER) if os.geteuid() == 0 else (os.geteuid(),)
# Root's programs are static here and the ordinary user's dynamic, so that both are seen.
LINKAGE = {user: "dynamic" if user else "static" for user in USERS}
# Attacks that work only where root makes the testbed.
NEEDS = {"exec_privileged": pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a program away with its user id")}
RACE_MS = int(os.environ.get("HELIOSTAT_RACE_MS", "250"))


@pytest.fixture(scope="module")
def runner():
    """The built attacks and what runs them, in a folder that every user may enter."""
    with tempfile.TemporaryDirectory(prefix="containment-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for part, mode in ((folder, 0o755), (folder / "tools", 0o755), (folder / "control", 0o777)):
            part.mkdir(exist_ok=True)
            part.chmod(mode)
        attacks.build(folder / "tools")
        one = attacks.AttackRunner(folder / "tools", BINARY, folder / "control")
        yield one
        one.close()


def verdicts(report: dict, name: str) -> list[str]:
    return [line for line in report["output"].splitlines() if line.startswith(f"{name}: ")]


def harms(report: dict) -> bool:
    """Whether an attack says so, or is seen to have done something."""
    return "ESCAPED" in report["output"] or report["nonce"] in report["output"] or bool(report["changed"])


def case(attack: attacks.Attack, user: int, marks: tuple = ()):
    return pytest.param(attack.name, user, id=f"{attack.name}-{'root' if user == 0 else 'user'}", marks=marks)


def sealed_cases() -> list:
    """Every attack by every user."""
    return [case(one, user) for user in USERS for one in attacks.every()]


def unsealed_cases() -> list:
    """Every attack that works, by the first user for whom it does."""
    first = ((one, next((user for user in USERS if one.works_for(user)), None)) for one in attacks.every())
    return [case(one, user, NEEDS.get(one.name, ())) for one, user in first if user is not None]


@pytest.mark.heliostat
@pytest.mark.parametrize(("name", "user"), sealed_cases())
def test_sealed_attack_is_refused(runner, name, user):
    report = runner.run(name, user, sealed=True, linkage=LINKAGE[user], race_ms=RACE_MS)
    if name.startswith("ids_") and user == 0 and not serves_other_users():
        assert "with CAP_SYS_PTRACE only" in report["errors"], report
        pytest.skip("who has become another user is served with CAP_SYS_PTRACE only")
    found = verdicts(report, name)
    assert len(found) == 1 and found[0].startswith(f"{name}: refused"), report
    assert "ESCAPED" not in report["output"], report
    assert report["nonce"] not in report["output"], report
    assert report["changed"] == [] and report["harm"] == [], report


@pytest.mark.parametrize(("name", "user"), unsealed_cases())
def test_unsealed_attack_works(runner, name, user):
    """A race need not be won at the first go."""
    reports = []
    while not any(harms(report) for report in reports) and len(reports) < 3:
        reports.append(runner.run(name, user, sealed=False, linkage=LINKAGE[user], race_ms=200))
    assert harms(reports[-1]), reports


@pytest.mark.heliostat
@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("kill", [1, 2], ids=["in front", "behind"])
def test_killed_supervisor_leaves_nobody(runner, kill, user):
    """Nothing runs on without a fence: whoever is killed, all sealed processes end."""
    report = runner.run("linger", user, sealed=True, linkage=LINKAGE[user], race_ms=0, kill=kill)
    assert report["harm"] == [] and report["changed"] == [], report


def test_enough_attacks():
    assert len(attacks.every()) >= 60
