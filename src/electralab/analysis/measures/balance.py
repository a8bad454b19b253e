"""Whether generator and discriminator are a match: what each achieves against the other, on rows and by the log.

AnalysisModel, rows, metrics.jsonl -> accuracy, entropy, AUC by how sure the generator was, gradient ratio, advice
"""

import numpy as np

from electralab.analysis.arrays import BoolArray, FloatArray, auc, require_count
from electralab.analysis.finding import Finding, Resampler, Skipped, exact, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import PairOutputs, pair_outputs
from electralab.errors import InputError
from electralab.objective.metrics import RtdScores
from electralab.pretraining.balance import check_balance
from electralab.pretraining.settings import parse_stored
from electralab.records.run import RunFingerprint, read_metrics
from electralab.statistics import Interval

CONFIDENCES = ("unsure", "middling", "sure")
CHANCE, KNOWS_NOTHING = exact(0.5), "a judge that knows nothing: 1/2"
_LAST = 0.1


def measure_auc(outputs: PairOutputs, draws: Resampler, *, is_selected: BoolArray | None = None) -> Interval:
    """The discriminator's AUC on the selected tokens, or on all."""
    chosen = np.ones_like(outputs.is_replaced) if is_selected is None else is_selected
    require_count("balance", int((outputs.is_replaced & chosen).sum()), 2, "replaced tokens", outputs.logits)
    logits, truth = outputs.logits[chosen], outputs.is_replaced[chosen]
    return draws.interval(lambda indices: auc(logits[indices], truth[indices]), len(logits), outputs.rows[chosen])


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


def gradient_ratio(ratios: FloatArray, draws: Resampler) -> Interval:
    """The geometric mean of the last tenth of the logged ratios, whose steps are drawn again.

    >>> gradient_ratio(np.full(50, 4.0), Resampler(np.random.default_rng(0))).value
    4.0
    """
    late = np.log(ratios[-max(2, int(_LAST * len(ratios))) :])
    require_count("gradient ratio", len(late), 2, "logged steps with the gradient norms of both networks")
    return draws.interval(lambda indices: float(np.exp(late[indices].mean())), len(late))


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """Are generator and discriminator a match?"""
    if not model.is_pair:
        reason = f"{model.name}: is no pair of generator and discriminator; give a run of electra"
        yield Skipped("rtd_auc", "balance", reason)
        return
    log = model.folder / "metrics.jsonl"
    with skip_on_error("rtd_auc", "balance") as skipped:
        outputs, draws = pair_outputs(model, data, "balance"), data.settings.resampler("balance")
        require_count("balance", len(outputs.is_hit), 2, "guesses")
        unigram = data.read_rows(model).unigram
        accuracy = draws.mean(outputs.is_hit, outputs.target_rows)
        frequent = draws.mean(outputs.target_ids == int(unigram.argmax()), outputs.target_rows)
        meaning = "masked tokens that the generator's likeliest guess restores"
        control = "always the most frequent token"
        yield Finding("generator_accuracy", "generator accuracy", "share", meaning, accuracy, frequent, control)
        entropy, known = draws.mean(outputs.entropies, outputs.target_rows), unigram[np.isfinite(unigram)]
        meaning, control = "of the generator's guesses", "of the frequencies of tokens"
        prior = exact(float(-(np.exp(known) * known).sum()))
        yield Finding("generator_entropy", "generator entropy", "nats", meaning, entropy, prior, control)
        # What training itself would say of these scores.
        rtd = RtdScores(outputs.logits.astype(np.float32), outputs.is_replaced)
        scores = {
            "auc": rtd.auc,
            "called_replaced": rtd.called_replaced,
            "replaced_share": rtd.replaced_share,
            "generator_accuracy": accuracy.value,
            "generator_entropy": float(outputs.entropies.mean()),
            "generator_loss": float(outputs.losses.mean()),
        }
        # An untrained control has the folder of its model, whose log is not its own.
        run, records = RunFingerprint.find(model.folder), read_metrics(log) if model.control_of is None else []
        warnings = check_balance(
            scores,
            1.0,
            baselines={"generator_accuracy": frequent.value},
            record=records[-1].values if records else {"generator_gradient_norm": 1.0},
            config=parse_stored(run.settings) if run else None,
            highest_rate=max((record.get("learning_rate") or 0.0 for record in records), default=None),
        )
        advice = "; ".join(warnings) or "training's own rules find nothing out of balance"
        meaning = "the chance that a replaced token looks more replaced than an original"
        whole = measure_auc(outputs, draws)
        yield Finding("rtd_auc", "verdict AUC", "AUC", meaning, whole, CHANCE, KNOWS_NOTHING, advice)
        for name, third in measure_auc_by_confidence(outputs, draws).items():
            meaning = f"AUC on the third of the replacements of which the generator was {name}, against all originals"
            yield Finding(f"rtd_auc_{name}", f"verdict AUC, {name}", "AUC", meaning, third, CHANCE, KNOWS_NOTHING)
        is_called, is_replaced = outputs.logits > 0, outputs.is_replaced
        recall = draws.mean(is_called[is_replaced], outputs.rows[is_replaced])
        meaning, control = "replaced tokens that are called replaced", "of all tokens, the share so called"
        yield Finding("recall", "recall", "share", meaning, recall, draws.mean(is_called, outputs.rows), control)
    yield from skipped
    if model.control_of is not None:
        return
    with skip_on_error("gradient_ratio", "gradient ratio") as skipped:
        keys = "discriminator_gradient_norm", "generator_gradient_norm"
        norms = [tuple(record.get(key) or 0.0 for key in keys) for record in read_metrics(log)]
        ratios = np.array([judging / guessing for judging, guessing in norms if judging and guessing])
        if not len(ratios):
            raise InputError(f"{log}: has no gradient norm of each network; train with this version to log them")
        estimate = gradient_ratio(ratios, data.settings.resampler("gradient ratio"))
        meaning = "the discriminator's gradient norm over the generator's, geometric mean of the last tenth of the log"
        note = "logged steps are drawn again; healthy runs stay between a half and ten"
        yield Finding("gradient_ratio", "gradient ratio", "×", meaning, estimate, note=note)
    yield from skipped


MEASURE = Measure("M32", "balance", measure, answers=("balance.rtd_auc",))
