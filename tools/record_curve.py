"""Records what a finished run of a preset had on held-out rows, for other runs of the preset to be held against.

    python tools/record_curve.py RUN --text 'Simple English Wikipedia'

The run must be as the preset has it (batch, evaluations and precision apart). The curve goes into
src/electralab/pretraining/curves.json; a test reads it.
"""

import argparse
from pathlib import Path

from electralab.errors import UsageError
from electralab.pretraining import curves
from electralab.records.run import METRICS, RunFingerprint, read_metrics

SCORES = ("generator_loss", "discriminator_loss", "auc", "recall")


def record(run: Path, text: str) -> curves.Curve:
    points = []
    for line in read_metrics(run / METRICS):
        scores = line.with_prefix("heldout_")
        if "auc" in scores:
            rounded = {name: round(float(scores[name] or 0), 4) for name in SCORES}
            points.append(curves.ReferencePoint(tokens=int(line["tokens"] or 0), **rounded))
    if len(points) < 2:
        raise UsageError(f"{run}: has {len(points)} evaluations with an AUC; a curve needs two")
    return curves.Curve(text=text, steps=RunFingerprint.read(run).total_steps, points=points)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--text", required=True, help="what the run was trained on, as a sentence names it")
    parser.add_argument("--preset", default="", help="default: the one that the run stored")
    parser.add_argument("--out", type=Path, default=Path(curves.__file__).parent, help="the folder of curves.json")
    given = parser.parse_args()
    preset = given.preset or RunFingerprint.read(given.run).preset.removeprefix("preset ")
    known = curves.ReferenceCurves.find(given.out) or curves.ReferenceCurves(curves={})
    recorded = known.curves | {preset: record(given.run, given.text)}
    curves.ReferenceCurves(curves=dict(sorted(recorded.items()))).write(given.out)
    print(recorded[preset].describe(preset, recorded[preset].points[-1].tokens))


if __name__ == "__main__":
    main()
