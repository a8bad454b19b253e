"""The same numbers as `transformers`, both ways: what we save, they load; what they save, we load."""

from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from networks import Rows, exaggerate, generator_of, make_pair, make_rows
from torch import Tensor

from electralab.model.electra import Discriminator, Electra, Generator
from electralab.model.folders.folder import load_encoder, load_network, save_network

ROWS = make_rows()
TOLERANCE = 1e-5

PAIRS = [
    pytest.param("tiny", {}, id="tiny"),
    pytest.param("tiny", {"embedding_size": 48}, id="tiny, both tables factorised"),
    pytest.param("tiny", {"local_attention": 8, "global_every": 2}, id="tiny, local attention"),
    pytest.param("tiny", {"local_attention": 7, "global_every": 3}, id="tiny, odd window"),
    pytest.param("tiny", {"backbone": "electra"}, id="tiny as electra, no projection"),
    pytest.param("small", {}, id="small"),
    pytest.param("tiny", {"share_layers": True, "local_attention": 8, "global_every": 2}, id="tiny, layers shared"),
    pytest.param("tiny", {"share_layers": True, "backbone": "electra"}, id="tiny as electra, layers shared"),
    pytest.param("tiny", {"sharing": "disentangled"}, id="tiny, disentangled"),
    pytest.param("tiny", {"sharing": "disentangled", "embedding_size": 48}, id="tiny, disentangled and factorised"),
    pytest.param("tiny", {"sharing": "disentangled", "backbone": "electra"}, id="tiny as electra, disentangled"),
]


def make_exaggerated(size: str, changes: dict[str, Any]) -> Electra:
    pair = make_pair(size, **changes)
    exaggerate(pair)
    return pair.eval()


def load_theirs(name: str, folder: Path) -> Any:
    """Their network, provided that it found every weight it has and used every one it was given."""
    kind = getattr(transformers, name)
    network, report = kind.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    if name not in ("ElectraModel", "ModernBertModel"):  # a bare encoder has no use for the head
        assert not report["unexpected_keys"]
    return network.eval()


def ask_theirs(network: Any, rows: Rows) -> Tensor:
    input_ids, segment_ids, is_pad = rows
    words = {"input_ids": input_ids, "attention_mask": (~is_pad).long()}
    if network.config.model_type == "electra":
        words["token_type_ids"] = segment_ids
    answer = network(**words)
    scores: Tensor = answer.logits if hasattr(answer, "logits") else answer.last_hidden_state
    return scores


def assert_equal_where_not_pad(ours: Tensor, theirs: Tensor, is_pad: Tensor) -> None:
    difference = (ours - theirs)[~is_pad].abs().max()
    assert difference < TOLERANCE * max(1.0, theirs[~is_pad].abs().max().item())
    assert theirs[~is_pad].std() > 0.1, "answers too small for a difference to show"


def guess_everywhere(generator: Generator, rows: Rows) -> Tensor:
    input_ids, segment_ids, is_pad = rows
    guesses: Tensor = generator(input_ids, segment_ids, is_pad, torch.arange(input_ids.numel()))
    return guesses.unflatten(0, input_ids.shape)  # type: ignore[no-any-return, no-untyped-call]


@pytest.mark.parametrize(("size", "changes"), PAIRS)
@torch.no_grad()
def test_their_discriminator_judges_like_ours(size: str, changes: dict[str, Any], tmp_path: Path) -> None:
    ours = make_exaggerated(size, changes).discriminator
    save_network(tmp_path, ours, pad_id=0, cls_id=2, sep_id=3)
    verdicts = ours(*ROWS)
    if ours.config.is_modern:
        logits = ask_theirs(load_theirs("ModernBertForTokenClassification", tmp_path), ROWS)
        assert torch.equal(logits[..., 0], torch.zeros_like(verdicts))
        assert_equal_where_not_pad(verdicts, logits[..., 1], ROWS[2])
        assert_equal_where_not_pad(verdicts.sigmoid(), logits.softmax(-1)[..., 1], ROWS[2])
    else:
        assert_equal_where_not_pad(verdicts, ask_theirs(load_theirs("ElectraForPreTraining", tmp_path), ROWS), ROWS[2])


@pytest.mark.parametrize(("size", "changes"), PAIRS)
@torch.no_grad()
def test_their_generator_guesses_like_ours(size: str, changes: dict[str, Any], tmp_path: Path) -> None:
    ours = generator_of(make_exaggerated(size, changes))
    save_network(tmp_path, ours, pad_id=0, cls_id=2, sep_id=3)
    name = "ModernBertForMaskedLM" if ours.config.is_modern else "ElectraForMaskedLM"
    assert_equal_where_not_pad(guess_everywhere(ours, ROWS), ask_theirs(load_theirs(name, tmp_path), ROWS), ROWS[2])


@pytest.mark.parametrize(("size", "changes"), PAIRS)
@torch.no_grad()
def test_their_bare_encoder_has_our_states(size: str, changes: dict[str, Any], tmp_path: Path) -> None:
    ours = make_exaggerated(size, changes).discriminator
    save_network(tmp_path, ours, pad_id=0, cls_id=2, sep_id=3)
    name = "ModernBertModel" if ours.config.is_modern else "ElectraModel"
    assert_equal_where_not_pad(ours.encoder(*ROWS), ask_theirs(load_theirs(name, tmp_path), ROWS), ROWS[2])


