"""The lints themselves: each must fail on a bad input and pass on a good one."""

from __future__ import annotations

import atomics
import circles
import crate_graph
import documents
import lengths
import manifests
import pytest
import reasons
import words


def workspace(*edges: tuple[str, str]) -> dict:
    """A `cargo metadata` answer with one crate per named room and the given edges."""
    rooms = sorted({room for edge in edges for room in edge})
    return {
        "workspace_root": "/w",
        "packages": [
            {
                "name": room.replace("/", "-"),
                "manifest_path": f"/w/{room}/Cargo.toml",
                "dependencies": [
                    {"name": to.replace("/", "-"), "kind": None, "path": f"/w/{to}"}
                    for origin, to in edges
                    if origin == room
                ],
            }
            for room in rooms
        ],
    }


def test_the_daemons_tests_may_use_the_stub_and_the_daemon_may_not():
    metadata = workspace(("heliostatd", "stub/posix"))
    for package in metadata["packages"]:
        for dependency in package["dependencies"]:
            dependency["kind"] = "dev"
    assert not crate_graph.violations(metadata)


@pytest.mark.parametrize(
    "edge",
    [
        ("abi", "base"),
        ("base", "ring"),
        ("ring", "stub/posix"),
        ("service/net", "base"),
        ("service/net", "service/file"),
        ("bind/c", "bind/posix"),
        ("bind/c", "interpose"),
        ("control", "service/net"),
        ("command", "service/net"),
        ("supervisor", "stub/posix"),
        ("heliostatd", "stub/posix"),
        ("interpose", "ring"),
        ("base", "backend/pages"),
        ("backend/seal", "backend/pages"),
        ("backend/pages", "ring"),
        ("supervisor", "backend/uring"),
        ("client", "stub/posix"),
        ("stub/snapshot", "stub/posix"),
        ("stub/posix", "stub/file"),
        ("command", "stub/posix"),
        ("heliostat", "supervisor"),
        ("client", "backend/lease"),
        ("heliostatd", "client"),
    ],
    ids="->".join,
)
def test_edge_against_the_direction_is_refused(edge):
    assert crate_graph.violations(workspace(edge))


@pytest.mark.parametrize(
    "edge",
    [
        ("base", "abi"),
        ("stub/posix", "ring"),
        ("bind/posix", "interpose"),
        ("heliostatd", "service/net"),
        ("command", "stub/snapshot"),
        ("heliostat", "stub/snapshot"),
        ("command", "supervisor"),
        ("supervisor", "control"),
        ("heliostatd", "backend/lease"),
        ("stub/posix", "backend/pages"),
        ("bind/python", "backend/pages"),
        ("supervisor", "backend/seal"),
        ("supervisor", "client"),
        ("stub/posix", "client"),
        ("bench/ring", "ring"),
    ],
    ids="->".join,
)
def test_edge_along_the_direction_is_allowed(edge):
    assert crate_graph.violations(workspace(edge)) == []


def test_unknown_room_is_refused():
    assert crate_graph.violations(workspace(("attic", "abi")))


def long_function(lines: int) -> str:
    return "fn walk() {\n" + "    step();\n" * (lines - 2) + "}\n"


def test_function_of_71_lines_is_refused_and_of_70_allowed():
    assert lengths.judge({"a.rs": long_function(71)}, {}, {})
    assert lengths.judge({"a.rs": long_function(70)}, {}, {}) == []


def test_python_and_c_functions_are_measured():
    python = "def walk():\n" + "    step()\n" * 80
    c = "static int walk(int from)\n{\n" + "    step();\n" * 80 + "}\n"
    assert lengths.judge({"a.py": python}, {}, {})
    assert lengths.judge({"a.c": c}, {}, {})


