"""Sentences scored in batches, each network asked as it was taught, against slow, obvious twins that read one sentence,
and one hidden token, at a time; and what the folders of such networks say of themselves."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from little_models import LENGTH, TEXT, TOKENIZER, build_pair, finish, make_subject, run

from electralab.errors import InputError
from electralab.evaluation.blimp import Scoring, SentenceScores, choose_scoring, score_sentences
from electralab.evaluation.context import EvalContext, encode_sentences, load_eval_model
from electralab.model.electra import CopyMLM, Discriminator, Generator, TokenModel, TwoStream, TwoTower
from electralab.model.folders.folder import locate_encoder, locate_networks, save_network
from electralab.model.task_model import HeadConfig, build_task_model
from electralab.model.weights import init_weights
from electralab.serving.model import Model
from electralab.tokens.batches import batch_by_length

TEXTS = ["the cat sat", "a cat", "dogs sit near the logs and sing", "the cat sat", "[MASK] 中 cat"]
SPECIAL = TOKENIZER.special
CONFIG = build_pair().discriminator.config
HIDING: Scoring = "pseudo-log-likelihood"
CPU = torch.device("cpu")


def drawn(network: Any) -> Any:
    init_weights(network, 1)
    return network.eval()


CAUSAL: Generator = drawn(Generator(CONFIG.model_copy(update={"is_causal": True})))
TOWERS: TwoTower = drawn(TwoTower(CONFIG))
STREAMS: TwoStream = drawn(TwoStream(CONFIG))
COPYING: CopyMLM = drawn(CopyMLM(CONFIG))
DISCRIMINATOR = build_pair().discriminator
MASKED: Any = build_pair().generator


def save_run(folder: Path, network: TokenModel | Discriminator, objective: str, role: str = "model") -> Path:
    target = folder / "export" / role
    target.mkdir(parents=True)
    save_network(target, network, pad_id=SPECIAL.pad, cls_id=SPECIAL.cls, sep_id=SPECIAL.sep, objective=objective)
    TOKENIZER.save(target)
    return folder


def write_data(folder: Path) -> tuple[Path, Path]:
    """Minimal pairs, and a text."""
    pairs, text = folder / "pairs.jsonl", folder / "text.txt"
    pair = {"sentence_good": "the cat sat", "sentence_bad": "the cat mat", "UID": "end"}
    pairs.write_text("\n".join(3 * [json.dumps(pair)]))
    text.write_text(f"{TEXT}\n" * 30)
    return pairs, text


def score(network: Any, scoring: Scoring, texts: list[str] = TEXTS, **context: Any) -> SentenceScores:
    sentences = encode_sentences(TOKENIZER, texts, LENGTH)
    return finish(score_sentences(network, TOKENIZER, sentences, EvalContext(**context), scoring))


# Each twin gives the probability of the token at one place of a row.


def judge(row: torch.Tensor, place: int) -> float:
    return 1 - float(torch.sigmoid(DISCRIMINATOR(row, torch.zeros_like(row), None)[0, place].double()))


def ask(network: TokenModel, row: torch.Tensor, place: int, token: int, *more: torch.Tensor) -> float:
    logits = network(row, torch.zeros_like(row), None, torch.tensor([place]), *more)
    return float(torch.softmax(logits[0].double(), dim=0)[token])


def hide(row: torch.Tensor, place: int) -> float:
    hidden = row.clone()
    hidden[0, place] = SPECIAL.mask
    return ask(MASKED, hidden, place, int(row[0, place]))


def read_before(row: torch.Tensor, place: int) -> float:
    """All that a causal network may look at, the token itself standing for the place where it is asked."""
    return ask(CAUSAL, row[:, : place + 1], place, int(row[0, place]))


def take_turns(row: torch.Tensor, place: int) -> float:
    """Asked for one token with all others known."""
    turns = torch.zeros_like(row)
    turns[0, place] = 1
    return ask(STREAMS, row, place, int(row[0, place]), turns)


def keep_or_guess(row: torch.Tensor, place: int) -> float:
    states = COPYING.encoder(row, torch.zeros_like(row), None)[0]
    keep = float(torch.sigmoid(COPYING.gate(states[place]).double()))
    guesses = torch.softmax(COPYING.head(states[place : place + 1], COPYING.encoder.embeddings)[0].double(), dim=0)
    return keep + (1 - keep) * float(guesses[row[0, place]])


@pytest.mark.parametrize("batch_tokens", [1, 100, 8192])
@pytest.mark.parametrize(
    ("network", "objective", "scoring", "twin"),
    [
        (DISCRIMINATOR, "", "verdicts", judge),
        (MASKED, "mlm", HIDING, hide),
        (MASKED, "", HIDING, hide),
        (CAUSAL, "causal", "log-likelihood", read_before),
        (TOWERS, "electra", "cloze", lambda row, place: ask(TOWERS, row, place, int(row[0, place]))),
        (MASKED, "replace-mlm", "unmasked", lambda row, place: ask(MASKED, row, place, int(row[0, place]))),
        (STREAMS, "permutation", HIDING, take_turns),
        (COPYING, "all-tokens-mlm", "unmasked", keep_or_guess),
    ],
)
def test_a_batch_agrees_with_its_slow_twin(
    network: Any, objective: str, scoring: Scoring, twin: Callable[[torch.Tensor, int], float], batch_tokens: int
) -> None:
    assert network is DISCRIMINATOR or choose_scoring(network, objective) == scoring
    sums = []
    for ids in TOKENIZER.encode_many(TEXTS):
        row = torch.tensor([[SPECIAL.cls, *map(int, ids), SPECIAL.sep]])
        places = [place for place in range(1, row.shape[1] - 1) if row[0, place] != SPECIAL.unk]
        with torch.no_grad():
            sums.append(sum(math.log(twin(row, place)) for place in places))
    np.testing.assert_allclose(score(network, scoring, batch_tokens=batch_tokens).sums, sums, rtol=1e-4)


def test_energies_are_summed_as_they_are() -> None:
    (ids,) = TOKENIZER.encode_many(["the cat sat"])
    row = torch.tensor([[SPECIAL.cls, *map(int, ids), SPECIAL.sep]])
    with torch.no_grad():
        energies = DISCRIMINATOR(row, torch.zeros_like(row), None)[0, 1:-1]
    assert score(DISCRIMINATOR, "energies", ["the cat sat"]).sums[0] == pytest.approx(-sum(energies.tolist()), rel=1e-4)


def test_means_are_per_token_that_counts() -> None:
    whole, unknown, the = (list(map(int, ids)) for ids in TOKENIZER.encode_many(["the cat sat", "中", "the"]))
    assert unknown == [SPECIAL.unk]
    scores = score(DISCRIMINATOR, "verdicts", ["the cat sat", "中", "the 中"])
    assert scores.means.tolist() == [scores.sums[0] / len(whole), 0.0, scores.sums[2] / len(the)]


def test_a_special_token_written_in_a_text_is_only_text() -> None:
    (row,) = encode_sentences(TOKENIZER, ["[MASK] [PAD]"], 24).rows
    assert not set(row[1:-1].tolist()) & {SPECIAL.mask, SPECIAL.pad, SPECIAL.cls, SPECIAL.sep}


def test_equal_texts_are_one_row_and_long_ones_are_cut_and_counted() -> None:
    sentences = encode_sentences(TOKENIZER, ["cat", "mat cat", "cat", "the mat " * 20], 8)
    assert sentences.row_ids.tolist() == [0, 1, 0, 2]
    assert sentences.truncated == 1
    assert len(sentences.rows[2]) == 8
    assert sentences.rows[2][-1] == SPECIAL.sep


def test_batches_hold_every_row_once_little_padding_and_a_long_row_alone() -> None:
    batches = list(batch_by_length([np.full(length, 7) for length in (3, 9, 4, 8, 3)], SPECIAL, 18, CPU))
    assert [batch.rows.tolist() for batch in batches] == [[1, 3], [2, 0, 4]]
    assert [int(batch.is_pad.sum()) for batch in batches] == [1, 2]
    batches = list(batch_by_length([np.full(50, 7), np.full(40, 7)], SPECIAL, 10, CPU))
    assert [batch.rows.tolist() for batch in batches] == [[0], [1]]


def test_work_is_abandoned_between_batches() -> None:
    class Enough(BaseException):
        pass

    def stop() -> None:
        raise Enough

    with pytest.raises(Enough):
        score(MASKED, HIDING, check=stop)


@pytest.mark.parametrize(
    ("network", "objective", "note", "count"),
    [
        (CAUSAL, "causal", "log-likelihood: log p of each token after those before it", 3),
        (MASKED, "mlm", "pseudo-log-likelihood: log p of each token, hidden", 2),
        (MASKED, "replace-mlm", "unmasked: log p of each token in the row as it is", 3),
        (STREAMS, "permutation", "pseudo-log-likelihood: log p of each token, hidden", 2),
    ],
)
def test_minimal_pairs_name_the_scoring(
    network: TokenModel, objective: str, note: str, count: int, tmp_path: Path
) -> None:
    pairs, text = write_data(tmp_path)
    model = save_run(tmp_path, network, objective)
    subject = load_eval_model(model, CPU)
    assert (type(subject.generator), subject.objective) == (type(network), objective)
    found = run(model, "blimp", pairs, blimp={"generator_limit": 2})
    assert note in " ".join(found.notes)
    assert found.counts["generator_pairs"] == count
    assert found.scores["generator"] in (0.0, 1.0)
    assert 0 < run(model, "mlm", text).scores["loss"] < 50


def test_a_folder_with_one_network_is_a_subject_with_one(tmp_path: Path) -> None:
    whole = make_subject(tmp_path)
    assert None not in (whole.discriminator, whole.generator)
    alone = load_eval_model(tmp_path / "export" / "generator", CPU)
    assert alone.discriminator is None
    assert alone.generator is not None


def test_the_model_of_a_run_goes_before_the_generator_that_taught_it(tmp_path: Path) -> None:
    save_run(tmp_path, MASKED, "replace-mlm")
    save_run(tmp_path, build_pair(seed=2).generator, "replace-mlm", "generator")  # type: ignore[arg-type]
    assert locate_networks(tmp_path) == [tmp_path / "export" / "model"]
    assert load_eval_model(tmp_path, CPU).objective == "replace-mlm"
    assert load_eval_model(tmp_path / "export/generator", CPU).objective == ""


def test_a_causal_model_guesses_the_same_held_out_tokens_from_those_before(tmp_path: Path) -> None:
    _, data = write_data(tmp_path)
    found = run(save_run(tmp_path / "run", CAUSAL, "causal"), "mlm", data)
    assert found.scores["perplexity"] == pytest.approx(math.exp(found.scores["loss"]))
    assert found.notes == ("the network read the rows as they are and guessed each token from those before it",)
    masked = run(save_run(tmp_path / "masked", MASKED, "mlm"), "mlm", data)
    assert (masked.counts, masked.identity) == (found.counts, found.identity)


def test_an_encoder_is_found_and_detection_is_refused(tmp_path: Path) -> None:
    model = save_run(tmp_path / "run", CAUSAL, "causal")
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
    save_network(target, build_task_model(CAUSAL.encoder, head, seed=1), pad_id=0, cls_id=2, sep_id=3)
    TOKENIZER.save(target)
    with pytest.raises(InputError, match="is a tuned model, which neither judges nor guesses tokens"):
        load_eval_model(tmp_path, CPU)


def test_towers_are_saved_in_a_folder_of_our_own_and_play_against_the_discriminator(tmp_path: Path) -> None:
    pairs, text = write_data(tmp_path)
    save_run(tmp_path, TOWERS, "electra", "generator")
    save_run(tmp_path, DISCRIMINATOR, "electra", "discriminator")
    towers = load_eval_model(tmp_path, CPU).generator
    assert isinstance(towers, TwoTower)
    assert all(map(torch.equal, towers.parameters(), TOWERS.parameters()))
    assert towers.left.embeddings.tokens is towers.right.embeddings.tokens
    assert "the generator's score is the cloze likelihood" in " ".join(run(tmp_path, "blimp", pairs).notes)
    assert run(tmp_path, "mlm", text).notes[-1].endswith("guessed each token from all others")
