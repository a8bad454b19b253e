"""What `electra fit` picks, and what it is worth on rows that nothing has seen, beside TF-IDF and the encoder alone.

    python benchmarks/fit.py --data DIR [--sets sst2,cola,qnli,nsmc] [--rows 200,1000,10000] [--korean MODEL]
                             [--out DIR] [--json FILE]

DIR is the data folder ($DATA). The first rows of a shuffled training file are labelled rows, the first 2,000 of the
development file are test rows with labels; `fit` chooses by the former alone, by accuracy. The encoder is `hour-en`; of
nsmc (Korean) it is --korean, without which nsmc is left out. With --out the same command goes on where it was stopped.
"""

import argparse
import csv
import json
import lzma
import os
import random
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import electralab
from electralab.display import Display
from electralab.records.fitted import FitResults

TEST_ROWS = 2000
ENTRIES = ("linear", "encoder", "blend")
# Training file, file of the test rows, columns of the texts, column of the label.
SETS: dict[str, tuple[str, str, tuple[int, ...], int]] = {
    "sst2": ("glue/SST-2/train.tsv", "glue/SST-2/dev.tsv", (0,), 1),
    "cola": ("glue/CoLA/train.tsv", "glue/CoLA/dev.tsv", (3,), 1),
    "qnli": ("glue/QNLI/train.tsv", "glue/QNLI/dev.tsv", (1, 2), 3),
    "nsmc": ("nsmc_ko/ratings_train.txt.xz", "nsmc_ko/ratings_test.txt.xz", (1,), 2),
}


def read_rows(path: Path, texts: Sequence[int], label: int) -> list[list[str]]:
    """Texts and label of each row, in an order of its own that is always the same."""
    content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    table = [line.split("\t") for line in content.decode().splitlines()]
    # CoLA alone has no names of columns.
    rows = [[row[column].strip() for column in (*texts, label)] for row in table if row[label] != "label"]
    random.Random(0).shuffle(rows)
    return [row for row in rows if all(row)]


def write_table(path: Path, rows: Sequence[Sequence[str]]) -> None:
    names = ["text", "label"] if len(rows[0]) == 2 else ["text_a", "text_b", "label"]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


@dataclass(frozen=True)
class FitScores:
    """Accuracies of each entry, in percent."""

    set: str
    rows: int
    test_rows: int
    commonest: float
    """Of the answer that most test rows have."""
    picked: str
    judged: dict[str, float]
    """By which it was picked."""
    test: dict[str, float]
    seconds: float


def fit_set(name: str, rows: int, data: Path, model: str | Path, out: Path) -> FitScores:
    train, test, texts, label = SETS[name]
    folder = out / f"{name}-{rows}"
    (folder / "rows").mkdir(parents=True, exist_ok=True)
    learned, tested = read_rows(data / train, texts, label)[:rows], read_rows(data / test, texts, label)[:TEST_ROWS]
    write_table(folder / "rows" / "train.csv", learned)
    write_table(folder / "rows" / "test.csv", tested)
    result = electralab.fit(
        folder / "rows", folder / "run", model=model, workers=1, threads=1, display=Display(quiet=True)
    )
    assert isinstance(result, FitResults)
    commonest = Counter(row[-1] for row in tested).most_common(1)[0][1] / len(tested)
    return FitScores(
        set=name,
        rows=rows,
        test_rows=len(tested),
        commonest=round(100 * commonest, 1),
        picked=result.best,
        judged={entry.name: 100 * entry.scores[result.metric] for entry in result.entries},
        test={entry.name: 100 * entry.test[result.metric] for entry in result.entries},
        seconds=result.seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("ELECTRALAB_DATA"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--rows", default="200,1000,10000")
    parser.add_argument("--korean", type=Path, help="a model of Korean, for nsmc")
    parser.add_argument("--out", type=Path, help="keeps tables and runs")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.data is None:
        print("skipped: needs labelled sets; give --data, or set ELECTRALAB_DATA")
        return
    results: list[FitScores] = []
    print(f"{'set':6} {'rows':>6} {'commonest':>9} " + " ".join(f"{name:>8}" for name in ENTRIES) + "  picked")
    with tempfile.TemporaryDirectory() as scratch:
        for rows in map(int, arguments.rows.split(",")):
            for name in arguments.sets.split(","):
                model = arguments.korean if name == "nsmc" else "hour-en"
                if model is None:
                    print(f"{name:6} skipped: needs a model of Korean; give --korean")
                    continue
                scores = fit_set(name, rows, Path(arguments.data), model, arguments.out or Path(scratch))
                results.append(scores)
                # Rows of one class, or too few, leave no blend.
                cells = [f"{scores.test[entry]:8.1f}" if entry in scores.test else f"{'–':>8}" for entry in ENTRIES]
                print(f"{name:6} {rows:6} {scores.commonest:9} {' '.join(cells)}  {scores.picked}", flush=True)
                if arguments.json:
                    arguments.json.write_text(json.dumps([asdict(scores) for scores in results], indent=2) + "\n")
    if results:
        picked, linear = (
            sum(scores.test[name or scores.picked] for scores in results) / len(results) for name in ("", "linear")
        )
        behind = max(max(scores.test.values()) - scores.test[scores.picked] for scores in results)
        print(f"mean of the picked {picked:.1f}, of TF-IDF {linear:.1f}; at most {behind:.1f} behind the best entry")


if __name__ == "__main__":
    main()
