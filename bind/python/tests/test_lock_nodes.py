"""Locks of another node: two control planes of one cluster, a program of each."""

from __future__ import annotations

from test_memory_nodes import houses, said

__all__ = ["houses"]

BEGIN = """
import os, sys, time
os.environ["XDG_RUNTIME_DIR"] = sys.argv[1]
os.environ["HELIOSTAT_SOCKET"] = sys.argv[1] + "/control.sock"
import heliostat
locks = heliostat.lock.open()
def tell(*words):
    print(*words, flush=True)
    sys.stdin.readline()
"""

HOLD = (
    BEGIN
    + """
held = locks.lock("journal").acquire()
tell(held.token)
held.release()
tell(*locks.on(2).barrier("step", 2).wait(timeout=60))
print([it.name for it in locks.list()], flush=True)
sys.stdin.readline()
os.kill(heliostat.status()["pid"], 9)
tell("killed")
"""
)

REACH = (
    BEGIN
    + """
def opened(there, deadline=time.monotonic() + 20):
    while True:
        try:
            return there.lock("journal")
        except heliostat.NoControlPlane:  # the nodes are not joined yet
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
there = locks.on(2)
journal = opened(there)
try:
    journal.acquire(timeout=0.05)
except heliostat.TimedOut:
    tell("late")
held = journal.acquire(timeout=60)
tell(held.token, held.is_held, held.has_owner_died)
tell(*there.barrier("step", 2).wait(timeout=60))
tell(len(locks.list()), sorted(it.name for it in there.list()))
deadline = time.monotonic() + 20
while held.is_held and time.monotonic() < deadline:
    time.sleep(0.05)
for ask in (held.release, lambda: journal.acquire(timeout=0), lambda: locks.on(9).lock("journal")):
    try:
        ask()
    except heliostat.NoControlPlane as error:
        print(error, flush=True)
"""
)


def go_on(process) -> None:
    process.stdin.write("go\n")
    process.stdin.flush()


def test_a_lock_of_another_node_is_used_by_the_same_calls(houses, other):
    here, there = houses
    holder = other(HOLD, there)
    first = int(said(holder, go=False))
    reacher = other(REACH, here)
    assert said(reacher) == "late"
    go_on(holder)
    token, is_held, has_owner_died = said(reacher).split()
    assert int(token) > first and (is_held, has_owner_died) == ("True", "False")
    passed = [said(holder), said(reacher)]
    assert sorted(passed) == ["1 0", "1 1"]
    assert said(reacher, go=False) == "0 ['journal']", "none is on its own node"
    # A barrier is there as long as anybody has it open.
    assert said(holder) in ("['journal']", "['journal', 'step']")
    assert said(holder, go=False) == "killed"
    go_on(reacher)
    told = [said(reacher, go=False) for _ in range(3)]
    assert all("node 2" in line for line in told[:2]), told
    assert "node 9" in told[2]
