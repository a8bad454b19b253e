"""A run of one network is asked as it was taught: from what came before, from all others, from the row as it is."""

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from little_models import LENGTH, TOKENIZER, build_pair, finish, run
from torch import Tensor

from electralab.errors import InputError
from electralab.evaluation.blimp import choose_scoring, score_sentences
from electralab.evaluation.context import EvalContext, load_eval_model
from electralab.evaluation.states import encode_sentences
from electralab.model.electra import Discriminator, Generator, TokenModel, TwoTower
from electralab.model.folders.folder import locate_encoder, locate_networks, save_network, save_task_model
from electralab.model.task_model import HeadConfig, build_task_model
from electralab.model.weights import init_weights
from electralab.serving.model import Model

TEXTS = ["the cat sat", "a cat", "dogs sit near the logs and sing", "the cat sat", "[MASK] 中 cat"]
SPECIAL = TOKENIZER.special
CONFIG = build_pair().discriminator.config


def make_causal() -> Generator:
    generator = Generator(CONFIG.model_copy(update={"is_causal": True}))
    init_weights(generator, 1)
    return generator.eval()


def make_towers() -> TwoTower:
    towers = TwoTower(CONFIG)
    init_weights(towers, 1)
    return towers.eval()


def make_masked() -> Generator:
    generator = build_pair().generator
    assert isinstance(generator, Generator)
    return generator


def save_run(folder: Path, network: TokenModel | Discriminator, objective: str, role: str = "model") -> Path:
    target = folder / "export" / role
    target.mkdir(parents=True)
    save_network(target, network, pad_id=SPECIAL.pad, cls_id=SPECIAL.cls, sep_id=SPECIAL.sep, objective=objective)
    TOKENIZER.save(target)
    return folder


def read_before(row: list[int], place: int) -> tuple[Tensor, int]:
    """All that a causal network may look at, the token itself standing for the place where it is asked."""
    return torch.tensor([row[: place + 1]]), place


def read_whole(row: list[int], place: int) -> tuple[Tensor, int]:
    return torch.tensor([row]), place


@torch.no_grad()
def slow_sum(network: TokenModel, text: str, read: Callable[[list[int], int], tuple[Tensor, int]]) -> float:
    (ids,) = TOKENIZER.encode_many([text])
    row = [SPECIAL.cls, *map(int, ids), SPECIAL.sep]
    total = 0.0
    for place in range(1, len(row) - 1):
        if row[place] != SPECIAL.unk:
            input_ids, asked = read(row, place)
            guesses = network(input_ids, torch.zeros_like(input_ids), None, torch.tensor([asked]))
            total += math.log(torch.softmax(guesses[0].double(), dim=0)[row[place]])
    return total


@pytest.mark.parametrize("batch_tokens", [1, 100, 8192])
@pytest.mark.parametrize(
    ("network", "objective", "scoring", "read"),
    [
        (make_causal(), "causal", "log-likelihood", read_before),
        (make_towers(), "electra", "cloze", read_whole),
        (make_masked(), "replace-mlm", "unmasked", read_whole),
    ],
)
def test_one_pass_agrees_with_its_slow_twin(
    network: TokenModel,
    objective: str,
    scoring: str,
    read: Callable[[list[int], int], tuple[Tensor, int]],
    batch_tokens: int,
) -> None:
    assert choose_scoring(network, objective) == scoring
    sentences = encode_sentences(TOKENIZER, TEXTS, LENGTH)
    conditions = EvalContext(batch_tokens=batch_tokens)
    found = finish(score_sentences(network, TOKENIZER, sentences, conditions, choose_scoring(network, objective)))
    np.testing.assert_allclose(found.sums, [slow_sum(network, text, read) for text in TEXTS], rtol=1e-4)


def test_a_masked_language_model_is_asked_for_hidden_tokens() -> None:
    assert choose_scoring(make_masked(), "mlm") == choose_scoring(make_masked(), "") == "pseudo-log-likelihood"


def write_pairs(folder: Path) -> Path:
    path = folder / "pairs.jsonl"
    pair = {"sentence_good": "the cat sat", "sentence_bad": "the cat mat", "UID": "end"}
    path.write_text("\n".join(3 * [json.dumps(pair)]))
    return path


