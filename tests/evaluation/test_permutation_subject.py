"""A network taught by permutation is asked for one token with all others known, and nobody sees what is hidden."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from little_models import LENGTH, TOKENIZER, build_pair, finish, run

from electralab.evaluation.blimp import choose_scoring, score_sentences
from electralab.evaluation.context import EvalContext, load_eval_model
from electralab.evaluation.states import encode_sentences
from electralab.model.electra import TwoStream
from electralab.model.folders.folder import save_network
from electralab.model.weights import init_weights

TEXTS = ["the cat sat", "a cat", "dogs sit near the logs and sing", "the cat sat", "[MASK] 中 cat"]
SPECIAL = TOKENIZER.special


def make_streams() -> TwoStream:
    streams = TwoStream(build_pair().discriminator.config)
    init_weights(streams, 1)
    return streams.eval()


def save_run(folder: Path) -> Path:
    target = folder / "export" / "model"
    target.mkdir(parents=True)
    save_network(target, make_streams(), pad_id=SPECIAL.pad, objective="permutation")
    TOKENIZER.save(target)
    return folder


@torch.no_grad()
def slow_sum(streams: TwoStream, text: str) -> float:
    (ids,) = TOKENIZER.encode_many([text])
    row = [SPECIAL.cls, *map(int, ids), SPECIAL.sep]
    total = 0.0
    for place in range(1, len(row) - 1):
        if row[place] != SPECIAL.unk:
            input_ids = torch.tensor([row])
            turns = torch.zeros_like(input_ids)
            turns[0, place] = 1
            guesses = streams(input_ids, torch.zeros_like(input_ids), None, torch.tensor([place]), turns)
            total += math.log(torch.softmax(guesses[0].double(), dim=0)[row[place]])
    return total


@pytest.mark.parametrize("batch_tokens", [1, 100, 8192])
def test_a_sentence_is_as_likely_as_each_token_after_all_others(batch_tokens: int) -> None:
    streams = make_streams()
    scoring = choose_scoring(streams, "permutation")
    assert scoring == "pseudo-log-likelihood"
    sentences = encode_sentences(TOKENIZER, TEXTS, LENGTH)
    conditions = EvalContext(batch_tokens=batch_tokens)
    found = finish(score_sentences(streams, TOKENIZER, sentences, conditions, scoring))
    np.testing.assert_allclose(found.sums, [slow_sum(streams, text) for text in TEXTS], rtol=1e-4)


def test_a_run_is_scored_on_minimal_pairs_and_on_held_out_tokens(tmp_path: Path) -> None:
    model = save_run(tmp_path)
    subject = load_eval_model(model, torch.device("cpu"))
    assert isinstance(subject.generator, TwoStream)
    assert subject.objective == "permutation"
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"sentence_good": "the cat sat", "sentence_bad": "the cat mat", "UID": "end"}))
    found = run(model, "blimp", pairs)
    assert "pseudo-log-likelihood: log p of each token, hidden" in " ".join(found.notes)
    assert found.scores["generator"] in (0.0, 1.0)
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on a mat and dogs sit near logs while birds sing under trees\n" * 30)
    assert 0 < run(model, "mlm", text).scores["loss"] < 50
