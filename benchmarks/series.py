"""Anomalies in the 58 series of the Numenta Anomaly Benchmark: ours beside the windowed Gaussian, by NAB's own rule.

    python benchmarks/series.py --data $DATA [--run RUN] [--families NAME…] [--networks NAME…] [--out DIR] [--json FILE]

$DATA holds series/nab/nab.tar.xz. The first 15 % of each series (at most 750 points, which NAB does not score either)
are what bins, means and seasons are learned from; nothing else is, but that scores go on learning from the points
before them, as NAB's detectors do. Without --run one tiny model is trained on the beginnings of all series together,
each with bins of its own (`prepare --series --series.scale files`). --networks names the series of which its networks
are asked, each of whose points is two passes; all others have the statistics alone.

Shown is NAB's standard profile, by family: at the one threshold that is best over all series, as NAB chooses it, and
at the tool's own threshold, which was never compared with a label. Alarms of ours are where windows begin, at the
stated share of false alarms; the windowed Gaussian is scored as published, point by point.
"""

import argparse
import csv
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from electralab.corpus.series import TimeSeries, read_series
from electralab.corpus.sources import find_sources
from electralab.detection.nab import LabelledSeries, count_probation, score_gaussian, score_nab
from electralab.detection.series import STATISTICS, Evidence, SeriesScorer, begin_windows, measure_statistics, rank
from electralab.serving.model import Model
from electralab.tokens.series import SeriesConfig, learn_symbols

Floats = NDArray[np.float64]
ARCHIVE = "series/nab/nab.tar.xz"
# Of the tool, which no label was compared with.
OWN_RATE, JOIN = 1e-3, 100
RATES = 10.0 ** -np.arange(1.25, 9.1, 0.25)
POINTS = 29  # of a row


@dataclass(frozen=True)
class Series:
    name: str
    table: TimeSeries
    windows: tuple[tuple[int, int], ...]

    @property
    def family(self) -> str:
        return self.name.partition("/")[0]


def read_all(folder: Path) -> list[Series]:
    labels = json.loads((folder / "labels" / "combined_windows.json").read_text())
    every = []
    for name, windows in sorted(labels.items()):
        (source,) = find_sources([str(folder / "data" / name)]).files
        table = read_series(source)
        # Labels have microseconds, the files have none; of equal times NAB takes the first.
        places = [tuple(table.times.index(time.partition(".")[0]) for time in window) for window in windows]
        every.append(Series(name, table, tuple((first, last) for first, last in places)))
    return every


def train(series: Sequence[Series], folder: Path, out: Path, steps: int) -> Path:
    """One model of the beginnings of all series."""
    heads = out / "heads"
    heads.mkdir(parents=True, exist_ok=True)
    for entry in series:
        with (folder / "data" / entry.name).open(newline="") as file:
            rows = list(csv.reader(file))[: 1 + count_probation(len(entry.table.times))]
        with (heads / entry.name.replace("/", "-")).open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    prepared, run = out / "data", out / "run"
    for words in (
        ["prepare", "--series", str(heads), "--out", str(prepared), "--series.scale", "files"],
        ["pretrain", "--data", str(prepared), "--out", str(run), "--config", "tiny", "--steps", str(steps)],
    ):
        if done := subprocess.run([sys.executable, "-m", "electralab", *words], check=False).returncode:
            sys.exit(f"{words[0]}: ended with status {done}")
    return run


def alarms(rarity: Floats, rate: float) -> Floats:
    """1 where a window begins."""
    scores = np.zeros(len(rarity))
    scores[begin_windows(np.exp(-rarity) <= rate, JOIN)] = 1.0
    return scores


def combine(rarities: Iterable[Floats]) -> Floats:
    return rank(np.sum(list(rarities), axis=0))


def label(series: Sequence[Series], scores: Sequence[Floats]) -> list[LabelledSeries]:
    return [LabelledSeries(entry.name, own, entry.windows) for entry, own in zip(series, scores, strict=True)]


def choose_rate(series: Sequence[Series], rarities: Sequence[Floats]) -> float:
    """The one share of false alarms that scores best over all series: what NAB does with thresholds."""

    def score(rate: float) -> float:
        return score_nab(label(series, [alarms(rarity, rate) for rarity in rarities]), 0.5).score

    best: float = max(RATES.tolist(), key=score)
    return best


