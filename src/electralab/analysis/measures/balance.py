"""Whether generator and discriminator are a match: what each achieves against the other, on rows and by the log.

AnalysisModel, rows, metrics.jsonl -> accuracy, entropy, AUC by how sure the generator was, gradient ratio, advice
"""

from collections.abc import Iterator

import numpy as np

from electralab.analysis.arrays import BoolArray, FloatArray, auc, require_count, require_finite
from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, exact, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.model import AnalysisModel
from electralab.analysis.pair import PairOutputs, run_pair
from electralab.artifacts import read_json
from electralab.errors import InputError
from electralab.pretraining.balance import check_balance
from electralab.pretraining.settings import parse_stored
from electralab.records.run import read_metrics
from electralab.statistics import Interval

CONFIDENCES = ("unsure", "middling", "sure")
CHANCE = "a judge that knows nothing: 1/2"
_LAST = 0.1


def measure_targets(outputs: PairOutputs, values: FloatArray | BoolArray, draws: Resampler) -> Interval:
    """The mean of something of every masked token (M,), such as whether it is guessed."""
    require_count("balance", len(values), 2, "guesses")
    return draws.mean(values, outputs.target_rows)


def measure_auc(outputs: PairOutputs, draws: Resampler, *, is_selected: BoolArray | None = None) -> Interval:
    """The discriminator's AUC on the selected tokens, or on all."""
    chosen = np.ones_like(outputs.is_replaced) if is_selected is None else is_selected
    require_count("balance", int((outputs.is_replaced & chosen).sum()), 2, "replaced tokens")
    require_finite("balance", outputs.logits)
    logits, truth = outputs.logits[chosen], outputs.is_replaced[chosen]
    return draws.interval(
        lambda indices: auc(logits[indices], truth[indices]), len(logits), groups=outputs.rows[chosen]
    )


def measure_auc_by_confidence(outputs: PairOutputs, draws: Resampler) -> dict[str, Interval]:
    """On the thirds of the replacements that the generator was least to most sure of, against all originals."""
    num_replaced = int(outputs.is_replaced.sum())
    require_count("balance by confidence", num_replaced, 2 * len(CONFIDENCES), "replaced tokens")
    # Originals sort behind all replacements, so that thirds are of replacements alone.
    order = np.argsort(np.where(outputs.is_replaced, outputs.confidences, np.inf), kind="stable")
    results = {}
    for name, third in zip(CONFIDENCES, np.array_split(order[:num_replaced], len(CONFIDENCES)), strict=True):
        is_selected = ~outputs.is_replaced
        is_selected[third] = True
        results[name] = measure_auc(outputs, draws, is_selected=is_selected)
    return results


def measure_called(outputs: PairOutputs, is_selected: BoolArray, draws: Resampler) -> Interval:
    """The share of the selected tokens that are called replaced: of replaced ones, the recall."""
    require_count("balance", int(is_selected.sum()), 2, "tokens of the kind asked about")
    is_called = outputs.logits[is_selected] > 0
    return draws.mean(is_called, outputs.rows[is_selected])


def gradient_ratio(ratios: FloatArray, draws: Resampler) -> Interval:
    """The geometric mean of the last tenth of the logged ratios, whose steps are drawn again.

    >>> gradient_ratio(np.full(50, 4.0), Resampler(np.random.default_rng(0))).value
    4.0
    """
    late = np.log(ratios[-max(2, int(_LAST * len(ratios))) :])
    require_count("gradient ratio", len(late), 2, "logged steps with the gradient norms of both networks")
    return draws.interval(lambda indices: float(np.exp(late[indices].mean())), len(late))


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    if not model.is_pair:
        yield Skipped(
            "rtd_auc", "balance", f"{model.name}: is no pair of generator and discriminator; give a run of electra"
        )
        return
    yield from skip_on_error("rtd_auc", "balance", _pair_findings, model, data)
    if model.control_of is None:
        yield from skip_on_error("gradient_ratio", "gradient ratio", _log_findings, model, data)


