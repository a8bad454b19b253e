"""Logs, measured on real ones: `python benchmarks/logs.py templates --data DIR` (or ELECTRALAB_DATA).

templates   grouping accuracy of the templates found, on eight systems of Loghub: the share of lines whose group is
            exactly a group of the truth

Nothing here is tuned for one system; the rules of `corpus/templates.py` were written while looking at all eight.
"""

import argparse
import csv
import io
import lzma
import os
import sys
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path

from electralab.corpus.logs import LineReader
from electralab.corpus.templates import TemplateMiner, TemplateTree


def read_table(path: Path) -> list[dict[str, str]]:
    with lzma.open(path) as file:
        return list(csv.DictReader(io.TextIOWrapper(file, encoding="utf-8", newline="")))


def group_accuracy(events: Sequence[Hashable], truth: Sequence[Hashable]) -> float:
    """
    >>> group_accuracy("aabb", "xxyz")
    0.5
    """
    groups: tuple[defaultdict[Hashable, list[int]], ...] = (defaultdict(list), defaultdict(list))
    for number, names in enumerate(zip(events, truth, strict=True)):
        for group, name in zip(groups, names, strict=True):
            group[name].append(number)
    right = {tuple(lines) for lines in groups[1].values()}
    return sum(len(lines) for lines in groups[0].values() if tuple(lines) in right) / len(truth)


def find_events(messages: Sequence[str]) -> list[str | None]:
    miner = TemplateMiner()
    for message in messages:
        miner.add(message)
    tree = TemplateTree(miner.find())
    return [tree.find(message) for message in messages]


def measure_templates(raw: Path) -> None:
    print(f"{'':10} {'by event id':>22} {'by template':>22}")
    print(f"{'':10} {'content':>11}{'raw line':>11} {'content':>11}{'raw line':>11}")
    totals = [0.0] * 4
    systems = sorted(path.name for path in raw.iterdir())
    for system in systems:
        rows = read_table(raw / system / f"{system}_2k.log_structured.csv.xz")
        lines = lzma.decompress((raw / system / f"{system}_2k.log.xz").read_bytes()).decode().splitlines()
        lines = [line for line in lines if line.strip()]
        reader = LineReader()
        events = [
            find_events([row["Content"] for row in rows]),
            find_events([reader.read(line).message for line in lines]),
        ]
        scores = [
            group_accuracy(own, [row[truth] for row in rows])
            for truth in ("EventId", "EventTemplate")
            for own in events
        ]
        print(f"{system:10} {scores[0]:11.4f}{scores[1]:11.4f} {scores[2]:11.4f}{scores[3]:11.4f}")
        totals = [total + score / len(systems) for total, score in zip(totals, scores, strict=True)]
    print(f"{'mean':10} {totals[0]:11.4f}{totals[1]:11.4f} {totals[2]:11.4f}{totals[3]:11.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("templates",))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ELECTRALAB_DATA", "")))
    arguments = parser.parse_args()
    logs = arguments.data / "logs"
    if not logs.is_dir():
        sys.exit(f"skipped: {logs} does not exist; give --data, or set ELECTRALAB_DATA")
    measure_templates(logs / "raw")


if __name__ == "__main__":
    main()
