"""Whether a is to b as c is to d, in the table of embeddings and in the states of every layer.

AnalysisModel, analogies -> ranks of the answers -> shares of answers that come first
"""

import numpy as np

from electralab.analysis.arrays import Indices, IntArray, Matrix, label_ids, normalise, require_count
from electralab.analysis.finding import Controlled, Finding, Resampler, skip_on_error
from electralab.analysis.measures import AnalysisData, AnalysisModel, Measure, Outputs
from electralab.analysis.outputs import token_layers
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
    require_count("analogies", len(vectors), 5, "words", vectors)
    assert all(len(set(four)) == 4 for four in quadruples.tolist()), "a quadruple has four different words"
    estimate = draws.mean(rank_answers(vectors, quadruples, with_step=with_step) == 1, groups)
    dealt = (draws.rng.permutation(vectors) for _ in range(_SHUFFLES))
    shares = ((rank_answers(other, quadruples, with_step=with_step) == 1).mean() for other in dealt)
    return Controlled(estimate, null_interval(shares))


def measure(model: AnalysisModel, data: AnalysisData) -> Outputs:
    """Do analogies hold in the table of embeddings and in the states?"""
    for space, where in {"table": "in the table of embeddings", "states": "by the states of each layer"}.items():
        with skip_on_error(space, f"analogies, {space}") as skipped:
            # Of the analogies whose four words the vocabulary knows: tokens of words, indices of words, families.
            analogies = data.analogies.read_by(model)
            words = list(dict.fromkeys(word for analogy in analogies for word in analogy.words))
            tokens = dict(zip(words, model.tokenizer.encode_many(words), strict=True))
            known = [word for word in words if len(tokens[word]) and model.tokenizer.special.unk not in tokens[word]]
            numbers = {word: number for number, word in enumerate(known)}
            kept = [four for four in analogies if numbers.keys() >= set(four.words) and len(set(four.words)) == 4]
            if not kept:
                raise InputError(
                    f"{model.name}: its vocabulary knows no analogy whole; give others as --analogies FILE"
                )
            pieces = [tokens[word] for word in known]
            quadruples = np.array([[numbers[word] for word in analogy.words] for analogy in kept])
            families = label_ids([analogy.family for analogy in kept])
            note = f"{len(quadruples)} analogies of {len(pieces)} words"
            layers: dict[int | None, Matrix]
            if space == "table":
                weights = model.encoder.embeddings.tokens.weight.detach().float().cpu().numpy()
                layers = {None: np.stack([weights[ids].mean(axis=0) for ids in pieces])}
                note += ", which are the answers to choose from"
            else:
                # By the mean of a word's states where nothing else stands in the row.
                special = model.tokenizer.special
                rows = [np.concatenate([[special.cls], ids, [special.sep]]).astype(np.int64) for ids in pieces]
                states = token_layers(model, data, rows, [np.arange(1, len(row) - 1) for row in rows], "words")
                lengths = np.array([len(ids) for ids in pieces])
                starts = np.cumsum([0, *lengths])[:-1]
                sums = [np.add.reduceat(layer.astype(np.float64), starts, axis=0) for layer in states]
                layers = {index: layer / lengths[:, None] for index, layer in enumerate(sums)}
                note += ", each read by itself"
            for index, vectors in layers.items():
                draws = data.settings.resampler("analogies", space, str(index))
                share = measure_analogies(vectors, quadruples, draws, groups=families)
                meaning = f"share of analogies whose answer is nearest to b - a + c {where}"
                yield Finding(space, f"analogies, {space}", "share", meaning, *share, _DEALT, note, index)
                share = measure_analogies(vectors, quadruples, draws, groups=families, with_step=False)
                meaning = f"share whose answer is nearest to c alone {where}: found without any analogy"
                name = f"nearest to c, {space}"
                yield Finding(f"{space}_nearest", name, "share", meaning, *share, _DEALT, layer=index)
        yield from skipped


MEASURE = Measure("M34", "analogies", measure)