def _pair_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    outputs = PairOutputs.concat(map(PairOutputs.from_batch, run_pair(model, data, "balance")))
    draws = data.settings.resampler("balance")
    unigram = data.read_rows(model).unigram
    accuracy = measure_targets(outputs, outputs.is_hit, draws)
    is_frequent = outputs.target_ids == int(unigram.argmax())
    frequent = measure_targets(outputs, is_frequent, draws)
    meaning = "masked tokens that the generator's likeliest guess restores"
    control = "always the most frequent token"
    yield Controlled(accuracy, frequent).to_finding(
        "generator_accuracy", "generator accuracy", "share", meaning, control
    )
    entropy = measure_targets(outputs, outputs.entropies, draws)
    known = unigram[np.isfinite(unigram)]
    unigram_entropy = exact(float(-(np.exp(known) * known).sum()))
    meaning, control = "of the generator's guesses", "of the frequencies of tokens"
    yield Controlled(entropy, unigram_entropy).to_finding(
        "generator_entropy", "generator entropy", "nats", meaning, control
    )
    chance, advice = exact(0.5), _advise(model, outputs, accuracy, frequent)
    meaning = "the chance that a replaced token looks more replaced than an original"
    whole = Controlled(measure_auc(outputs, draws), chance)
    yield whole.to_finding("rtd_auc", "verdict AUC", "AUC", meaning, CHANCE, advice)
    for name, third in measure_auc_by_confidence(outputs, draws).items():
        meaning = f"AUC on the third of the replacements of which the generator was {name}, against all originals"
        yield Controlled(third, chance).to_finding(f"rtd_auc_{name}", f"verdict AUC, {name}", "AUC", meaning, CHANCE)
    recall = measure_called(outputs, outputs.is_replaced, draws)
    called = measure_called(outputs, np.ones_like(outputs.is_replaced), draws)
    meaning, control = "replaced tokens that are called replaced", "of all tokens, the share so called"
    yield Controlled(recall, called).to_finding("recall", "recall", "share", meaning, control)


def _advise(model: AnalysisModel, outputs: PairOutputs, accuracy: Interval, frequent: Interval) -> str:
    """What training itself would say of these scores."""
    rtd = outputs.rtd_scores
    scores = {
        "auc": rtd.auc,
        "called_replaced": rtd.called_replaced,
        "replaced_share": rtd.replaced_share,
        "generator_accuracy": accuracy.value,
        "generator_entropy": float(outputs.entropies.mean()),
        "generator_loss": float(outputs.losses.mean()),
    }
    records = read_metrics(model.folder / "metrics.jsonl") if model.control_of is None else []
    record = records[-1].values if records else {"generator_gradient_norm": 1.0}
    run = model.folder / "run.json"
    warnings = check_balance(
        scores,
        1.0,
        baselines={"generator_accuracy": frequent.value},
        record=record,
        config=parse_stored(read_json(run)["settings"]) if run.is_file() else None,
        highest_rate=max((each.get("learning_rate") or 0.0 for each in records), default=None),
    )
    return "; ".join(warnings) or "training's own rules find nothing out of balance"


def _log_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    path = model.folder / "metrics.jsonl"
    norms = [
        (record.get("discriminator_gradient_norm"), record.get("generator_gradient_norm"))
        for record in read_metrics(path)
    ]
    ratios = np.array([judging / guessing for judging, guessing in norms if judging and guessing])
    if not len(ratios):
        raise InputError(f"{path}: has no gradient norm of each network; train with this version to log them")
    estimate = gradient_ratio(ratios, data.settings.resampler("gradient ratio"))
    meaning = "the discriminator's gradient norm over the generator's, geometric mean of the last tenth of the log"
    note = "logged steps are drawn again; healthy runs stay between a half and ten"
    yield Finding("gradient_ratio", "gradient ratio", "×", meaning, estimate, note=note)


MEASURE = Measure(
    "balance", "M32", "balance", "Are generator and discriminator a match?", measure, answers=("balance.rtd_auc",)
)
