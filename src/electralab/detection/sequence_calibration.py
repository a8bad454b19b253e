"""Which events and which sequences are wrong, without labels: damage is planted in normal sequences, and what both
networks and counting say is combined so that damaged events, and damaged sequences, are told from the others.

normal sequences -> planted damage -> features -> SequenceCalibration -> the folder `calibration` -> SequenceScorer
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from electralab.artifacts import new_folder, verify_folder
from electralab.detection.calibration import (
    FOLDER,
    LabelledWords,
    apply_curve,
    combine,
    measure_calibration,
    smooth_steps,
    weigh,
)
from electralab.detection.sequences import (
    EVENT_COUNTS,
    EventRows,
    RunCounts,
    SequenceCounts,
    hash_profiles,
    mean_by_row,
    profile,
)
from electralab.detection.words import GUESSED, Floats
from electralab.errors import InputError
from electralab.events import Progress, Update
from electralab.records.calibration import (
    Calibration,
    CalibrationScores,
    FeatureWeight,
    SequenceCalibration,
)
from electralab.stopping import StopSignal

_COUNTS = "sequences.safetensors"
_COLUMNS = ("counts", "followed", "followers", "preceded", "predecessors")
# Standard deviations of normal events, and rows, beyond which a feature says no more.
_CLIPPED = 20.0
_LEAST_ROWS = 40
_ROUNDING = 1e-4
# The share of events that are damaged in a row lies between one event and this.
_MOST_DAMAGED = 0.3
_LONGEST_SPAN = 5
# What was moved may have been moved to an equal place: then it is drawn again, so often.
_MOST_DRAWS = 8
# A longer row is cut for the fit: so many events say enough.
MOST_EVENTS = 300
# A penalty for large weights, in squares of standard deviations per row of the fit.
_RIDGE = 1e-3

NETWORK_SCORES = ("replaced", "surprise", "rank")
EVENT_FEATURES = (*NETWORK_SCORES, *EVENT_COUNTS)
# Means, not maxima: the largest value of a row grows with its length, so that long rows would always be suspected.
ROW_FEATURES = (*(f"{name}_mean" for name in EVENT_FEATURES), "count_angle", "count_neighbour", "set_angle")
# Of single events and short spans; the last is of a whole sequence, which is patched together from others.
DAMAGE_KINDS = ("foreign", "missing", "repeated", "moved", "mixed")

ScoreEvents = Callable[[Sequence[Sequence[str]]], list[Floats]]
"""Sequences through both networks: (n, 1 + len(GUESSED)) the discriminator's logit and GUESSED of each event."""


@dataclass(frozen=True, slots=True)
class DamagedRow:
    events: tuple[str, ...]
    is_damaged: tuple[bool, ...]
    """Which events are wrong; of missing ones that which stands in their place. Of mixed rows none is said to be."""


@dataclass(frozen=True, slots=True)
class ScoredRows:
    """Rows with their features."""

    rows: EventRows
    events: Floats  # (E, len(EVENT_FEATURES))
    features: Floats  # (R, len(ROW_FEATURES))
    guessed: Floats  # (E, 1 + len(GUESSED))
    nearest: NDArray[np.int64]  # (R,) the counted profile that is the nearest


@dataclass(frozen=True, slots=True)
class SequenceScores:
    """Of one sequence."""

    p_events: Floats  # (n,)
    p_row: float
    suspicion: float
    """The combination before the curve, in which no two rows tie."""
    reasons: tuple[tuple[str, ...], ...]
    """Of each event."""
    row_reasons: tuple[str, ...]


