"""Wrong words: learners' English without and with labels, planted errors in held-out text, and what proofreading costs.

    python benchmarks/errors.py --data DIR --model RUN [--text FILE ...] [--sentences 1000] [--out DIR] [--json FILE]

DIR is the data folder ($DATA); RUN a run of English with a calibration ('electra calibrate'). Nothing is fitted on what
is measured on:

* errors/realec: sentences 1 to 1,000 tune 'electra finetune --task errors', the next --sentences (0: all) test; the
  model as it is, the tuned model and simple counts are scored on the same words, with intervals over sentences.
* --text: plain text that model and calibration have not seen; five kinds of error are planted in it ('electra
  measure'), by seed 0. Without --text this part is left out.
* the processor time of calibrated detection and of proofreading beside that of 'detect --raw' on the same text.

Without --data or --model it says so and ends: there is nothing to measure with.
"""

import argparse
import json
import lzma
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

import electralab
from electralab.display import Display
from electralab.measuring.inputs import text
from electralab.measuring.items import DetectorValues, MeasuredItems, MeasuringConfig, compare
from electralab.records.measurement import Measurement, MeasuringResult
from electralab.records.tuned import read_rows
from electralab.serving.model import Model
from electralab.serving.proofreader import ProofreadConfig
from electralab.stopping import NO_STOP

LABELLED = "errors/realec/en_realec_dev.tsv.xz"
TUNED_ON = 1000


def split_realec(data: Path, folder: Path, sentences: int) -> Path:
    """The first 1,000 sentences as train.tsv, those after them as test.tsv."""
    blocks = lzma.decompress((data / LABELLED).read_bytes()).decode().strip().split("\n\n")
    tested = blocks[TUNED_ON : TUNED_ON + sentences] if sentences else blocks[TUNED_ON:]
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in (("train", blocks[:TUNED_ON]), ("test", tested)):
        (folder / f"{name}.tsv").write_text("\n\n".join(part) + "\n\n")
    return folder


def tune(model: Path, data: Path, out: Path) -> Path:
    electralab.finetune(
        *(model, "errors", data, out),
        settings={"batch": {"size": 16}},
        workers=1,
        threads=1,
        baseline=False,
        display=Display(quiet=True),
    )
    return out


def measure_realec(model: Path, data: Path, tuned: Path) -> tuple[Measurement, Measurement]:
    """The model as it is beside counting; and beside what it is when tuned, which then stands where counts stood."""
    config = MeasuringConfig()
    detectors = text.WordDetectors(Model(model, config.windows), (), config)
    (zero_shot,) = [
        update
        for update in text.score_labelled(detectors, data / "test.tsv", NO_STOP)
        if isinstance(update, MeasuredItems)
    ]
    threshold = json.loads((tuned / "export" / "model" / "task.json").read_text())["threshold"]
    rows = read_rows(tuned / "seed-0" / "predictions" / "test.jsonl")
    values = np.array([p for row in rows if isinstance(row.probabilities, tuple) for p in row.probabilities])
    stated = DetectorValues("tuned", "tuned on 1,000 sentences", values, True, float(1 / (1 + np.exp(-threshold))))
    # The roles are named, not meant: "counting" is the model without labels here, so that the gain is that of labels.
    both = replace(zero_shot, detectors=[stated, replace(zero_shot.detectors[0], is_model=False)])
    return compare(zero_shot, 0.5, config), compare(both, 0.5, config)


def time_proofreading(model: Path, texts: list[str]) -> dict[str, float]:
    """Seconds of the processor by way of reading, in turn; each text is new to all, and the first only fills caches."""
    proofreader = Model(model).make_proofreader(ProofreadConfig())
    readers: dict[str, Callable[[str], object]] = {
        "raw": lambda given: raw.detect_many([given]),
        "calibrated": lambda given: calibrated.detect_many([given]),
        "proofread": proofreader.proofread,
    }
    raw, calibrated = Model(model, raw=True).detector, Model(model).detector
    seconds = dict.fromkeys(readers, 0.0)
    for number, given in enumerate(texts):
        for name, read in readers.items():
            start = time.process_time()
            read(given)
            seconds[name] += (time.process_time() - start) * (number > 0)
    return seconds | {"ratio": seconds["proofread"] / seconds["raw"]}


def show(title: str, found: Measurement) -> None:
    print(f"\n{title}: {found.wrong:,} of {found.items:,} words wrong; best: {found.best}, use {found.use}")
    print(f"{'':18} {'AUC':>6} {'AP':>6} {'[95 %':>7} {']':>5} {'best F':>7} {'F':>6} {'P':>6} {'R':>6}")
    for scores in found.detectors:
        precision = scores.average_precision
        stated = (scores.f.value if scores.f else None, scores.precision, scores.recall)
        cells = [scores.auc.value, precision.value, precision.low, precision.high, scores.best_f.value, *stated]
        print(f"{scores.name:18} " + " ".join("     –" if value is None else f"{value:6.3f}" for value in cells))
    print(f"gain {found.gain.value:.3f} ({found.gain.low}, {found.gain.high})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("ELECTRALAB_DATA"))
    parser.add_argument("--model", type=Path)
    parser.add_argument("--text", type=Path, nargs="*", default=[])
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--words", type=int, default=20_000)
    parser.add_argument("--out", type=Path, help="keeps the split and the tuned model")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.data is None or arguments.model is None:
        print("nothing to measure with: give --data DIR and --model RUN (with a calibration)")
        return
    with tempfile.TemporaryDirectory() as name:
        out = arguments.out or Path(name)
        data = split_realec(Path(arguments.data), out / "realec", arguments.sentences)
        bare, tuned = measure_realec(arguments.model, data, tune(arguments.model, data, out / "tuned"))
    show("realec, as it is", bare)
    show("realec, tuned", tuned)
    result: dict[str, object] = {"realec": bare.to_json(), "tuned": tuned.to_json()}
    if arguments.text:
        settings = {"words": arguments.words}
        planted = electralab.measure(arguments.model, arguments.text, settings=settings, threads=1)
        assert isinstance(planted, MeasuringResult)
        for found in planted.measurements:
            show(f"planted: {found.source}", found)
        result["planted"] = planted.to_json()
        lines = [line for path in arguments.text for line in path.read_text().splitlines() if line.strip()]
        parts = ["\n".join(lines[at : at + 10]) for at in range(0, min(len(lines), 60), 10)]
        result["seconds"] = times = time_proofreading(arguments.model, parts)
        print(f"\nproofreading: {times['ratio']:.1f} times the processor time of raw detection")
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
