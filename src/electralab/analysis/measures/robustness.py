"""What is left of a fine-tuned model's accuracy as words and letters of its input are damaged.

AnalysisModel, task data -> answers at each share of damage -> accuracy, and the share of it that is retained
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import numpy as np

from electralab.analysis.arrays import BoolArray, FloatArray, Indices, require_count
from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, exact, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.model import AnalysisModel
from electralab.corpus.damage import DAMAGE_KINDS, DamageKind, damage_text
from electralab.errors import InputError
from electralab.events import run_to_end
from electralab.finetuning.predicting import predict_examples
from electralab.finetuning.task_model import LoadedTaskModel, load_model
from electralab.statistics import Interval, subsample
from electralab.stopping import StopSignal
from electralab.tasks.catalog import find_task
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.load import TaskDataConfig, read_task

SHARES = (0.0, 0.1, 0.2, 0.4)
_KINDS: dict[DamageKind, str] = {
    "typo": "slips of the finger",
    "swap": "words exchanged for others of the text",
    "ocr": "letters misread",
}


@dataclass(frozen=True, slots=True)
class RobustnessCurve:
    shares: tuple[float, ...]
    scores: tuple[Interval, ...]
    """The accuracy at each share of damage."""
    retained: Interval
    """The mean over the shares of (accuracy - chance) / (undamaged accuracy - chance): 1 unharmed, 0 chance."""


def mean_height(shares: FloatArray, scores: FloatArray) -> float:
    """The mean height of a curve over its shares, by trapezia.

    >>> mean_height(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.5, 0.0]))
    0.5
    """
    return float(np.trapezoid(scores, shares) / (shares[-1] - shares[0]))


def _retained(is_right: BoolArray, shares: FloatArray, chance: float, indices: Indices) -> float:
    scores = is_right[:, indices].mean(axis=1) - chance
    # NaN where nothing above chance was there to be kept.
    return mean_height(shares, scores / scores[0]) if scores[0] > 0 else float("nan")


def measure_robustness(
    is_right: BoolArray, shares: Sequence[float], chance: float, draws: Resampler
) -> RobustnessCurve:
    """Of answers (L, N) to the same N examples at L shares of damage, the first undamaged; chance is the control."""
    _check_answers(is_right, shares)
    at, count = np.asarray(shares), is_right.shape[1]

    def score(level: BoolArray) -> Interval:
        return draws.interval(lambda indices: float(level[indices].mean()), count)

    scores = [score(level) for level in is_right]
    retained = draws.interval(lambda indices: _retained(is_right, at, chance, indices), count)
    return RobustnessCurve(tuple(shares), tuple(scores), retained)


def compare_robustness(
    ours: BoolArray, theirs: BoolArray, shares: Sequence[float], chance: float, draws: Resampler
) -> Controlled:
    """What we retain less what they retain, of the same examples drawn again. Control: answers swapped at random."""
    _check_answers(ours, shares)
    assert ours.shape == theirs.shape, "both answered the same"
    at, count = np.asarray(shares), ours.shape[1]

    def difference(first: BoolArray, second: BoolArray, indices: Indices) -> float:
        return _retained(first, at, chance, indices) - _retained(second, at, chance, indices)

    def swap(_: Indices) -> float:
        is_swapped = draws.rng.random(count) < 0.5
        swapped = np.where(is_swapped, theirs, ours), np.where(is_swapped, ours, theirs)
        return difference(*swapped, np.arange(count))

    estimate = draws.interval(lambda indices: difference(ours, theirs, indices), count)
    return Controlled(estimate, draws.shuffled(swap, count))


def _check_answers(is_right: BoolArray, shares: Sequence[float]) -> None:
    require_count("robustness", len(shares), 2, "shares of damage, the first being none")
    require_count("robustness", is_right.shape[1], 2, "examples")
    assert is_right.shape[0] == len(shares), "answers at every share"
    assert shares[0] == 0, "the first share is no damage"
    assert all(np.diff(shares) > 0), "shares rise"


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if model.control_of is not None:  # nothing was fine-tuned from it
        return
    try:
        tuned, examples = _load_task(model, data)
    except InputError as error:
        yield Skipped("retained", "robustness", str(error))
        return
    for kind in DAMAGE_KINDS:
        yield from skip_on_error(
            f"retained.{kind}", f"robustness, {kind}", _damage_findings, tuned, examples, kind, data
        )


def _load_task(model: AnalysisModel, data: AnalysisData) -> tuple[LoadedTaskModel, list[ClassificationExample]]:
    settings = data.settings
    if model.kind != "encoder":
        raise InputError(f"{model.name}: is not tuned for a task; give a model of 'electra finetune'")
    tuned = load_model(model.folder)
    if not settings.examples:
        raise InputError(f"{model.name}: needs the data of its task; give --examples DIR")
    if tuned.network.head_config.kind != "classify":
        raise InputError(f"{model.name}: is tuned to {tuned.network.head_config.kind}; give a model that classifies")
    tuned.network.to(model.device)
    split = read_task(find_task(tuned.config.task), Path(settings.examples), TaskDataConfig()).devs[0]
    examples = [example for example in split.examples if isinstance(example, ClassificationExample)]
    chosen = [examples[index] for index in subsample(len(examples), settings.rows, settings.seed)]
    require_count("robustness", len(chosen), 20, "labelled examples")
    return tuned, chosen


def _damage_findings(
    tuned: LoadedTaskModel, examples: Sequence[ClassificationExample], kind: DamageKind, data: AnalysisData
) -> Iterator[Finding]:
    is_right = np.stack([answer_damaged(tuned, examples, kind, share, data) for share in SHARES])
    most = Counter(example.label for example in examples).most_common(1)[0][1] / len(examples)
    draws = data.settings.resampler("robustness", kind)
    curve = measure_robustness(is_right, SHARES, most, draws)
    frequent = "always the most frequent class"
    meaning = f"the mean over shares of damage of (accuracy - chance) / (undamaged - chance), for {_KINDS[kind]}"
    yield Finding(f"retained.{kind}", f"retained, {kind}", "share", meaning, curve.retained, exact(0.0), frequent)
    for share, score in zip(curve.shares, curve.scores, strict=True):
        part, series = f"{share:.0%}", f"accuracy, {kind}"
        meaning = f"accuracy with {part} of the words damaged: {_KINDS[kind]}"
        yield Finding(
            f"accuracy.{kind}.{part}",
            f"{series} {part}",
            "accuracy",
            meaning,
            score,
            exact(most),
            frequent,
            series=series,
            part=part,
        )


def answer_damaged(
    tuned: LoadedTaskModel,
    examples: Sequence[ClassificationExample],
    kind: DamageKind,
    share: float,
    data: AnalysisData,
) -> BoolArray:
    """(N,) whether each is classified rightly; the same words are hit for every model."""
    damaged = []
    for example in examples:
        # By the example and not by the model, so that all models meet the same damage.
        rng = Random(f"{data.settings.seed} {kind} {example.id}")
        texts = tuple(damage_text(text, kind, share, rng).text for text in example.texts)
        damaged.append(replace(example, texts=texts))
    data.conditions.check()
    events = predict_examples([tuned], damaged, batch_tokens=data.conditions.batch_tokens, stop=StopSignal())
    answers = [row["prediction"] for row in run_to_end(events)]
    return np.array([answer == example.label for answer, example in zip(answers, examples, strict=True)])


MEASURE = Measure(
    "robustness",
    "M47",
    "robustness",
    "What does damage to the input leave of a tuned model's accuracy?",
    measure,
    reads=("examples",),
)
