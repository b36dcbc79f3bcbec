"""Recorded runs: the page of promises says what the newest record found, and nothing older."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from records import files, page  # noqa: E402

ROW = "| a trip | 3x | `BENCH=b` | 1x (1 Jan 2026) <!-- b: trip @ one core --> | kept |\n"


def record(date: str, ratio: float, aim: float | None = 3.0, cores: str = "one core") -> files.Record:
    result = {
        "name": "trip", "ours": 1000.0, "theirs": 1000.0 * ratio, "unit": "ns", "ratio": ratio, "aim": aim,
        "aim_is": "ratio at least", "cores": cores,
    }  # fmt: skip
    return files.Record("b", date, "quick", {}, "abc", [result])


def written(*records: files.Record) -> str:
    return page.rewritten(ROW, sorted(records, key=lambda one: one.date, reverse=True))[0]


def test_newest_record_is_written_with_its_date_and_state():
    text = written(record("2026-11-22", 4.0), record("2026-11-23T10:00Z", 2.5))
    assert "| 2.5x: 1 us against 2.5 us (23 Nov 2026) <!-- b: trip @ one core --> | missed |" in text


def test_result_with_its_aim_reached_is_kept_and_one_without_an_aim_reported():
    assert written(record("2026-11-22", 3.0)).rstrip().endswith("| kept |")
    assert written(record("2026-11-22", 3.0, aim=None)).rstrip().endswith("| reported |")


def test_row_without_a_recorded_result_stays_and_is_named():
    text, unknown = page.rewritten(ROW, [record("2026-11-22", 4.0, cores="two cores")])
    assert (text, unknown) == (ROW, ["b: trip @ one core"])


def test_row_that_says_it_is_not_recorded_is_awaited_until_it_is():
    text = "| a trip | 3x | `BENCH=b` | not recorded <!-- b: trip @ one core --> | - |\n"
    assert page.rewritten(text, []) == (text, ["b: trip @ one core"])
    assert (page.awaited(text), page.awaited(ROW)) == ({"b: trip @ one core"}, set())
    filled, unknown = page.rewritten(text, [record("2026-11-22", 4.0)])
    assert "4x" in filled and filled.rstrip().endswith("| kept |") and not unknown and not page.awaited(filled)


def test_any_cores_are_matched_by_a_star():
    text, unknown = page.rewritten(ROW.replace("one core", "*"), [record("2026-11-22", 4.0, cores="a / b")])
    assert "4x" in text and not unknown


def test_written_record_is_read_back_and_the_newest_comes_first(tmp_path):
    older, newer = record("2026-11-22", 4.0), record("2026-11-23T10:00Z", 2.5)
    for one in (newer, older):
        files.write(one, tmp_path)
    assert [dataclasses.asdict(one) for one in files.read_all(tmp_path)] == [
        dataclasses.asdict(one) for one in (newer, older)
    ]