def by_family(series: Sequence[Series], scores: Sequence[Floats], threshold: float) -> dict[str, float | None]:
    labelled = label(series, scores)
    rows: dict[str, float | None] = {"all": score_nab(labelled, threshold).score}
    for family in sorted({entry.family for entry in series}):
        own = [part for part, entry in zip(labelled, series, strict=True) if entry.family == family]
        rows[family] = score_nab(own, threshold).score if any(part.windows for part in own) else None
    return rows


def measure(series: Sequence[Series], rarities: Mapping[str, Sequence[Floats]]) -> dict[str, dict[str, float | None]]:
    table: dict[str, dict[str, float | None]] = {
        "null": by_family(series, [np.zeros(len(s.table.times)) for s in series], 2.0)
    }
    gaussian = [score_gaussian(entry.table.values[:, 0]) for entry in series]
    best = score_nab(label(series, gaussian)).threshold
    table["windowed Gaussian, as published"] = by_family(series, gaussian, 2.0 if best is None else best)
    for name, own in rarities.items():
        rate = choose_rate(series, own)
        table[f"{name}, best rate {rate:.2g}"] = by_family(series, [alarms(rarity, rate) for rarity in own], 0.5)
        table[f"{name}, own rate {OWN_RATE:g}"] = by_family(series, [alarms(rarity, OWN_RATE) for rarity in own], 0.5)
    return table


def show(title: str, table: Mapping[str, Mapping[str, float | None]]) -> None:
    rows = sorted({row for column in table.values() for row in column}, key=lambda row: (row != "all", row))
    print(f"\n{title}\n| | {' | '.join(rows)} |\n|---|{'---|' * len(rows)}")
    for name, column in table.items():
        cells = ["–" if column[row] is None else f"{column[row]:.1f}" for row in rows]
        print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, type=Path)
    parser.add_argument("--run", type=Path, help="a model of the beginnings, trained before")
    parser.add_argument("--families", nargs="+", default=[], help="only series whose name begins so")
    parser.add_argument("--networks", nargs="*", default=[], help="series, by how their names begin")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        with tarfile.open(arguments.data / ARCHIVE) as archive:
            archive.extractall(folder, filter="data")
        series = [s for s in read_all(folder) if not arguments.families or s.name.startswith(tuple(arguments.families))]
        statistics: list[dict[Evidence, Floats]] = []
        for entry in series:
            head = entry.table.take(0, count_probation(len(entry.table.times)))
            symbols = learn_symbols([head], SeriesConfig(scale="files"), POINTS)
            measured = measure_statistics(entry.table, symbols)
            statistics.append({name: rank(values[:, 0]) for name, values in measured.items()})
        chosen: dict[str, Sequence[Evidence]] = {"value alone": ("value",), "statistics": STATISTICS}
        rarities = {
            name: [combine(own[part] for part in used if part in own) for own in statistics]
            for name, used in chosen.items()
        }
        results = {"all": measure(series, rarities)}
        show(f"{len(series)} series, NAB's standard profile", results["all"])
        asked = [place for place, entry in enumerate(series) if entry.name.startswith(tuple(arguments.networks))]
        if arguments.networks and asked:
            run = arguments.run or train(series, folder, arguments.out or folder / "out", arguments.steps)
            tokenizer, discriminator, generator = Model(run).pair()
            some = [series[place] for place in asked]
            by_network: dict[str, list[Floats]] = {
                name: [own[place] for place in asked] for name, own in rarities.items()
            }
            for entry, place in zip(some, asked, strict=True):
                head = entry.table.take(0, count_probation(len(entry.table.times)))
                symbols = learn_symbols([head], SeriesConfig(scale="files"), POINTS)
                scored = SeriesScorer(symbols, tokenizer, discriminator, generator).score(entry.table)
                own = {name: values[:, 0] for name, values in scored.rarity.items()}
                for name in ("surprise", "replaced"):
                    by_network.setdefault(f"{name} alone", []).append(combine([own[name]]))
                by_network.setdefault("networks", []).append(combine([own["surprise"], own["replaced"]]))
                by_network.setdefault("statistics and networks", []).append(combine(own.values()))
                print(f"{place}: {entry.name}: {len(entry.table.times):,} points", file=sys.stderr)
            results["networks"] = measure(some, by_network)
            show(f"{len(some)} series of which the networks were asked", results["networks"])
        if arguments.json:
            arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