@pytest.mark.parametrize(("size", "changes"), PAIRS)
@torch.no_grad()
def test_our_folder_comes_back_as_it_was(size: str, changes: dict[str, Any], tmp_path: Path) -> None:
    pair = make_exaggerated(size, changes)
    save_network(tmp_path / "d", pair.discriminator, pad_id=0)
    save_network(tmp_path / "g", pair.generator, pad_id=0)
    discriminator, generator = load_network(tmp_path / "d"), load_network(tmp_path / "g")
    assert isinstance(discriminator, Discriminator)
    assert isinstance(generator, Generator)
    assert_equal_where_not_pad(discriminator(*ROWS), pair.discriminator(*ROWS), ROWS[2])
    assert_equal_where_not_pad(guess_everywhere(generator, ROWS), guess_everywhere(generator_of(pair), ROWS), ROWS[2])


def electra_config(**changes: Any) -> Any:
    values = {"vocab_size": 100, "embedding_size": 24, "hidden_size": 64, "num_hidden_layers": 3}
    values |= {"num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 32}
    return transformers.ElectraConfig(**values | changes)


def modernbert_config(**changes: Any) -> Any:
    values: dict[str, Any] = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4}
    values |= {"intermediate_size": 96, "max_position_embeddings": 32, "local_attention": 6, "pad_token_id": 0}
    values |= {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    return transformers.ModernBertConfig(**values | changes)


def save_theirs(name: str, config: Any, folder: Path, **how: Any) -> Any:
    theirs = getattr(transformers, name)(config).eval()
    exaggerate(theirs)
    theirs.save_pretrained(folder, **how)
    return theirs


@torch.no_grad()
def test_their_electra_discriminator_loads_into_ours(tmp_path: Path) -> None:
    theirs = save_theirs("ElectraForPreTraining", electra_config(), tmp_path)
    assert_equal_where_not_pad(load_network(tmp_path)(*ROWS), ask_theirs(theirs, ROWS), ROWS[2])


@torch.no_grad()
def test_their_electra_generator_loads_into_ours(tmp_path: Path) -> None:
    theirs = save_theirs("ElectraForMaskedLM", electra_config(), tmp_path)
    ours = load_network(tmp_path)
    assert isinstance(ours, Generator)
    assert_equal_where_not_pad(guess_everywhere(ours, ROWS), ask_theirs(theirs, ROWS), ROWS[2])


@torch.no_grad()
def test_their_modernbert_generator_loads_into_ours(tmp_path: Path) -> None:
    theirs = save_theirs("ModernBertForMaskedLM", modernbert_config(), tmp_path)
    ours = load_network(tmp_path)
    assert isinstance(ours, Generator)
    assert_equal_where_not_pad(guess_everywhere(ours, ROWS), ask_theirs(theirs, ROWS), ROWS[2])


@torch.no_grad()
def test_their_two_class_tagger_of_replaced_tokens_loads_into_ours(tmp_path: Path) -> None:
    """Theirs may score both classes; only the difference matters."""
    labels = {"id2label": {0: "original", 1: "replaced"}, "label2id": {"original": 0, "replaced": 1}}
    theirs = save_theirs("ModernBertForTokenClassification", modernbert_config(**labels), tmp_path)
    logits = ask_theirs(theirs, ROWS)
    assert logits[..., 0].abs().max() > 0.1
    assert_equal_where_not_pad(load_network(tmp_path)(*ROWS), logits[..., 1] - logits[..., 0], ROWS[2])


@pytest.mark.parametrize("name", ["ElectraModel", "ElectraForSequenceClassification"])
@torch.no_grad()
def test_an_encoder_loads_from_any_of_their_electras(name: str, tmp_path: Path) -> None:
    theirs = save_theirs(name, electra_config(), tmp_path)
    bare = theirs if name == "ElectraModel" else theirs.electra
    assert_equal_where_not_pad(load_encoder(tmp_path)(*ROWS), ask_theirs(bare, ROWS), ROWS[2])


@pytest.mark.parametrize("name", ["ModernBertModel", "ModernBertForSequenceClassification"])
@torch.no_grad()
def test_an_encoder_loads_from_any_of_their_modernberts(name: str, tmp_path: Path) -> None:
    theirs = save_theirs(name, modernbert_config(), tmp_path)
    bare = theirs if name == "ModernBertModel" else theirs.model
    assert_equal_where_not_pad(load_encoder(tmp_path)(*ROWS), ask_theirs(bare, ROWS), ROWS[2])


@torch.no_grad()
def test_their_sharded_weights_load_into_ours(tmp_path: Path) -> None:
    theirs = save_theirs("ElectraForPreTraining", electra_config(), tmp_path, max_shard_size="100KB")
    assert not (tmp_path / "model.safetensors").exists()
    assert_equal_where_not_pad(load_network(tmp_path)(*ROWS), ask_theirs(theirs, ROWS), ROWS[2])


@torch.no_grad()
def test_a_plain_linear_verdict_exports_as_token_classification(tmp_path: Path) -> None:
    ours = make_exaggerated("tiny", {"backbone": "electra", "verdict_head": "linear"}).discriminator
    save_network(tmp_path, ours, pad_id=0)
    logits = ask_theirs(load_theirs("ElectraForTokenClassification", tmp_path), ROWS)
    assert_equal_where_not_pad(ours(*ROWS), logits[..., 1] - logits[..., 0], ROWS[2])
    assert_equal_where_not_pad(load_network(tmp_path)(*ROWS), ours(*ROWS), ROWS[2])


@torch.no_grad()
def test_tanh_gelu_would_fail_this_parity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = save_theirs("ElectraForPreTraining", electra_config(), tmp_path)
    ours = load_network(tmp_path)
    erf_gelu = torch.nn.functional.gelu
    monkeypatch.setattr(torch.nn.functional, "gelu", lambda states: erf_gelu(states, approximate="tanh"))
    wrong = ours(*ROWS)
    monkeypatch.undo()
    with pytest.raises(AssertionError):
        assert_equal_where_not_pad(wrong, ask_theirs(theirs, ROWS), ROWS[2])