@pytest.mark.parametrize(
    ("make", "objective", "note", "count"),
    [
        (make_causal, "causal", "log-likelihood: log p of each token after those before it", 3),
        (make_masked, "mlm", "pseudo-log-likelihood: log p of each token, hidden", 2),
        (make_masked, "replace-mlm", "unmasked: log p of each token in the row as it is", 3),
    ],
)
def test_minimal_pairs_name_the_scoring(
    make: Callable[[], TokenModel], objective: str, note: str, count: int, tmp_path: Path
) -> None:
    model = save_run(tmp_path, make(), objective)
    found = run(model, "blimp", write_pairs(tmp_path), blimp={"generator_limit": 2})
    assert note in " ".join(found.notes)
    assert found.counts["generator_pairs"] == count
    assert found.scores["generator"] in (0.0, 1.0)


def test_the_model_of_a_run_goes_before_the_generator_that_taught_it(tmp_path: Path) -> None:
    save_run(tmp_path, make_masked(), "replace-mlm")
    save_run(tmp_path, build_pair(seed=2).generator, "replace-mlm", "generator")  # type: ignore[arg-type]
    assert locate_networks(tmp_path) == [tmp_path / "export" / "model"]
    assert load_eval_model(tmp_path, torch.device("cpu")).objective == "replace-mlm"
    assert load_eval_model(tmp_path / "export/generator", torch.device("cpu")).objective == ""


def test_a_causal_model_guesses_the_same_held_out_tokens_from_those_before(tmp_path: Path) -> None:
    model = save_run(tmp_path / "run", make_causal(), "causal")
    data = tmp_path / "text.txt"
    data.write_text("the cat sat on a mat and dogs sit near logs while birds sing under trees\n" * 30)
    found = run(model, "mlm", data)
    assert found.scores["perplexity"] == pytest.approx(math.exp(found.scores["loss"]))
    assert found.notes == ("the network read the rows as they are and guessed each token from those before it",)
    masked = run(save_run(tmp_path / "masked", make_masked(), "mlm"), "mlm", data)
    assert masked.counts == found.counts
    assert masked.identity == found.identity


def test_an_encoder_is_found_and_detection_is_refused(tmp_path: Path) -> None:
    model = save_run(tmp_path / "run", make_causal(), "causal")
    assert locate_encoder(model) == model / "export" / "model"
    with pytest.raises(InputError, match="run: holds a language model, which cannot detect; it can fill, embed"):
        Model(model).detect("the cat")
    with pytest.raises(InputError, match="export/model: holds a language model, which cannot detect"):
        Model(model / "export" / "model").detect("the cat")
    with pytest.raises(
        InputError, match=r"cannot predict; it can fill, embed; 'electra finetune .*' teaches it a task"
    ):
        Model(model).predict(["the cat"])


def test_a_tuned_causal_model_is_no_subject(tmp_path: Path) -> None:
    head = HeadConfig(kind="classify", labels=("no", "yes"), pooling="last")
    target = tmp_path / "export" / "model"
    target.mkdir(parents=True)
    save_task_model(target, build_task_model(make_causal().encoder, head, seed=1), pad_id=0, cls_id=2, sep_id=3)
    TOKENIZER.save(target)
    with pytest.raises(InputError, match="is a tuned model, which neither judges nor guesses tokens"):
        load_eval_model(tmp_path, torch.device("cpu"))


def test_towers_are_saved_in_a_folder_of_our_own_and_play_against_the_discriminator(tmp_path: Path) -> None:
    towers = make_towers()
    save_run(tmp_path, towers, "electra", "generator")
    save_run(tmp_path, build_pair().discriminator, "electra", "discriminator")
    subject = load_eval_model(tmp_path, torch.device("cpu"))
    assert isinstance(subject.generator, TwoTower)
    assert all(
        torch.equal(ours, theirs)
        for ours, theirs in zip(subject.generator.parameters(), towers.parameters(), strict=True)
    )
    assert subject.generator.left.embeddings.tokens is subject.generator.right.embeddings.tokens
    found = run(tmp_path, "blimp", write_pairs(tmp_path))
    assert "the generator's score is the cloze likelihood" in " ".join(found.notes)
    data = tmp_path / "text.txt"
    data.write_text("the cat sat on a mat and dogs sit near logs while birds sing under trees\n" * 30)
    assert run(tmp_path, "mlm", data).notes[-1].endswith("guessed each token from all others")
