"""The table of paths (paths.toml): what is stated for each case, and how it is read.

A case has one line for each kind of its connections. A line says "direct", or the name of the
reason for which both ends are native (`Native` in abi/src/code.rs); where the two ends differ it
is a table with `accepted` and `connected`, and "unseen" stands for an end that no session
reports. Where connections of one kind may differ a word is a list of them. `natives` names the
reasons that may be counted besides, each explained in the table; `notice` is what `heliostat run`
says of a program that it cannot cover, and `counted` how many ends are direct, or native for a
reason, while all connections are open.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

TABLE = Path(__file__).with_name("paths.toml")
UNSEEN = "unseen"
NATIVES = "natives"
NOTICE = "notice"
COUNTED = "counted"
ENDS = ("accepted", "connected")
# A connection with a direct end may end after one request: before both rings are begun.
EARLY = {"DoneEarly", "PeerAsked"}


@dataclass
class Stated:
    """What the table states for one case: for each kind the word of its accepted and connected ends."""

    case: str
    kinds: dict[str, dict[str, set[str]]]
    natives: set[str]
    notice: str
    counted: dict[str, int]

    def reasons(self) -> set[str]:
        """Every reason that may be counted in this case."""
        words = set().union(*(words for ends in self.kinds.values() for words in ends.values()))
        early = EARLY if self.any_direct() else set()
        return (words | self.natives | early) - {"direct", UNSEEN}

    def any_direct(self) -> bool:
        """Whether some kind of connection of this case is direct."""
        return any("direct" in words for ends in self.kinds.values() for words in ends.values())


def stated(case: str) -> Stated:
    """The row of a case, FAMILY.NAME; a case without a row is an error."""
    family, _, name = case.partition(".")
    row = dict(tomllib.loads(TABLE.read_text())[family][name])
    natives, notice = set(row.pop(NATIVES, [])), row.pop(NOTICE, "")
    counted = row.pop(COUNTED, {})
    return Stated(case, {kind: both_ends(word) for kind, word in row.items()}, natives, notice, counted)


def both_ends(stated_word: str | list | dict) -> dict[str, set[str]]:
    """The words of the accepted and of the connected ends, as one line states them."""
    ends = stated_word if isinstance(stated_word, dict) else dict.fromkeys(ENDS, stated_word)
    return {end: {ends[end]} if isinstance(ends[end], str) else set(ends[end]) for end in ENDS}


def found_words(rows: list[dict]) -> dict[str, set[str]]:
    """The words of connections as `heliostat explain` reports them, by end."""
    words: dict[str, set[str]] = {end: set() for end in ENDS}
    for row in rows:
        end = ENDS[0] if row["accepted"] else ENDS[1]
        words[end].add("direct" if row["path"] == "direct" else row["reason"])
    return {end: found or {UNSEEN} for end, found in words.items()}


def are_as_stated(found: dict[str, set[str]], wanted: dict[str, set[str]]) -> bool:
    """True where each end shows nothing that is not stated for it."""
    return all(found[end] <= wanted[end] for end in ENDS)
