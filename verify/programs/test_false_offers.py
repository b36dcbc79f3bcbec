"""Who offers a connection that is another's gets nothing of it, whoever it is and whoever the other is.

The same attacker runs as the server's own user, as another user whom a rule lets connect, as a sealed
program, and as root. Beside it three clients talk to the server from addresses that it has foreseen:
one without Heliostat, one under it, and one of root's.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Program, Side

PROGRAM = Path(__file__).resolve().parent / "false_offers.py"
RULES = '[[rule]]\naction = "allow"\nrights = ["connect"]\nnames = ["/net/tcp/*:*"]\n'
SERVER, OTHER = 65534, 65533
ROUNDS = 4
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may start programs of several users")


@pytest.fixture(scope="module")
def open_harness():
    """A control plane that lets every user connect."""
    with Harness(configuration=RULES) as harness:
        harness.folder.chmod(0o777)
        harness.call("start", *harness.configured())
        yield harness


def as_user(user: int | None) -> dict:
    """How a program is started as `user`; the test's own where that is none."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


def interpreter(user: int | None) -> str:
    """One that the user may run."""
    return sys.executable if user is None else "/usr/bin/python3"


def start(harness: Harness, side: Side, user: int | None, *words: object) -> Program:
    return harness.start(side, [interpreter(user), PROGRAM, *words], **as_user(user))


def start_attacker(harness: Harness, port: int, user: int | None, is_sealed: bool, victims: list[int]) -> Program:
    words = [interpreter(user), PROGRAM, "attacker", port, *victims]
    if not is_sealed:
        return harness.start(Side.HELIOSTAT, words, **as_user(user))
    grants = [word for path in (PROGRAM.parent, sys.prefix, sys.base_prefix) for word in ("--grant", f"{path}:ro")]
    seal = [BINARY, "run", "--sealed", *grants, "--connect", f"127.0.0.1:{port}", "--env", "*", "--"]
    return harness.start(Side.PLAIN, [*seal, *words], **as_user(user))


def attack(harness: Harness, server_user: int | None, attacker: tuple[int | None, bool], clients: list[tuple[Side, int | None]]):
    port = kernel_view.free_port()
    own = [kernel_view.free_port() for _ in range(ROUNDS * len(clients))]
    server = start(harness, Side.HELIOSTAT, server_user, "server", port)
    kernel_view.wait_listening(port, server.process)
    enemy = start_attacker(harness, port, *attacker, own)
    kernel_view.wait_until(lambda: "armed" in enemy.output() or enemy.process.poll() is not None, 60, "the attacker")
    assert "armed" in enemy.output(), enemy.errors()
    expected = []
    for number, place in enumerate(own):
        side, user = clients[number % len(clients)]
        client, word = start(harness, side, user, "client", place, port, f"secret-{number}"), f"secret-{number}"
        lines = [f"AUTH {word}\n", "PING\n", f"GET {word}\n"]
        assert client.wait(60) == 0, client.errors()
        assert client.output().splitlines() == [repr(b"hello\n"), *(repr(b"+OK " + line.encode()) for line in lines)]
        expected += [f"got {line.encode()!r}" for line in lines]
    got = [line for line in server.output().splitlines() if "of the attacker" not in line or "EVIL" in line]
    said = enemy.output()
    for program in (enemy, server):
        program.kill()
    assert got == expected
    assert "overheard" not in said, said
    return said


CLIENTS = [(Side.PLAIN, SERVER), (Side.HELIOSTAT, SERVER), (Side.HELIOSTAT, 0), (Side.PLAIN, 0)]
ATTACKERS = {"same user": (SERVER, False), "other user": (OTHER, False), "sealed": (SERVER, True), "root": (0, False)}


@is_root
@pytest.mark.heliostat
@pytest.mark.parametrize("attacker", ATTACKERS)
def test_a_false_offer_gives_nobody_anything_of_another_users_server(open_harness, attacker):
    said = attack(open_harness, SERVER, ATTACKERS[attacker], CLIENTS)
    # The kernel's word refuses the other user before the claim; the rest is up to the proof.
    assert ("claimed" in said) == (attacker != "other user"), said


@pytest.mark.heliostat
@pytest.mark.parametrize("is_sealed", [False, True], ids=["unsealed", "sealed"])
def test_a_false_offer_gives_nobody_anything_of_its_own_users_server(harness, is_sealed):
    said = attack(harness, None, (None, is_sealed), [(Side.PLAIN, None), (Side.HELIOSTAT, None)])
    assert "claimed" in said, said
