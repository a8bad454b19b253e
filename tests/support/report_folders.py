"""Folders such as training leaves them, a few bytes each, written by the records that training writes."""

import json
from pathlib import Path
from typing import Any

from electralab.records.run import (
    Budget,
    Environment,
    ExampleRow,
    GuessedToken,
    PretrainResults,
    RunExamples,
    RunFingerprint,
    StepRecord,
)

BASELINES: dict[str, float | None] = {"generator_loss": 6.9, "generator_accuracy": 0.05, "discriminator_loss": 0.37}
SCORES: dict[str, float | None] = {
    "generator_loss": 4.5,
    "generator_accuracy": 0.277,
    "discriminator_loss": 0.315,
    "auc": 0.758,
    "recall": 0.142,
    "called_replaced": 0.025,
    "replaced_share": 0.123,
}


def make_record(step: int, **more: Any) -> dict[str, Any]:
    moving = {"loss": 10.0 - step / 20, "generator_loss": 9.0 - step / 20, "auc": 0.5 + step / 400}
    counts = {"step": step, "tokens": 100 * step, "flops": 10**9 * step, "seconds": 0.5 * step}
    return {**counts, **moving, "learning_rate": 0.001, "tokens_per_second": 200.0, **more}


def make_steps(*records: dict[str, Any]) -> list[StepRecord]:
    return [StepRecord.model_validate(record) for record in records]


def write_log(path: Path, steps: int, every: int = 1) -> None:
    records = [make_record(step) for step in range(1, steps + 1)]
    for record in records[9::10]:
        record |= {f"heldout_{key}": value for key, value in SCORES.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records[every - 1 :: every]))


def write_examples(run: Path) -> None:
    """A row with every shade of suspicion."""
    pieces = ["a", "cat", "sat", "##s", "on", "the", "red", "mat", "and", "slept"]
    guesses = [
        GuessedToken(text="dog", p=0.6, continues_word=False),
        GuessedToken(text="cat", p=0.3, continues_word=False),
    ]
    row = ExampleRow(
        pieces=pieces,
        is_masked=[piece in ("cat", "the") for piece in pieces],
        guesses=[guesses if piece in ("cat", "the") else [] for piece in pieces],
        corrupted=["dog" if piece == "cat" else piece for piece in pieces],
        is_replaced=[piece == "cat" for piece in pieces],
        p_replaced=[0.05, 0.95, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85],
    )
    RunExamples(objective="electra", step=40, rows=(row,)).write(run)


def make_run(folder: Path, *, steps: int = 40, total: int = 40, **settings: Any) -> Path:
    write_log(folder / "metrics.jsonl", steps)
    known = {"size": "tiny", "objective": "electra", "model": {"backbone": "modern", "hidden_size": 64}, "seed": 0}
    RunFingerprint(
        data="0123456789abcdef",
        init_from="",
        settings={**known, **settings},
        budget=Budget("steps", total),
        total_steps=total,
        threads=1,
    ).write(folder)
    Environment(python="3.11", packages={"torch": "2"}, command=("electra", "pretrain", "--out", "<a>")).write(folder)
    if steps >= total:
        amounts = {key: make_record(steps)[key] for key in ("step", "tokens", "flops", "seconds")}
        PretrainResults(**amounts, objective="electra", heldout=SCORES, baselines=BASELINES).write(folder)
    return folder
