"""What is left of a fine-tuned model's accuracy as words and letters of its input are damaged.

AnalysisModel, task data -> answers at each share of damage -> accuracy, and the share of it that is retained
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np

from electralab.analysis.arrays import BoolArray, FloatArray, IntArray, require_count
from electralab.analysis.finding import Controlled, Finding, Resampler, exact, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.corpus.damage import DamageKind, damage_text
from electralab.errors import InputError
from electralab.events import run_to_end
from electralab.finetuning.task_model import load_model, predict_examples
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


def mean_height(shares: FloatArray, scores: FloatArray) -> float:
    """The mean height of a curve over its shares, by trapezia.

    >>> mean_height(np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.5, 0.0]))
    0.5
    """
    return float(np.trapezoid(scores, shares) / (shares[-1] - shares[0]))


def retained_share(is_right: BoolArray, shares: Sequence[float], chance: float, indices: IntArray) -> float:
    """The mean over the shares of (accuracy - chance) / (undamaged accuracy - chance): 1 unharmed, 0 chance.

    Of answers (L, N) to the same N examples at L shares of damage, the first undamaged.
    """
    scores = is_right[:, indices].mean(axis=1) - chance
    # NaN where nothing above chance was there to be kept.
    return mean_height(np.asarray(shares), scores / scores[0]) if scores[0] > 0 else float("nan")


def measure_robustness(
    is_right: BoolArray, shares: Sequence[float], chance: float, draws: Resampler
) -> tuple[list[Interval], Interval]:
    """The accuracy at each share of damage, and the share of it that is retained; chance is the control."""
    _check_answers(is_right, shares)
    scores = [draws.mean(level) for level in is_right]
    retained = draws.interval(lambda rows: retained_share(is_right, shares, chance, rows), is_right.shape[1])
    return scores, retained


def compare_robustness(
    ours: BoolArray, theirs: BoolArray, shares: Sequence[float], chance: float, draws: Resampler
) -> Controlled:
    """What we retain less what they retain, of the same examples drawn again. Control: answers swapped at random."""
    _check_answers(ours, shares)
    assert ours.shape == theirs.shape, "both answered the same"
    count = ours.shape[1]

    def difference(first: BoolArray, second: BoolArray, rows: IntArray) -> float:
        ours, theirs = (retained_share(side, shares, chance, rows) for side in (first, second))
        return ours - theirs

    def swap(_: IntArray) -> float:
        is_swapped = draws.rng.random(count) < 0.5
        swapped = np.where(is_swapped, theirs, ours), np.where(is_swapped, ours, theirs)
        return difference(*swapped, np.arange(count))

    estimate = draws.interval(lambda rows: difference(ours, theirs, rows), count)
    return Controlled(estimate, draws.shuffled(swap, count))


def _check_answers(is_right: BoolArray, shares: Sequence[float]) -> None:
    require_count("robustness", len(shares), 2, "shares of damage, the first being none")
    require_count("robustness", is_right.shape[1], 2, "examples")
    assert is_right.shape[0] == len(shares), "answers at every share"
    assert shares[0] == 0, "the first share is no damage"
    assert all(np.diff(shares) > 0), "shares rise"


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """What does damage to the input leave of a tuned model's accuracy?"""
    if model.control_of is not None:  # nothing was fine-tuned from it
        return
    settings, examples = data.settings, []
    with skip_on_error("retained", "robustness") as skipped:
        if model.kind != "encoder":
            raise InputError(f"{model.name}: is not tuned for a task; give a model of 'electra finetune'")
        tuned = load_model(model.folder)
        if not settings.examples:
            raise InputError(f"{model.name}: needs the data of its task; give --examples DIR")
        if (kind := tuned.network.head_config.kind) != "classify":
            raise InputError(f"{model.name}: is tuned to {kind}; give a model that classifies")
        tuned.network.to(model.device)
        split = read_task(find_task(tuned.config.task), Path(settings.examples), TaskDataConfig()).devs[0]
        labelled = [example for example in split.examples if isinstance(example, ClassificationExample)]
        examples = [labelled[index] for index in subsample(len(labelled), settings.rows, settings.seed)]
        require_count("robustness", len(examples), 20, "labelled examples")
    yield from skipped
    if skipped:
        return
    for damage, words in _KINDS.items():
        with skip_on_error(f"retained.{damage}", f"robustness, {damage}") as skipped:
            is_right = np.empty((len(SHARES), len(examples)), dtype=np.bool_)
            for row, share in zip(is_right, SHARES, strict=True):
                data.conditions.check()
                damaged = []
                for example in examples:
                    # By the example and not by the model, so that all models meet the same damage.
                    rng = Random(f"{settings.seed} {damage} {example.id}")
                    texts = tuple(damage_text(text, damage, share, rng).text for text in example.texts)
                    damaged.append(replace(example, texts=texts))
                events = predict_examples([tuned], damaged, batch_tokens=settings.batch_tokens, stop=StopSignal())
                answers = [answer.prediction for answer in run_to_end(events)]
                row[:] = [answer == example.label for answer, example in zip(answers, examples, strict=True)]
            most = Counter(example.label for example in examples).most_common(1)[0][1] / len(examples)
            draws = settings.resampler("robustness", damage)
            scores, retained = measure_robustness(is_right, SHARES, most, draws)
            id, name, frequent = f"retained.{damage}", f"retained, {damage}", "always the most frequent class"
            meaning = f"the mean over shares of damage of (accuracy - chance) / (undamaged - chance), for {words}"
            yield Finding(id, name, "share", meaning, retained, exact(0.0), frequent)
            for share, score in zip(SHARES, scores, strict=True):
                part, series = f"{share:.0%}", f"accuracy, {damage}"
                meaning = f"accuracy with {part} of the words damaged: {words}"
                id, name, even = f"accuracy.{damage}.{part}", f"{series} {part}", exact(most)
                yield Finding(id, name, "accuracy", meaning, score, even, frequent, series=series, part=part)
        yield from skipped


MEASURE = Measure("M47", "robustness", measure, reads=("examples",))
