"""Programs of daily use run sealed by the policy that a trace wrote, unedited, and need each grant of it.

The trace, the sealed run and each run with one grant less begin with the same files. A grant is needed if
without it the program is refused something there, by the supervisor's own words.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY
from sealed_cases import CASES, Case, Place

SECONDS = 120


@pytest.fixture
def prepared(request):
    """A case and its place, outside of all system grants and of /tmp."""
    case = CASES[request.param]
    with tempfile.TemporaryDirectory(prefix="sealed-", dir="/var/tmp", ignore_cleanup_errors=True) as name:
        place = Place(Path(name), kernel_view.free_port())
        place.folder.chmod(0o777)
        place.kept.mkdir()
        place.kept.chmod(0o777)
        case.prepare(place)
        yield case, place


def run(case: Case, place: Place, flags: list) -> tuple[int, str, str]:
    """Runs a case from the start; its status, what it said or served, and what was refused."""
    shutil.rmtree(place.work, ignore_errors=True)
    place.work.mkdir()
    if case.user:
        shutil.chown(place.work, case.user, case.user)
    case.fresh(place)
    control = place.folder / "control"
    control.mkdir(exist_ok=True)
    control.chmod(0o777)
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(place.work), "LC_ALL": "C.UTF-8",
                   "HELIOSTAT_SOCKET": str(control / "control.sock")}  # fmt: skip
    words = [BINARY, "run", "--sealed", "--verbose", *flags, "--", *case.words(place)]
    user = {"user": case.user, "group": case.user, "extra_groups": []} if case.user else {}
    pipe = subprocess.PIPE
    with open(place.folder / "errors", "w+") as errors:
        program = subprocess.Popen(list(map(str, words)), env=environment, cwd="/", stdout=pipe, stderr=errors, text=True, **user)
        said = ""
        if case.client:
            said = ask(case, place, program)
            program.send_signal(case.ending)
        try:
            output, _ = program.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            program.kill()
            output, _ = program.communicate()
        errors.seek(0)
        return program.returncode, said + output, errors.read()


def ask(case: Case, place: Place, program: subprocess.Popen) -> str:
    """What a client gets; the error if it gets nothing."""
    try:
        kernel_view.wait_listening(place.port, program)
        return case.client(place)
    except (AssertionError, TimeoutError, RuntimeError, subprocess.SubprocessError) as error:
        return f"nothing: {type(error).__name__}"


@pytest.mark.parametrize("prepared", CASES, indirect=True)
def test_traced_policy_is_enough_and_each_grant_of_it_is_needed(prepared):
    case, place = prepared
    policy, less = place.folder / "policy.toml", place.folder / "less.toml"
    policy.touch()
    policy.chmod(0o666)
    status, said, errors = run(case, place, ["--trace-policy", policy])
    assert status == 0 and said and "nothing" not in said, (said, errors)
    text = policy.read_text()
    again = run(case, place, ["--policy", policy])
    assert again[:2] == (status, said), (text, again[2])
    needless = []
    for grant in tomllib.loads(text).get("grant", []):
        if grant.startswith("/sys/"):
            continue  # what is missing there the supervisor does not ask for, and says nothing of
        less.write_text(text.replace(f'  "{grant}",', "  # left out"))
        less.chmod(0o644)
        found = run(case, place, ["--policy", less])
        if grant.rsplit(":", 1)[0] not in found[2]:
            needless.append((grant, found))
    assert not needless, (text, needless)