def test_file_of_401_lines_needs_an_entry_and_801_is_refused_with_one():
    assert lengths.judge({"a.rs": "//\n" * 401}, {}, {})
    assert lengths.judge({"a.rs": "//\n" * 401}, {"a.rs": 401}, {"a.rs": 401}) == []
    assert lengths.judge({"a.rs": "//\n" * 801}, {"a.rs": 801}, {"a.rs": 801})


def test_entry_that_excuses_more_than_is_there_is_refused():
    assert lengths.judge({"a.rs": "//\n" * 410}, {"a.rs": 420}, {"a.rs": 420})
    assert lengths.judge({}, {"gone.rs": 500}, {"gone.rs": 500})


def test_entry_that_grew_or_is_new_is_refused_once_the_list_exists():
    assert lengths.judge({"a.rs": "//\n" * 450}, {"a.rs": 450}, {"a.rs": 440})
    assert lengths.judge({"a.rs": "//\n" * 450}, {"a.rs": 450}, {"b.rs": 440})


def test_exceptions_are_read_without_comments():
    assert lengths.read_exceptions("# why\n\n410 a.rs # reason\n72 b.rs::walk\n") == {
        "a.rs": 410,
        "b.rs::walk": 72,
    }


@pytest.mark.parametrize(
    "line",
    ["see /work/main/abi", "HOME=/root/.cargo", "index = https://mirror.example.net/simple"],
)
def test_machine_path_or_unlisted_host_is_refused(line):
    assert words.judge_text("a.md", line)


@pytest.mark.parametrize(
    "line",
    ["see target/work/x", "https://github.com/a/b", "/proc/1/root/etc", "framework/main"],
)
def test_ordinary_text_is_allowed(line):
    assert words.judge_text("a.md", line) == []


def test_cell_and_paragraph_that_are_too_long_are_refused_and_shorter_ones_allowed():
    cell, paragraph = documents.CELL_WORDS_MAX, documents.PARAGRAPH_WORDS_MAX
    assert documents.judge_text("a.md", f"| short |{' word' * (cell + 1)} |")
    assert documents.judge_text("a.md", f"| short |{' word' * cell} |") == []
    assert documents.judge_text("a.md", "word " * (paragraph + 1))
    assert documents.judge_text("a.md", "word " * paragraph) == []


def test_comments_bars_and_code_are_no_words():
    assert documents.words("| two words | <!-- not seen at all --> |---|") == 2
    assert documents.judge_text("a.md", f"```text\n{'word ' * 500}\n```") == []


def test_page_of_promises_with_a_word_too_many_is_refused():
    assert documents.judge_promises("word " * (documents.PROMISES_WORDS_MAX + 1))
    assert documents.judge_promises("word " * documents.PROMISES_WORDS_MAX) == []


@pytest.mark.parametrize("reason", ["", " as above", " checked"])
def test_safety_comment_without_a_reason_is_refused(reason):
    assert reasons.judge_safety("a.rs", f"// SAFETY:{reason}\nunsafe {{ read() }}\n")


@pytest.mark.parametrize("reason", [" `place` is inside, checked above.", "\n// the lock is held by us."])
def test_safety_comment_that_says_what_meets_the_obligation_is_allowed(reason):
    assert reasons.judge_safety("a.rs", f"    // SAFETY:{reason}\n    unsafe {{ read() }}\n") == []


def test_subject_of_73_characters_is_refused_and_of_72_allowed():
    assert reasons.judge_subjects(["x" * 73])
    assert reasons.judge_subjects(["x" * 72]) == []


NAMES = "use std::sync::atomic::AtomicU32;\n"


def test_an_atomic_of_stds_needs_an_entry_and_an_entry_an_atomic():
    assert atomics.judge({"a/src/b.rs": NAMES}, [])
    assert atomics.judge({"a/src/b.rs": NAMES}, ["a/src/b.rs"]) == []
    assert atomics.judge({"a/src/b.rs": "use heliostat_base::sync::AtomicU32;\n"}, ["a/src/b.rs"])
    assert atomics.judge({}, ["a/src/gone.rs"])


