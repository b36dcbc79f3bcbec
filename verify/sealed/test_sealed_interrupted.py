"""Signals end no call of a sealed program that they would not end on the plain kernel.

A call that the fence asks about waits for the supervisor; a signal that comes before it has been
taken in ends it (seccomp_unotify(2)). What a program sees of that is compared with the plain kernel,
with so many signals that most calls meet one.
"""

from __future__ import annotations

import re
import signal
import subprocess

import pytest
from ways import HERE, Case, Way, outcome

pytestmark = pytest.mark.heliostat
MILLISECONDS = "1500"
NO_STACK = '.section .note.GNU-stack,"",@progbits\n'
# A shell that hears signals in the middle of everything. No $(...): plain bash itself parses a trap's
# words wrongly there, now and then.
BUSY_SHELL = """
trap 'heard=1' USR1 ALRM
( while kill -USR1 $$ 2>/dev/null; do :; done ) &
sender=$!
i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    (exit 3); [ $? = 3 ] || echo "lost a child"
    echo text | cat >file || echo "not written"
    [ -f file ] || echo "not there"
    read line <file && [ "$line" = text ] || echo "not read"
    mkdir folder && mv file folder/file && cd folder && cd .. && rm folder/file && rmdir folder || echo "not made"
    sleep 0 & wait $! || wait $! || :
done
kill $sender
wait $sender 2>/dev/null
echo "done $i"
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The same program, linked in all ways."""
    folder = tmp_path_factory.mktemp("hammered")
    gcc = ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-Wall", HERE / "sources/hammered.c"]
    for name, flags in (("dynamic", []), ("static", ["-static"]), ("static-pie", ["-static-pie"])):
        build = [*gcc, *flags, "-o", folder / name]
        subprocess.run(build, check=True)
        if flags:
            # What a static program's text ends with decides how much of it can be mended.
            more = folder / "more.s"
            more.write_text(f".text\n.fill {room_behind_text(folder / name)}, 1, 0x90\n" + NO_STACK)
            subprocess.run([*build, more], check=True)
    return folder


def room_behind_text(program) -> int:
    """How much longer a program's text has to be to end 512 bytes behind a page's begin."""
    listed = subprocess.run(["readelf", "-lW", program], check=True, capture_output=True, text=True).stdout
    text = next(line.split() for line in listed.splitlines() if re.search(r"LOAD.* R E ", line))
    return -int(text[4], 16) % 4096 + 512


@pytest.mark.parametrize("restarts", ["0", "1"], ids=["ending", "restarting"])
@pytest.mark.parametrize("kind", ["alarm", "sender", "children"])
@pytest.mark.parametrize("linked", ["dynamic", "static", "static-pie"])
def test_calls_fail_by_no_signal_that_the_kernel_would_not_end(harness, programs, linked, kind, restarts):
    case = Case((programs / linked, kind, restarts, MILLISECONDS), (programs,))
    plain, sealed = (outcome(harness, way, case, f"{linked}-{kind}-{restarts}") for way in (Way.PLAIN, Way.SEALED))
    assert plain.status == 0 and "signals: enough" in plain.output, plain
    assert sealed == plain


@pytest.mark.parametrize("shell", ["bash", "dash"])
def test_shells_with_traps_and_children_go_on(harness, shell):
    case = Case((shell, "-c", BUSY_SHELL))
    plain, sealed = (outcome_of_a_shell(harness, way, case, shell) for way in (Way.PLAIN, Way.SEALED))
    assert plain.status == 0 and plain.output[-1] == "done 60", plain
    assert sealed == plain


def outcome_of_a_shell(harness, way: Way, case: Case, shell: str):
    """Seldom bash ends by a fault of its own within a trap, under plain Linux too: then it is run again, once."""
    ended = outcome(harness, way, case, shell)
    return outcome(harness, way, case, f"{shell}-again") if ended.status == -signal.SIGSEGV else ended
