"""The runner of the crates' tests: what fails once is run again and named; what fails twice, or often, fails."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CRATES = Path(__file__).resolve().parents[1] / "crates.py"
# Fails for as long as its mark is not there; the first failure makes the mark.
ONCE = """#[test]
fn t{0}() {{
    let mark = concat!(env!("CARGO_MANIFEST_DIR"), "/mark{0}");
    let there = std::path::Path::new(mark).exists();
    std::fs::write(mark, "").unwrap();
    if !there {{ {1} }}
}}
"""
PANICS, DIES = 'panic!("the first time")', "std::process::abort()"
HANGS = "loop { std::thread::park(); }"
NEVER = "#[test]\nfn never() { panic!() }\n"


def run_crate(folder: Path, inside: str, beside: str = "", *words: str) -> subprocess.CompletedProcess:
    """Runs a crate with these tests inside and these in a program of their own."""
    for name, text in {
        "Cargo.toml": '[package]\nname = "drawn"\nversion = "0.1.0"\nedition = "2021"\n[workspace]\n',
        "src/lib.rs": inside,
        "tests/beside.rs": beside,
    }.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, str(CRATES), "--workspace", "--target-dir", str(folder / "target"), *words]
    limits = os.environ | {"HELIOSTAT_SILENT_SECONDS": "5"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, env=limits)


def test_tests_that_pass_alone_are_named_as_unstable(tmp_path):
    ran = run_crate(tmp_path, ONCE.format(0, PANICS), ONCE.format(1, PANICS))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "UNSTABLE: --lib: t0 failed" in ran.stdout and "UNSTABLE: --test beside: t1 failed" in ran.stdout


def test_a_program_that_died_is_run_again_whole(tmp_path):
    ran = run_crate(tmp_path, "", ONCE.format(0, DIES))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "UNSTABLE: --test beside: all of it failed" in ran.stdout


def test_a_program_that_hangs_is_ended_and_run_again(tmp_path):
    ran = run_crate(tmp_path, "", ONCE.format(0, HANGS))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "says nothing for 5 s" in ran.stdout and "UNSTABLE: --test beside: all of it failed" in ran.stdout


@pytest.mark.parametrize(
    ("inside", "beside", "words"),
    [
        (NEVER, "", []),
        ("".join(ONCE.format(number, PANICS) for number in range(6)), ONCE.format(6, PANICS), []),
        (ONCE.format(0, PANICS), "", ["--strict"]),
        ("no rust", "", []),
    ],
    ids=["fails twice", "too many", "strict", "does not compile"],
)
def test_what_fails_twice_or_often_fails(tmp_path, inside, beside, words):
    ran = run_crate(tmp_path, inside, beside, *words)
    assert ran.returncode != 0, ran.stdout + ran.stderr
    assert "UNSTABLE" not in ran.stdout