@pytest.mark.parametrize(
    "path", ["a/tests/b.rs", "a/src/b/tests.rs", "a/src/b_tests.rs", "bench/a/src/b.rs", "a/README.md"]
)
def test_tests_and_measurements_may_name_any_atomic(path):
    assert atomics.judge({path: NAMES}, []) == []


def test_an_atomic_behind_the_first_test_is_a_tests():
    assert atomics.judge({"a/src/b.rs": "#[cfg(test)]\nmod tests {\n    " + NAMES + "}\n"}, []) == []


def crate(**modules: str) -> dict[str, str]:
    """The files of a crate in folder `a`."""
    return {f"a/src/{name.replace('__', '/')}.rs": text for name, text in modules.items()}


def test_two_modules_that_use_each_other_need_an_entry():
    files = crate(b="use crate::c::Item;\n", c="fn f() { crate::b::g() }\n")
    assert circles.judge(files, [])
    assert circles.judge(files, ["a/src: b c"]) == []
    assert circles.judge(files, ["a/src: b c d"])


def test_an_entry_that_is_no_circle_any_more_is_refused():
    assert circles.judge(crate(b="use crate::c::Item;\n", c=""), ["a/src: b c"])


def test_a_circle_is_seen_through_groups_children_and_super():
    files = crate(b="use crate::{c::{self, Item}, d};\n", c="mod e;\n", c__e="use super::super::d::X;\n", d="use super::b;\n")
    assert circles.lines(circles.circles(files)) == ["a/src: b c d"]


def test_parents_and_children_tests_and_comments_make_no_circle():
    files = crate(
        b="use self::c::Item;\n// crate::d::x\n",
        b__c="use super::Other;\n",
        d="use crate::b;\n#[cfg(test)]\nmod tests {}\n",
    )
    assert circles.judge(files, []) == []


def manifest(**more) -> dict:
    """A published package that lacks nothing, with the given fields instead."""
    whole = {field: "x" for field in manifests.NEEDED} | {"keywords": ["ipc"]}
    return {"name": "attic", "publish": None, "dependencies": [], **whole, **more}


def edge(**more) -> dict:
    return {"name": "cellar", "path": "/w/cellar", "kind": None, "req": "^0.1.0", **more}


def test_described_crate_with_versions_on_its_edges_is_allowed():
    assert manifests.judge([manifest(dependencies=[edge(), edge(kind="dev", req="*")])]) == []


@pytest.mark.parametrize(
    "lack",
    [
        {"description": None},
        {"license": None},
        {"keywords": []},
        {"keywords": list("abcdef")},
        {"description": "Heliostat: attic"},
        {"dependencies": [edge(req="*")]},
    ],
    ids=str,
)
def test_crate_that_cannot_be_published_or_found_is_refused(lack):
    assert manifests.judge([manifest(**lack)])
    assert manifests.judge([manifest(**lack, publish=[])]) == []


EXAMPLE = "//! Words.\n//!\n//! ```\n//! let one = 1;\n//! ```\n"
DRAWING = "//! ```text\n//! a --> b\n//! ```\n"


@pytest.mark.parametrize("is_run, sources", [(True, [DRAWING, EXAMPLE]), (False, [DRAWING]), (False, [])])
def test_crate_whose_examples_are_run_if_there_are_any_is_allowed(is_run, sources):
    assert manifests.judge_examples("attic", is_run, sources) == []


@pytest.mark.parametrize("is_run, sources", [(False, [DRAWING, EXAMPLE]), (False, [EXAMPLE.replace("```\n//! let", "```no_run\n//! let")]),
                                             (True, [DRAWING]), (True, [])])  # fmt: skip
def test_crate_whose_examples_are_not_run_or_that_has_none_to_run_is_refused(is_run, sources):
    assert manifests.judge_examples("attic", is_run, sources)
