"""Logs, measured on real ones: `python benchmarks/logs.py templates --data DIR` (or ELECTRALAB_DATA).

templates   grouping accuracy of the templates found, on eight systems of Loghub: the share of lines whose group is
            exactly a group of the truth
hdfs, adfa  sequences: the combination fitted without labels beside simple detectors; with --model RUN what its networks
            say goes into it, without it counting alone. --most N rows of the test, drawn at random. The model must not
            have learned from what the combination is fitted on: --write FILE writes the other normal sequences, which
            are those that are counted, for 'electra prepare FILE --symbols', and ends

Nothing here is tuned for one system; the rules of `corpus/templates.py` were written while looking at all eight.
"""

import argparse
import csv
import io
import json
import lzma
import os
import sys
from collections import defaultdict
from collections.abc import Hashable, Sequence
from pathlib import Path
from random import Random

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_auc_score

from electralab.corpus.logs import LineReader
from electralab.corpus.templates import TemplateMiner, TemplateTree
from electralab.detection.calibration import combine
from electralab.detection.sequence_calibration import ROW_FEATURES, calibrate_sequences, describe_rows
from electralab.detection.sequences import BASELINES, SequenceCounts
from electralab.detection.words import GUESSED, Floats
from electralab.records.calibration import SequenceCalibration
from electralab.serving.model import Model
from electralab.stopping import NO_STOP


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


def read_sequences(logs: Path, name: str) -> tuple[list[list[str]], list[tuple[list[str], bool]]]:
    """Normal sequences to fit on, and others with whether they are wrong."""
    if name == "adfa":
        rows = read_table(logs / "adfa/adfa_ld.csv.xz")
        normal = [row["Sequence"].split() for row in rows if row["set"] == "train"]
        return normal, [(row["Sequence"].split(), row["label"] != "normal") for row in rows if row["set"] == "test"]
    train, valid, test = (read_table(logs / f"hdfs/{part}.csv.xz") for part in ("train", "valid", "test"))
    normal = [row["Sequence"].split() for row in train if row["label"] == "0"]
    return normal, [(row["Sequence"].split(), row["label"] == "1") for row in (*valid, *test)]


def be_silent(rows: Sequence[Sequence[str]]) -> list[Floats]:
    """In the place of networks."""
    return [np.zeros((len(row), 1 + len(GUESSED))) for row in rows]


def measure_sequences(logs: Path, name: str, model: Path | None, most: int, write: Path | None) -> None:
    normal, labelled = read_sequences(logs, name)
    rng = Random(0)
    rng.shuffle(normal)
    fitted = min(len(normal) // 3, 1500)
    if write:
        write.write_text("".join(json.dumps(row) + "\n" for row in normal[fitted:]))
        return
    labelled = rng.sample(labelled, min(most, len(labelled)))
    score = Model(model, raw=True).make_event_scorer(NO_STOP) if model else be_silent
    updates = calibrate_sequences(
        score,
        normal[fitted:],
        normal[:fitted],
        error_rate=0.05,
        false_alarms=0.01,
        seed=0,
        stop=NO_STOP,
    )
    calibration = next(update for update in updates if isinstance(update, SequenceCalibration))
    counts = SequenceCounts.count(normal[fitted:])
    rows, is_wrong = [events for events, _ in labelled], np.array([label for _, label in labelled])
    features = describe_rows(counts, score, rows).features
    suspicion = combine(calibration.rows, features, ROW_FEATURES)
    named = suspicion > calibration.threshold
    hits = int((named & is_wrong).sum())
    source = f"networks of {model}" if model else "counting alone"
    print(f"{name}: {len(rows):,} rows, {int(is_wrong.sum()):,} wrong; {source}")
    print(
        f"at the threshold for 1 % false alarms: false alarms {float(named[~is_wrong].mean()):.4f}, recall "
        f"{hits / int(is_wrong.sum()):.4f}, F1 {2 * hits / int(named.sum() + is_wrong.sum()):.4f}"
    )
    encoded = counts.encode(rows)
    scores = {"combination": suspicion}
    print(", ".join(f"{feature.name} {feature.weight:.2f}" for feature in calibration.rows.features))
    if model:
        scores |= {part: features[:, ROW_FEATURES.index(f"{part}_mean")] for part in ("replaced", "surprise")}
    scores |= {simple: detector(counts, encoded) for simple, detector in BASELINES.items()}
    print(f"{'':16}{'AUC':>8}{'best F1':>9}")
    for detector, values in scores.items():
        precision, recall, _ = precision_recall_curve(is_wrong, values)
        best = float((2 * precision * recall / np.maximum(precision + recall, 1e-12)).max())
        print(f"{detector:16}{roc_auc_score(is_wrong, values):8.4f}{best:9.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("templates", "hdfs", "adfa"))
    parser.add_argument("--model", type=Path, help="a run that was trained on the normal sequences")
    parser.add_argument("--write", type=Path, help="write the normal sequences that are counted, a list on each line")
    parser.add_argument("--most", type=int, default=100_000)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("ELECTRALAB_DATA", "")))
    arguments = parser.parse_args()
    logs = arguments.data / "logs"
    if not logs.is_dir():
        sys.exit(f"skipped: {logs} does not exist; give --data, or set ELECTRALAB_DATA")
    if arguments.what == "templates":
        measure_templates(logs / "raw")
    else:
        measure_sequences(logs, arguments.what, arguments.model, arguments.most, arguments.write)


if __name__ == "__main__":
    main()
