"""Durable files that are found by how they are used, and those that gain nothing: `explain` says which and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import kernel_view
import pytest
from heliostat_run import BINARY, Harness, Program, Side

pytestmark = pytest.mark.heliostat

ROUNDS = 400
# Writes in one way, flushes each time, tells of it, and stays.
PROGRAM = """
import os, sys, time
way, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
flags = os.O_RDWR | os.O_CREAT | (os.O_APPEND if way in ("appended", "vectors") else 0)
file = os.open(path, flags, 0o600)
other = os.open(path + ".other", os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(other, b"o" * 4096, 0)
if way == "overwritten":
    os.pwrite(file, b"o" * 4096, 0)
at = 0
for turn in range(rounds):
    if way in ("appended", "at_the_end", "in_vain"):
        os.write(file, b"entry %06d\\n" % turn)
    if way == "vectors":
        os.writev(file, [b"entry ", b"%06d" % turn, b"\\n"])
    if way == "placed":
        at += os.pwrite(file, b"entry %06d\\n" % turn, at)
    if way == "placed_vectors":
        at += os.pwritev(file, [b"entry ", b"%06d" % turn, b"\\n"], at)
    if way == "overwritten":
        os.pwrite(file, b"entry %06d\\n" % turn, 16 * (turn % 100))
    if way == "headed":
        os.pwrite(file, b"h" * 13, 0)
        os.lseek(file, 0, 2)
        os.write(file, b"entry %06d\\n" % turn)
    os.fdatasync(file)
    if way in ("in_vain", "headed"):
        os.pwrite(other, b"%06d" % turn, 0)
print("done", flush=True)
time.sleep(600)
"""


def run(harness: Harness, folder: Path, way: str, *words: str, **env: str) -> tuple[Program, dict]:
    """A program that has done its writes, and what `explain` says of it."""
    program = [sys.executable, "-c", PROGRAM, way, folder / "file.data", ROUNDS]
    started = harness.start(Side.PLAIN, [BINARY, "run", *words, "--", *program], env=env)
    kernel_view.wait_until(lambda: "done" in started.output() or started.process.poll(), 60, "the writes")
    assert started.process.poll() is None, started.errors()
    return started, json.loads(harness.call("explain", str(started.pid), "--json"))


@pytest.mark.parametrize("words", [["auto"], ["detect:*.data"]], ids=["auto", "pattern"])
@pytest.mark.parametrize("way", ["appended", "at_the_end", "vectors", "placed", "placed_vectors"])
def test_a_file_that_is_appended_to_and_flushed_becomes_durable(harness, tmp_path, way, words):
    _, told = run(harness, tmp_path, way, "--durable", *words)
    assert told["counters"]["durable_flushes"] >= ROUNDS - 5, told
    assert told["unheld_reasons"] == {"Undetected": 4}, told


def test_a_file_that_is_overwritten_stays_native_and_explain_says_why(harness, tmp_path):
    program, told = run(harness, tmp_path, "overwritten", "--durable", "auto")
    assert told["counters"]["durable_flushes"] == 0, told
    assert told["unheld_reasons"]["NotAppended"] >= ROUNDS - 1, told
    assert "not written at its end only" in harness.call("explain", str(program.pid))


def test_who_names_a_file_outright_need_not_wait_for_it_to_be_found(harness, tmp_path):
    _, told = run(harness, tmp_path, "appended", "--durable", "auto", "--durable", "*.data")
    assert (told["counters"]["durable_flushes"], told["unheld_reasons"]) == (ROUNDS, {}), told


def test_the_configuration_says_so_too(harness, tmp_path):
    configuration = tmp_path / "heliostat.toml"
    configuration.write_text('[[durable]]\nfiles = ["*.data"]\nmode = "detect"\n')
    _, told = run(harness, tmp_path, "appended", "--config", str(configuration))
    assert told["unheld_reasons"] == {"Undetected": 4}, told
    assert told["counters"]["durable_flushes"] == ROUNDS - 4, told


def test_a_file_whose_flushes_are_awaited_at_once_is_left_to_the_kernel_and_explain_says_why(harness, tmp_path):
    program, told = run(harness, tmp_path, "in_vain", "--durable", "*.data")
    assert told["unheld_reasons"].get("Unprofitable", 0) >= ROUNDS // 2, told
    assert "holding back gains nothing" in harness.call("explain", str(program.pid))


@pytest.mark.parametrize("way", ["vectors", "placed", "placed_vectors", "at_the_end"])
def test_every_way_to_write_at_the_end_goes_by_the_log(harness, tmp_path, way):
    _, told = run(harness, tmp_path, way, "--durable", "*.data", "--log", tmp_path / "log")
    assert told["counters"]["logged_flushes"] == ROUNDS - 1, told
    assert told["unlogged_reasons"] == {"First": 1}, told


def test_a_file_whose_head_is_written_again_and_again_leaves_the_log_alone(harness, tmp_path):
    _, told = run(harness, tmp_path, "headed", "--durable", "*.data", "--log", tmp_path / "log")
    assert told["unlogged_reasons"]["First"] < ROUNDS // 2, told
    left = told["unlogged_reasons"].get("Overwritten", 0) + told["unheld_reasons"].get("Unprofitable", 0)
    assert left >= ROUNDS // 2, told
