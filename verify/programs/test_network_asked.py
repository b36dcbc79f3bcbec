"""`heliostat run --network-cores`, and its rule: the network service is switched on or off for one program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Side
from network_peers import ECHO, EPOLL_ECHO, ask, connect, paths, start_server

pytestmark = pytest.mark.heliostat

LAST = max(os.sched_getaffinity(0))


@pytest.fixture(scope="module")
def harness(request):
    with Harness() as one:
        yield one


def explained(harness: Harness, *flags: str, talks: bool = True) -> tuple[list[str], dict, str]:
    """Paths of a server's connections, what `explain` says of the service, and the same as people read it."""
    port = kernel_view.free_port()
    words = [str(BINARY), "run", *flags, "--", sys.executable, "-c", ECHO, str(port)]
    server = harness.start(Side.PLAIN, words, name="asked")
    kernel_view.wait_listening(port, server.process)
    with connect(port) as client:
        assert ask(client, b"one") == b"one"
        told = json.loads(harness.call("explain", str(server.pid), "--json"))
        text = harness.call("explain", str(server.pid))
        assert ask(client, b"two") == b"two"
        found = paths(harness, server.pid)
    server.kill()
    return found, told["network"], text


@pytest.mark.skipif(len(os.sched_getaffinity(0)) > 2, reason="the rule may say yes here")
def test_without_it_the_rule_decides(harness):
    found, network, text = explained(harness)
    assert (found, network["on"]) == (["native"], False)
    assert f"network service: off, since {network['why']}" in text


@pytest.mark.parametrize("wanted, core", [("any", None), ("1", LAST), (f"{LAST}-{LAST}", LAST)])
def test_connections_are_carried_on_the_cores_that_are_asked_for(harness, wanted, core):
    found, network, text = explained(harness, "--network-cores", wanted)
    assert (found, network["on"]) == (["delegated"], True)
    assert "--network-cores" in network["why"] and "network service: on, since" in text
    if core is not None:
        assert core in [loop["core"] for loop in network["loops"] if loop["handed"]]


def test_it_is_switched_off_for_one_program_where_it_is_on_for_all():
    with Harness(configuration='[network]\ndelegate = "always"\n') as harness:
        assert explained(harness)[0] == ["delegated"]
        assert explained(harness, "--network-cores", "never")[0] == ["native"]


def test_a_configuration_that_says_never_says_so_for_all():
    with Harness(configuration='[network]\ndelegate = "never"\n') as harness:
        found, network, _ = explained(harness, "--network-cores", "any")
        assert (found, network["on"]) == (["native"], False)


def test_a_rule_of_the_configuration_is_for_programs_of_its_name(harness, tmp_path):
    rules = tmp_path / "rules.toml"
    name = os.path.basename(sys.executable)
    rules.write_text(f'[[carry]]\nprogram = "other"\ncores = "never"\n[[carry]]\nprogram = "{name}"\n')
    assert explained(harness, "--config", str(rules))[0] == ["delegated"]
    rules.write_text('[[carry]]\nprogram = "other"\n[[carry]]\nprogram = "*"\ncores = "never"\n')
    assert explained(harness, "--config", str(rules))[0] == ["native"]


def test_short_connections_are_left_to_the_kernel_and_explained(harness):
    port = kernel_view.free_port()
    words = [str(BINARY), "run", "--network-cores", "any", "--", sys.executable, "-c", ECHO, str(port)]
    server = harness.start(Side.PLAIN, words, name="short")
    kernel_view.wait_listening(port, server.process)
    for _ in range(20):
        with connect(port) as client:
            assert ask(client, b"x") == b"x"
    with connect(port) as client:
        assert ask(client, b"x") == b"x"
        [entry] = harness.explain(server.pid)
        assert (entry["path"], entry["reason"]) == ("native", "ShortLived")
        assert "short" in entry["reason_text"]


def test_beyond_its_share_a_connection_stays_native_and_is_explained():
    with Harness(configuration='[network]\ndelegate = "always"\nconnections = 2\n') as harness:
        port, server = start_server(harness, EPOLL_ECHO)
        clients = [connect(port) for _ in range(4)]
        for message in (b"one", b"two"):
            assert all(ask(client, message) == message for client in clients)
        entries = harness.explain(server.pid)
        found = sorted((entry["path"], entry["reason"]) for entry in entries)
        assert found == [("delegated", "None")] * 2 + [("native", "Full")] * 2, found
        [full] = json.loads(harness.call("explain", str(server.pid), "--json"))["network"]["full"]
        assert (full["side"], full["limit"]) == ("User", 2)
        said = "this user has no more than 2 connections carried by the network service"
        assert said in harness.call("explain", str(server.pid))
        shares = harness.status()["quotas"]["CarriedConnections"]
        assert (shares["all"], shares["used"]) == (2, 2), shares
        for client in clients:
            client.close()
        kernel_view.wait_until(lambda: harness.status()["quotas"]["CarriedConnections"]["used"] == 0, 60, "their end")
        time.sleep(1)  # so long nothing more is asked for
        with connect(port) as client:
            assert ask(client, b"again") == b"again"
            assert paths(harness, server.pid) == ["delegated"]


@pytest.mark.parametrize("wrong", ["many", "3-1", "100000"])
def test_what_makes_no_sense_is_refused(harness, wrong):
    words = [str(BINARY), "run", "--require", "--network-cores", wrong, "--", "/bin/true"]
    done = subprocess.run(words, env=harness.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125 and wrong in done.stderr
