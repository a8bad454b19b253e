"""M47: what is left of a tuned model's accuracy as words and letters of its input are damaged.

tuned Specimen, task data -> accuracy at each share of damage, and the share that is retained
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np

from electralab.analysis.finding import Estimate, Finding, Flags, Missing, attempt, require
from electralab.analysis.material import Material
from electralab.analysis.robustness import measure_robustness
from electralab.analysis.settings import AnalysisSettings
from electralab.analysis.specimen import Specimen
from electralab.corpus.damage import DAMAGE_KINDS, DamageKind, damage_text
from electralab.errors import InputError
from electralab.evaluation.resampling import choose_some
from electralab.events import run_to_end
from electralab.finetuning.examples import TextExample
from electralab.finetuning.exports import TunedModel, load_model
from electralab.finetuning.predicting import predict_examples
from electralab.finetuning.reading import TaskDataConfig, read_task
from electralab.finetuning.tasks import find_task
from electralab.stopping import StopSignal

CLAIM = "M47"
SHARES = (0.0, 0.1, 0.2, 0.4)
_KINDS: dict[DamageKind, str] = {
    "typo": "slips of the finger",
    "swap": "words exchanged for others of the text",
    "ocr": "letters misread",
}


def measure_damage(specimen: Specimen, material: Material, settings: AnalysisSettings) -> Iterator[Finding | Missing]:
    if specimen.control_of is not None:  # nothing was tuned from it
        return
    try:
        model, examples = _open(specimen, settings)
    except InputError as error:
        yield Missing("robustness", CLAIM, str(error))
        return
    for kind in DAMAGE_KINDS:
        yield from attempt(f"robustness, {kind}", CLAIM, partial(_tell, model, examples, kind, material, settings))


def _open(specimen: Specimen, settings: AnalysisSettings) -> tuple[TunedModel, list[TextExample]]:
    if specimen.kind != "encoder":
        raise InputError(f"{specimen.name}: is not tuned for a task; give a model of 'electra finetune'")
    model = load_model(specimen.folder)
    if not settings.examples:
        raise InputError(f"{specimen.name}: needs the data of its task; give --examples DIR")
    if model.network.head_config.kind != "classify":
        raise InputError(f"{specimen.name}: is tuned to {model.network.head_config.kind}; give a model that classifies")
    model.network.to(specimen.device)
    split = read_task(find_task(model.card.task), Path(settings.examples), TaskDataConfig()).devs[0]
    known = [one for one in split.examples if isinstance(one, TextExample)]
    chosen = [known[place] for place in choose_some(len(known), settings.rows, settings.seed)]
    require("robustness", len(chosen), 20, "labelled examples")
    return model, chosen


def _tell(
    model: TunedModel,
    examples: Sequence[TextExample],
    kind: DamageKind,
    material: Material,
    settings: AnalysisSettings,
) -> Iterator[Finding]:
    is_right = np.stack([answer_damaged(model, examples, kind, share, material, settings.seed) for share in SHARES])
    most = Counter(one.label for one in examples).most_common(1)[0][1] / len(examples)
    found = measure_robustness(is_right, SHARES, most, settings.make_rng("robustness", kind), times=settings.times)
    chance, nothing = Estimate(most, most, most), Estimate(0.0, 0.0, 0.0)
    frequent = "always the most frequent class"
    meaning = f"the mean over shares of damage of (accuracy - chance) / (undamaged - chance), for {_KINDS[kind]}"
    yield Finding(f"retained, {kind}", CLAIM, "share", meaning, found.retained, nothing, frequent)
    for share, score in zip(found.shares, found.scores, strict=True):
        meaning = f"accuracy with {share:.0%} of the words damaged: {_KINDS[kind]}"
        one = Finding(f"accuracy, {kind} {share:.0%}", CLAIM, "accuracy", meaning, score, chance, frequent)
        yield one.as_part(f"accuracy, {kind}", f"{share:.0%}")


def answer_damaged(
    model: TunedModel,
    examples: Sequence[TextExample],
    kind: DamageKind,
    share: float,
    material: Material,
    seed: int,
) -> Flags:
    """(N,) whether each is classified rightly; the same words are hit for every model."""
    damaged = []
    for one in examples:
        luck = Random(f"{seed} {kind} {one.id}")
        texts = tuple(damage_text(text, kind, share, luck).text for text in one.texts)
        damaged.append(replace(one, texts=texts))
    material.conditions.check()
    events = predict_examples([model], damaged, batch_tokens=material.conditions.batch_tokens, stop=StopSignal())
    said = [row["prediction"] for row in run_to_end(events)]
    return np.array([answer == one.label for answer, one in zip(said, examples, strict=True)])
