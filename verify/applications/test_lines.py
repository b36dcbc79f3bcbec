"""The page of the applications says how long they are as they are now."""

from __future__ import annotations

import re

import lines


def test_the_page_of_the_applications_has_their_lines():
    page = (lines.ROOT / "docs/applications.md").read_text()
    for application in lines.APPLICATIONS:
        row = re.search(rf"^\| `applications/{application}` \| (\d+) \| (\d+) \|", page, re.MULTILINE)
        assert row and (int(row[1]), int(row[2])) == lines.count(application), "python verify/applications/lines.py"


def test_what_counts_as_a_line_that_touches():
    text = "use heliostat::memory::{Memory, Region};\n\n// Region\nfn f(memory: &Memory) {\n    region.read(0);\n    x.map(1);\n}\n"
    assert lines.imported(text) == {"Memory", "Region", "heliostat"}
    assert len(lines.program_lines(text)) == 5
    assert lines.CALL.search("    region.read(0);") and not lines.CALL.search("    x.map(1);")
    assert lines.CALL.search("self.memory.on(node).map(name)") and lines.CALL.search("copies[0].region.swap(1)")
