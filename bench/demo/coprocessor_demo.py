"""Text and image search by workers that have no kernel, as Solros was shown: a table, and a picture.

1 to 4 sealed workers index texts and answer queries of images from the network, with files and connections by the
lean interface; the same with a small stack of each worker's own, with files that the host stages, and by the host's
own kernel without workers. Every text has to be indexed, and every query answered.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(BENCH), str(BENCH.parent / "verify")]

from coprocessors.ways import WAYS, Corpus, medians  # noqa: E402
from heliostat_run import Harness  # noqa: E402
from measure import ROOT, Bench, figure  # noqa: E402
from pictures.coprocessor import draw  # noqa: E402
from suite.coprocessor import IMAGES, TEXT_WORDS, index, queries  # noqa: E402

REPORT = Path(os.environ.get("HELIOSTAT_REPORT", ROOT / "target")) / "demo"
INDEXING, IMAGE_SEARCH = "text indexing", "image search"
# What each second, and each, means: many and one.
UNITS = {INDEXING: ("texts", "text"), IMAGE_SEARCH: ("queries", "query")}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=20_000, help="files of the corpus")
    parser.add_argument("--rounds", type=int, default=3, help="repetitions of each")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one load of queries")
    parser.add_argument("--out", type=Path, default=REPORT, help="folder for figures and picture")
    return parser.parse_args()


def print_table(what: str, told: dict) -> None:
    many, one = UNITS[what]
    print(f"\n{what:<16}{'workers':>8}{many + '/s':>14}{'CPU per ' + one:>18}")
    for way in WAYS:
        for count, one in told.get(way, {}).items():
            print(f"{way:<16}{count:>8}{figure(one['rate']):>14}{figure(one['cpu_us']) + ' us':>18}")


def main() -> int:
    asked = arguments()
    out, counts = asked.out.resolve(), (1, 2, 4)
    out.mkdir(parents=True, exist_ok=True)
    corpus = Corpus(asked.texts, TEXT_WORDS, IMAGES)
    with Harness() as harness:
        bench = Bench(harness, asked.rounds, asked.seconds)
        told = {
            INDEXING: medians(index(bench, corpus, counts)),
            IMAGE_SEARCH: medians(queries(bench, corpus, "image", counts)),
        }
    for what, ways in told.items():
        print_table(what, ways)
    data, picture = out / "coprocessor.json", out / "coprocessor.png"
    data.write_text(json.dumps(told, indent=1) + "\n")
    draw(told, picture)
    print(f"\npicture: {picture}\nfigures: {data}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