def plant_row(
    events: Sequence[str], kind: str, names: Sequence[str], others: Sequence[Sequence[str]], rng: Random
) -> DamagedRow:
    """One kind of damage, to one event or to many.

    >>> plant_row(["a", "b"], "missing", ["a", "b"], [], Random(0)).events
    ('b',)
    """
    if kind == "mixed":
        mixed: list[str] = []
        while len(mixed) < len(events):
            other = rng.choice(others)
            place = rng.randrange(len(other))
            mixed += other[place : place + rng.randint(_LONGEST_SPAN // 2, 4 * _LONGEST_SPAN)]
        return DamagedRow(tuple(mixed[: len(events)]), (False,) * len(events))
    rows = [(event, False) for event in events]
    most = max(1, round(len(rows) * _MOST_DAMAGED * rng.random() ** 3))
    damaged = 0
    while damaged < most and rows:
        size = min(rng.randint(1, _LONGEST_SPAN), most - damaged, len(rows))
        place = rng.randrange(len(rows) - size + 1)
        span = rows[place : place + size]
        if kind == "foreign":
            drawn = [(rng.choice(names), event) for event, _ in span]
            # An event that is drawn for itself gives way to the one beside it.
            rows[place : place + size] = [
                (new if new != event else names[names.index(new) - 1], True) for new, event in drawn
            ]
        elif kind == "missing":
            del rows[place : place + size]
            if rows:
                after = min(place, len(rows) - 1)
                rows[after] = (rows[after][0], True)
        elif kind == "repeated":
            rows[place:place] = [(event, True) for event, _ in span]
        else:
            del rows[place : place + size]
            target = rng.randrange(len(rows) + 1)
            rows[target:target] = [(event, True) for event, _ in span]
        damaged += size
    return DamagedRow(tuple(event for event, _ in rows), tuple(is_damaged for _, is_damaged in rows))


def plant_rows(
    rows: Sequence[Sequence[str]],
    kind: str,
    names: Sequence[str],
    normal: Sequence[Sequence[str]],
    rng: Random,
) -> list[DamagedRow | None]:
    """One kind of damage to each row; None where every draw of a few left nothing, or a row that is normal.

    >>> plant_rows([["a", "a"]], "moved", ["a"], [], Random(0))
    [None]
    """
    known = {tuple(row) for row in (*rows, *normal)}
    planted: list[DamagedRow | None] = []
    for row in rows:
        draws = (plant_row(row, kind, names, rows, rng) for _ in range(_MOST_DRAWS))
        planted.append(next((damaged for damaged in draws if damaged.events and damaged.events not in known), None))
    return planted


def describe_rows(counts: SequenceCounts, score: ScoreEvents, rows: Sequence[Sequence[str]]) -> ScoredRows:
    encoded = counts.encode(rows)
    guessed = np.concatenate([*score(rows), np.zeros((0, 1 + len(GUESSED)))])
    from_networks = np.stack([guessed[:, 0], guessed[:, 1], np.log1p(guessed[:, 2])], axis=1)
    events = np.concatenate([from_networks, counts.measure_events(encoded)], axis=1)
    cosine, euclidean, nearest = counts.find_neighbours(encoded)
    means = [mean_by_row(encoded, column) for column in events.T]
    features = np.stack([*means, cosine, euclidean, counts.find_set_angles(encoded)], axis=1)
    return ScoredRows(encoded, events, features, guessed, nearest)


class SequenceScorer:
    def __init__(
        self,
        calibration: SequenceCalibration,
        counts: SequenceCounts,
        score: ScoreEvents,
        error_rate: float | None = None,
    ) -> None:
        """`error_rate`: the share of wrong events, and of wrong sequences, if not that of the calibration."""
        self.calibration, self.counts, self.score_events = calibration, counts, score
        self._error_rate = error_rate

    def score(self, rows: Sequence[Sequence[str]], name_best: Callable[[int], str] = str) -> list[SequenceScores]:
        """`name_best`: the symbol of an id of the networks."""
        scored = describe_rows(self.counts, self.score_events, rows)
        stored, counts = self.calibration, self.counts
        p_events = apply_curve(stored.events, combine(stored.events, scored.events, EVENT_FEATURES), self._error_rate)
        suspicion = combine(stored.rows, scored.features, ROW_FEATURES)
        p_rows = apply_curve(stored.rows, suspicion, self._error_rate)
        profiles = profile(scored.rows, len(counts.names))
        ends = np.cumsum(scored.rows.lengths)
        answers = []
        for number, row in enumerate(rows):
            own = slice(int(ends[number] - len(row)), int(ends[number]))
            reasons = tuple(
                self._explain(event, values, guessed, name_best)
                for event, values, guessed in zip(row, scored.events[own], scored.guessed[own], strict=True)
            )
            answers.append(
                SequenceScores(
                    p_events[own],
                    float(p_rows[number]),
                    float(suspicion[number]),
                    reasons,
                    self._compare(profiles[number], counts.profiles[scored.nearest[number]]),
                )
            )
        return answers

    def _explain(self, event: str, values: Floats, guessed: Floats, name_best: Callable[[int], str]) -> tuple[str, ...]:
        known = dict(zip(EVENT_FEATURES, values.tolist(), strict=True))
        if known["unseen"]:
            return ("event never seen",)
        reasons = []
        best, p_best = int(guessed[1 + GUESSED.index("best")]), float(guessed[1 + GUESSED.index("p_best")])
        expected = name_best(best) if p_best > 0.5 else ""
        if expected and expected != event and known["surprise"] > 2:
            reasons.append(f"expected {expected} here")
        if known["unseen_run"]:
            reasons.append(f"{event} never seen next to its neighbours")
        elif known["unseen_long_run"]:
            reasons.append("sequence of events never seen")
        return tuple(reasons)

    def _compare(self, own: Floats, nearest: Floats) -> tuple[str, ...]:
        """Which event's count is the farthest from that of the nearest normal row."""
        differences = np.abs(np.log1p(own) - np.log1p(nearest))
        differences[0] = 0
        reasons = []
        if own[0]:
            reasons.append(f"{int(own[0])} {'event' if own[0] == 1 else 'events'} never seen")
        if differences.max() > 0:
            event = int(differences.argmax())
            reasons.append(
                f"unusual number of {self.counts.names[event - 1]} ({int(own[event])}, in the nearest normal sequence "
                f"{int(nearest[event])})"
            )
        return tuple(reasons)


def calibrate_sequences(
    score: ScoreEvents,
    reference: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    *,
    error_rate: float,
    false_alarms: float,
    seed: int,
    stop: StopSignal,
) -> Iterator[Update | SequenceCalibration]:
    """Normal sequences to count in, and others to plant damage in: every second of these is fitted on, the rest
    measure, and set the threshold."""
    from scipy.stats import beta

    rows = [row[:MOST_EVENTS] for row in rows if len(row) > 1]
    if len(rows) < _LEAST_ROWS:
        raise InputError(
            f"{len(rows):,} normal sequences are too few to plant damage in, of at least {_LEAST_ROWS}; give more"
        )
    counts = SequenceCounts.count(reference)
    normal_rows = [row[:MOST_EVENTS] for row in reference]
    # What is foreign may be unknown altogether.
    names = [*counts.names, *(f"\x00{number}" for number in range(max(1, len(counts.names) // 10)))]
    parts: dict[str, tuple[ScoredRows, NDArray[np.bool_]]] = {}
    is_changed: dict[str, NDArray[np.bool_]] = {}
    for number, kind in enumerate(("", *DAMAGE_KINDS)):
        yield Progress("planting damage", number, 1 + len(DAMAGE_KINDS), kind or "undamaged")
        stop.check()
        rng = Random(f"{seed} {kind}")
        drawn = plant_rows(rows, kind, names, normal_rows, rng) if kind else [None] * len(rows)
        planted = [
            DamagedRow(tuple(row), (False,) * len(row)) if damaged is None else damaged
            for row, damaged in zip(rows, drawn, strict=True)
        ]
        is_changed[kind] = np.array([not kind or damaged is not None for damaged in drawn])
        truth = np.array([is_damaged for row in planted for is_damaged in row.is_damaged], dtype=np.bool_)
        parts[kind] = (describe_rows(counts, score, [row.events for row in planted]), truth)
    is_measured = np.arange(len(rows)) % 2 == 1

    def label(kinds: Sequence[str], *, measured: bool) -> tuple[LabelledWords, LabelledWords]:
        """Events, and rows, of half of the rows."""
        events, rows_of = [], []
        for kind in ("", *kinds):
            scored, truth = parts[kind]
            chosen = (is_measured == measured) & is_changed[kind]
            own = chosen[scored.rows.owners]
            rows_of.append(LabelledWords(scored.features[chosen], np.full(chosen.sum(), bool(kind))))
            # Undamaged events of damaged rows are right, too, but their neighbours suffer: they stay out.
            kept = own & truth if kind else own
            if kind == "mixed":
                continue  # which of its events are wrong nobody can say
            events.append(LabelledWords(scored.events[kept], truth[kept]))
        return _join(events), _join(rows_of)

    events, whole = label(DAMAGE_KINDS, measured=False)
    tested_events, tested = label(DAMAGE_KINDS, measured=True)
    fitted = [
        fit_combination(labelled, names_of, error_rate, seed, total=sum(map(len, reference)))
        for labelled, names_of in ((events, EVENT_FEATURES), (whole, ROW_FEATURES))
    ]
    scores: list[dict[str, CalibrationScores]] = [{}, {}]
    for kind in DAMAGE_KINDS:
        stop.check()
        for number, (labelled, names_of) in enumerate(
            zip(label([kind], measured=True), (EVENT_FEATURES, ROW_FEATURES), strict=True)
        ):
            if labelled.is_damaged.any():
                scores[number][kind] = _measure(fitted[number], labelled, names_of)
    normal = np.sort(combine(fitted[1], tested.features[~tested.is_damaged], ROW_FEATURES))
    place = min(len(normal) - 1, int(np.ceil(len(normal) * (1 - false_alarms))))
    # Equal rows are equal to rounding only, which depends on the rows beside them in a batch.
    threshold = float(normal[place]) + _ROUNDING
    finished = []
    for calibration, labelled, names_of, own in zip(
        fitted, (tested_events, tested), (EVENT_FEATURES, ROW_FEATURES), scores, strict=True
    ):
        error, curve = measure_calibration(calibration, labelled, error_rate, names_of)
        finished.append(calibration.model_copy(update={"scores": own, "calibration_error": error, "curve": curve}))
    yield SequenceCalibration(
        error_rate=error_rate,
        events=finished[0],
        rows=finished[1],
        false_alarms=false_alarms,
        threshold=threshold,
        normal_rows=len(normal),
        # Of new sequences the share above the value at a place has this distribution (order statistics).
        false_alarms_high=float(beta.ppf(0.95, len(normal) - place, place + 1)),
        counted_rows=len(reference),
        seed=seed,
    )


def fit_combination(
    labelled: LabelledWords, names: Sequence[str], error_rate: float, seed: int, total: int
) -> Calibration:
    """A logistic combination in which no feature speaks against damage: each is made so that more is worse."""
    from scipy.optimize import minimize
    from sklearn.isotonic import IsotonicRegression

    normal = labelled.features[~labelled.is_damaged]
    mean, scale = normal.mean(axis=0), normal.std(axis=0)
    # What is the same in everything normal, such as that no event is unseen, is measured by all.
    scale = np.where(scale > 1e-9, scale, labelled.features.std(axis=0))
    low, high = mean - _CLIPPED * scale, mean + _CLIPPED * scale
    clipped = labelled.features.clip(low, high)
    used = np.flatnonzero(scale > 1e-9)
    inputs = (clipped[:, used] - mean[used]) / scale[used]
    signs = np.where(labelled.is_damaged, 1.0, -1.0)
    weight = weigh(labelled.is_damaged, 0.5)
    weight = weight / weight.sum()

    def loss(parameters: Floats) -> tuple[float, Floats]:
        margins = signs * (inputs @ parameters[1:] + parameters[0])
        slope = -signs * weight / (1 + np.exp(margins.clip(-500, 500)))
        value = float((weight * np.logaddexp(0, -margins)).sum() + _RIDGE * (parameters[1:] ** 2).sum())
        gradient = np.concatenate([[slope.sum()], inputs.T @ slope + 2 * _RIDGE * parameters[1:]])
        return value, gradient

    bounds = [(None, None)] + [(0.0, None)] * len(used)
    solution = minimize(loss, np.zeros(len(used) + 1), jac=True, bounds=bounds, method="L-BFGS-B").x
    bare = Calibration(
        error_rate=error_rate,
        features=tuple(
            FeatureWeight(
                name=names[index], low=low[index], high=high[index], mean=mean[index], scale=scale[index], weight=value
            )
            for index, value in zip(used.tolist(), solution[1:].tolist(), strict=True)
            if value > 0
        ),
        intercept=float(solution[0]),
        knots=((0.0, 0.0), (1.0, 1.0)),
        total_words=total,
        fitted_words=len(labelled.is_damaged),
        seed=seed,
        calibration_error=0.0,
    )
    isotonic = IsotonicRegression(out_of_bounds="clip").fit(
        combine(bare, labelled.features, names),
        labelled.is_damaged,
        sample_weight=weigh(labelled.is_damaged, error_rate),
    )
    return bare.model_copy(update={"knots": smooth_steps(isotonic.X_thresholds_, isotonic.y_thresholds_)})


def _join(parts: Sequence[LabelledWords]) -> LabelledWords:
    return LabelledWords(
        np.concatenate([part.features for part in parts]), np.concatenate([part.is_damaged for part in parts])
    )


def _measure(calibration: Calibration, labelled: LabelledWords, names: Sequence[str]) -> CalibrationScores:
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score

    score, truth = combine(calibration, labelled.features, names), labelled.is_damaged
    precision, recall, _ = precision_recall_curve(truth, score)
    return CalibrationScores(
        words=len(truth),
        damaged=int(truth.sum()),
        auc=float(roc_auc_score(truth, score)),
        average_precision=float(average_precision_score(truth, score)),
        precision_at_half=float(precision[np.flatnonzero(recall >= 0.5)[-1]]),
    )


def save_sequences(networks: Path, calibration: SequenceCalibration, counts: SequenceCounts) -> Path:
    """Beside the networks' folders, with hashes."""
    path = networks / FOLDER
    tensors = {
        "names": torch.frombuffer(bytearray("\n".join(counts.names).encode()), dtype=torch.uint8),
        "profiles": torch.from_numpy(counts.profiles),
        "known_counts": torch.from_numpy(counts.known_counts.view(np.int64)),
        "known_sets": torch.from_numpy(counts.known_sets.view(np.int64)),
    }
    for size, run in enumerate(counts.runs, start=1):
        tensors[f"keys-{size}"] = torch.from_numpy(run.keys.view(np.int64))
        for name in _COLUMNS:
            tensors[f"{name}-{size}"] = torch.from_numpy(getattr(run, name))
    with new_folder(path, kind="calibration") as folder:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / _COUNTS)
        calibration.write(folder)
    return path


def load_sequences(path: Path) -> tuple[SequenceCalibration, SequenceCounts]:
    verify_folder(path, "calibrate the model again")
    tensors = {name: tensor.numpy().copy() for name, tensor in load_file(path / _COUNTS).items()}
    names = tuple(bytes(tensors["names"]).decode().split("\n"))
    runs = []
    size = 1
    while f"keys-{size}" in tensors:
        columns = (tensors[f"{name}-{size}"] for name in _COLUMNS)
        runs.append(RunCounts(tensors[f"keys-{size}"].view(np.uint64), *columns))
        size += 1
    profiles = tensors["profiles"]
    # A calibration of an earlier version knows the profiles alone.
    known = tensors.get("known_counts", hash_profiles(profiles)), tensors.get("known_sets", hash_profiles(profiles > 0))
    counts = SequenceCounts(names, tuple(runs), profiles, *(keys.view(np.uint64) for keys in known))
    return SequenceCalibration.read(path), counts
