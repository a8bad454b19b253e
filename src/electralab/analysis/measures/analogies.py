"""Whether a is to b as c is to d, in the table of embeddings and in the states of every layer.

AnalysisModel, analogies -> ranks of the answers -> shares of answers that come first
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from electralab.analysis.arrays import Indices, IntArray, Matrix, require_count, require_finite
from electralab.analysis.data import AnalysisData
from electralab.analysis.finding import Controlled, Finding, Resampler, Skipped, skip_on_error
from electralab.analysis.measures import Measure
from electralab.analysis.measures.geometry import normalise
from electralab.analysis.model import AnalysisModel
from electralab.analysis.states import token_layers
from electralab.errors import InputError
from electralab.statistics import null_interval

_SHUFFLES = 20
_DEALT = "vectors dealt to other words"


def rank_answers(vectors: Matrix, quadruples: IntArray, *, with_step: bool = True) -> Indices:
    """(Q,) how many words of the table (V, D) are nearer than the answer, from 1, by the cosine with b - a + c.

    The three words of the question are no candidates (3CosAdd). Without the step, the words nearest to c alone are
    taken: what is found so was never an analogy. A tie counts against the answer.

    >>> words = np.array([[1.0, 0, 0], [1, 1, 0], [0, 0, 1], [0, 1, 1], [0, -1, 1]])
    >>> rank_answers(words, np.array([[0, 1, 2, 3]]))
    array([1])
    """
    units = normalise(vectors)
    a, b, c, d = quadruples.T
    target = units[b] - units[a] + units[c] if with_step else units[c]
    nearness = normalise(target) @ units.T  # (Q, V)
    answers = nearness[np.arange(len(d)), d].copy()
    # The answer itself too: it is compared with the others, not among them.
    for word in (a, b, c, d):
        nearness[np.arange(len(d)), word] = -np.inf
    return np.asarray((nearness >= answers[:, None]).sum(axis=1) + 1, dtype=np.int64)


def measure_analogies(
    vectors: Matrix, quadruples: IntArray, draws: Resampler, *, groups: IntArray | None = None, with_step: bool = True
) -> Controlled:
    """The share of answers found first; `groups` are relations. Control: vectors dealt to other words, 1/(V - 3)."""
    require_count("analogies", len(quadruples), 1, "quadruples")
    require_count("analogies", len(vectors), 5, "words")
    require_finite("analogies", vectors)
    assert all(len(set(four)) == 4 for four in quadruples.tolist()), "a quadruple has four different words"
    is_first = rank_answers(vectors, quadruples, with_step=with_step) == 1

    def deal() -> float:
        return float((rank_answers(draws.rng.permutation(vectors), quadruples, with_step=with_step) == 1).mean())

    estimate = draws.mean(is_first, groups)
    return Controlled(estimate, null_interval(deal() for _ in range(_SHUFFLES)))


@dataclass(frozen=True, slots=True)
class _Questions:
    """Analogies whose words the vocabulary knows whole."""

    pieces: list[Indices]
    """The token ids of each word."""
    quadruples: IntArray  # (Q, 4) into the words
    families: IntArray  # (Q,)


def measure(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding | Skipped]:
    yield from skip_on_error("table", "analogies, table", _table_findings, model, data)
    yield from skip_on_error("states", "analogies, states", _state_findings, model, data)


def _table_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    questions = _read_questions(model, data)
    weights = model.encoder.embeddings.tokens.weight.detach().float().cpu().numpy()
    vectors = np.stack([weights[ids].mean(axis=0) for ids in questions.pieces])
    note = (
        f"{len(questions.quadruples)} analogies of {len(questions.pieces)} words, which are the answers to choose from"
    )
    yield from _findings(vectors, questions, data, "table", "in the table of embeddings", note)


def _state_findings(model: AnalysisModel, data: AnalysisData) -> Iterator[Finding]:
    """By the mean of a word's states where nothing else stands in the row."""
    questions, special = _read_questions(model, data), model.tokenizer.special
    rows = [np.concatenate([[special.cls], ids, [special.sep]]).astype(np.int64) for ids in questions.pieces]
    columns = [np.arange(1, len(row) - 1) for row in rows]
    lengths = np.array([len(column) for column in columns])
    starts = np.cumsum([0, *lengths])[:-1]
    note = f"{len(questions.quadruples)} analogies of {len(questions.pieces)} words, each read by itself"
    for layer, states in enumerate(token_layers(model, data, rows, columns, "words")):
        vectors = np.add.reduceat(states.astype(np.float64), starts, axis=0) / lengths[:, None]
        yield from _findings(vectors, questions, data, "states", "by the states of each layer", note, layer)


def _findings(
    vectors: Matrix,
    questions: _Questions,
    data: AnalysisData,
    space: str,
    where: str,
    note: str,
    layer: int | None = None,
) -> Iterator[Finding]:
    draws = data.settings.resampler("analogies", space, str(layer))
    for with_step in (True, False):
        share = measure_analogies(vectors, questions.quadruples, draws, groups=questions.families, with_step=with_step)
        if with_step:
            meaning = f"share of analogies whose answer is nearest to b - a + c {where}"
            yield share.to_finding(f"{space}", f"analogies, {space}", "share", meaning, _DEALT, note, layer)
        else:
            meaning = f"share whose answer is nearest to c alone {where}: found without any analogy"
            yield share.to_finding(f"{space}_nearest", f"nearest to c, {space}", "share", meaning, _DEALT, layer=layer)


def _read_questions(model: AnalysisModel, data: AnalysisData) -> _Questions:
    """Analogies with unknown words are left out."""
    analogies = data.analogies.read_by(model)
    words = list(dict.fromkeys(word for analogy in analogies for word in analogy.words))
    pieces = dict(zip(words, model.tokenizer.encode_many(words), strict=True))
    known = [word for word in words if len(pieces[word]) and model.tokenizer.special.unk not in pieces[word]]
    numbers = {word: number for number, word in enumerate(known)}
    kept = [
        analogy
        for analogy in analogies
        if all(word in numbers for word in analogy.words) and len(set(analogy.words)) == 4
    ]
    if not kept:
        raise InputError(f"{model.name}: its vocabulary knows no analogy whole; give others as --analogies FILE")
    quadruples = np.array([[numbers[word] for word in analogy.words] for analogy in kept])
    _, families = np.unique([analogy.family for analogy in kept], return_inverse=True)
    return _Questions([pieces[word] for word in known], quadruples, families)


MEASURE = Measure(
    "analogies", "M34", "analogies", "Do analogies hold in the table of embeddings and in the states?", measure
)
