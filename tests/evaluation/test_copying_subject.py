"""A network with a copy gate is asked about rows as they are, from its folder like any other."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from little_models import LENGTH, TOKENIZER, build_pair, finish

from electralab.evaluation.blimp import choose_scoring, score_sentences
from electralab.evaluation.context import EvalContext, load_eval_model
from electralab.evaluation.states import encode_sentences
from electralab.model.electra import CopyMLM
from electralab.model.folders.folder import save_network
from electralab.model.weights import init_weights

TEXTS = ["the cat sat", "a cat", "dogs sit near the logs and sing"]
SPECIAL = TOKENIZER.special


def save_run(folder: Path) -> CopyMLM:
    network = CopyMLM(build_pair().discriminator.config)
    init_weights(network, 1)
    target = folder / "export/model"
    target.mkdir(parents=True)
    save_network(target, network, pad_id=SPECIAL.pad, objective="all-tokens-mlm")
    TOKENIZER.save(target)
    return network.eval()


@torch.no_grad()
def slow_sum(network: CopyMLM, text: str) -> float:
    (ids,) = TOKENIZER.encode_many([text])
    row = torch.tensor([[SPECIAL.cls, *map(int, ids), SPECIAL.sep]])
    states = network.encoder(row, torch.zeros_like(row), None)[0]
    total = 0.0
    for place in range(1, row.shape[1] - 1):
        keep = float(torch.sigmoid(network.gate(states[place]).double()))
        guesses = torch.softmax(network.head(states[place : place + 1], network.encoder.embeddings)[0].double(), dim=0)
        total += math.log(keep + (1 - keep) * float(guesses[row[0, place]]))
    return total


@pytest.mark.parametrize("batch_tokens", [1, 8192])
def test_a_sentence_is_scored_by_what_is_kept_or_guessed_in_one_pass(batch_tokens: int, tmp_path: Path) -> None:
    network = save_run(tmp_path)
    subject = load_eval_model(tmp_path, torch.device("cpu"))
    generator = subject.require_generator("scoring")
    scoring = choose_scoring(generator, subject.objective)
    assert scoring == "unmasked"
    sentences = encode_sentences(TOKENIZER, TEXTS, LENGTH)
    conditions = EvalContext(batch_tokens=batch_tokens)
    found = finish(score_sentences(generator, TOKENIZER, sentences, conditions, scoring))
    np.testing.assert_allclose(found.sums, [slow_sum(network, text) for text in TEXTS], rtol=1e-4)
