"""The same numbers as `transformers`, both ways: what we save, they load; what they save, we load."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from networks import Rows, exaggerate, generator_of, make_pair, make_rows
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Discriminator, Electra, Generator
from electralab.model.folders.folder import (
    load_any,
    load_encoder,
    load_network,
    load_task_model,
    save_network,
)
from electralab.model.folders.hf_config import task_class_name
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import HeadConfig, HeadStyle, SpanLogits, TaskModel, build_task_model
from electralab.model.weights import init_weights

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


# -------------------- BERT folders are read as what `transformers` say they are: the encoder, and the head that

IDS = torch.tensor([[2, 5, 6, 7, 3], [2, 8, 9, 3, 0]])
BERT_PAD = IDS == 0


def save_bert(folder: Path, name: str) -> Any:
    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=12,
        initializer_range=0.3,
    )
    torch.manual_seed(3)
    theirs: Any = getattr(transformers, name)(config)
    theirs.eval().save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("name", ["BertModel", "BertForMaskedLM", "BertForPreTraining"])
def test_the_encoder_says_what_theirs_says(tmp_path: Path, name: str) -> None:
    theirs = save_bert(tmp_path, name)
    body = getattr(theirs, "bert", theirs)
    with torch.inference_mode():
        expected = body(input_ids=IDS, attention_mask=(~BERT_PAD).long()).last_hidden_state
        ours = load_encoder(tmp_path)(IDS, torch.zeros_like(IDS), BERT_PAD)
    torch.testing.assert_close(ours[~BERT_PAD], expected[~BERT_PAD], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["BertForMaskedLM", "BertForPreTraining"])
def test_the_head_guesses_what_theirs_guesses(tmp_path: Path, name: str) -> None:
    theirs = save_bert(tmp_path, name)
    ours = load_any(tmp_path)
    assert isinstance(ours, Generator)
    with torch.inference_mode():
        said = theirs(input_ids=IDS, attention_mask=(~BERT_PAD).long())
        expected = said.logits if name == "BertForMaskedLM" else said.prediction_logits
        guesses = ours(IDS, torch.zeros_like(IDS), BERT_PAD, torch.tensor([1, 6]))
    torch.testing.assert_close(guesses, expected.flatten(0, 1)[[1, 6]], atol=1e-5, rtol=1e-4)


# -------------------- A causal network says what `transformers` say, both ways: what we save, they load; what th

INPUT_IDS, SEGMENT_IDS, IS_PAD = make_rows()
# Every position but the first, which nothing stands before, and but the padding.
ASKED = (~IS_PAD & (torch.arange(IS_PAD.shape[1]) > 0)).flatten().nonzero().squeeze(1)
KINDS = [
    pytest.param({"backbone": "electra"}, "ElectraForCausalLM", id="electra"),
    pytest.param({"backbone": "electra", "embedding_size": 48}, "ElectraForCausalLM", id="electra, factorised"),
    pytest.param({}, "ModernBertDecoderForCausalLM", id="modern"),
    pytest.param({"embedding_size": 48}, "ModernBertDecoderForCausalLM", id="modern, factorised"),
    pytest.param({"local_attention": 8, "global_every": 2}, "ModernBertDecoderForCausalLM", id="modern, local"),
    pytest.param({"local_attention": 7}, "ModernBertDecoderForCausalLM", id="modern, odd window"),
    pytest.param(
        {"local_attention": 10, "local_rope_theta": 100.0, "global_rope_theta": 5000.0},
        "ModernBertDecoderForCausalLM",
        id="modern, other rotations",
    ),
]


def make_causal(**changes: Any) -> Generator:
    values = make_pair("tiny", **changes).discriminator.config.model_dump()
    generator = Generator(EncoderConfig(**values | {"is_causal": True}))
    init_weights(generator, 1)
    exaggerate(generator)
    return generator.eval()


def ask_ours(network: object) -> Tensor:
    assert isinstance(network, Generator)
    guesses: Tensor = network(INPUT_IDS, SEGMENT_IDS, IS_PAD, ASKED)
    return guesses


def ask_causal(network: Any) -> Tensor:
    """Theirs answers at a position for the next."""
    words = {"input_ids": INPUT_IDS, "attention_mask": (~IS_PAD).long()}
    if network.config.model_type == "electra":
        words["token_type_ids"] = SEGMENT_IDS
    logits: Tensor = network(**words).logits
    return logits.flatten(0, 1)[ASKED - 1]


def assert_equal(ours: Tensor, theirs: Tensor) -> None:
    assert (ours - theirs).abs().max() < 1e-5 * max(1.0, theirs.abs().max().item())
    assert theirs.std() > 0.1, "answers too small for a difference to show"


@pytest.mark.parametrize(("changes", "name"), KINDS)
@torch.no_grad()
def test_their_causal_network_guesses_like_ours(changes: dict[str, Any], name: str, tmp_path: Path) -> None:
    ours = make_causal(**changes)
    save_network(tmp_path, ours, pad_id=0, cls_id=2, sep_id=3)
    theirs, report = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [name]
    assert_equal(ask_ours(ours), ask_causal(theirs.eval()))
    assert type(transformers.AutoModelForCausalLM.from_pretrained(tmp_path)).__name__ == name


@pytest.mark.parametrize(("changes", "_"), KINDS)
@torch.no_grad()
def test_our_causal_folder_comes_back_as_it_was(changes: dict[str, Any], _: str, tmp_path: Path) -> None:
    ours = make_causal(**changes)
    save_network(tmp_path, ours, pad_id=0, objective="causal")
    again = load_network(tmp_path)
    assert again.config.is_causal
    assert_equal(ask_ours(again), ask_ours(ours))
    states = load_encoder(tmp_path)(INPUT_IDS, SEGMENT_IDS, IS_PAD)
    assert_equal(states[~IS_PAD], ours.encoder(INPUT_IDS, SEGMENT_IDS, IS_PAD)[~IS_PAD])
    assert json.loads((tmp_path / "config.json").read_text())["electralab_objective"] == "causal"


def save_causal(kind: str, folder: Path) -> Any:
    values: dict[str, Any] = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 5, "num_attention_heads": 4}
    values |= {"intermediate_size": 96, "max_position_embeddings": 32, "pad_token_id": 0}
    if kind == "electra":
        config = transformers.ElectraConfig(**values, embedding_size=24, is_decoder=True)
        theirs: Any = transformers.ElectraForCausalLM(config)
    else:
        special = {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
        config = transformers.ModernBertDecoderConfig(**values, **special, local_attention=6)
        theirs = transformers.ModernBertDecoderForCausalLM(config)
    exaggerate(theirs.eval())
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize("kind", ["electra", "modern"])
@torch.no_grad()
def test_their_causal_network_loads_into_ours(kind: str, tmp_path: Path) -> None:
    theirs = save_causal(kind, tmp_path)
    assert_equal(ask_ours(load_network(tmp_path)), ask_causal(theirs))


@torch.no_grad()
def test_a_window_that_sees_one_more_would_fail_this_parity(tmp_path: Path) -> None:
    theirs = save_causal("modern", tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"local_attention": 8}))
    with pytest.raises(AssertionError):
        assert_equal(ask_ours(load_network(tmp_path)), ask_causal(theirs))


def test_an_unknown_type_is_told_which_are_known(tmp_path: Path) -> None:
    save_causal("modern", tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "gpt2"}))
    with pytest.raises(InputError, match="'gpt2'; models of type 'electra', 'modernbert' and 'modernbert-decoder'"):
        load_network(tmp_path)


# -------------------- Tuned networks give the same logits in `transformers`, both ways, and come back as they we

LABELS: dict[str, tuple[str, ...]] = {"classify": ("no", "yes", "maybe"), "label": ("O", "B-X", "I-X", "E-X")}
SUFFIX = {
    "classify": "ForSequenceClassification",
    "regress": "ForSequenceClassification",
    "label": "ForTokenClassification",
    "qa": "ForQuestionAnswering",
}
TASKS: tuple[str, ...] = ("classify", "regress", "label", "qa")
# What has a class of theirs: both styles on electra, theirs on modern.
EXPORTED = [
    *(pytest.param("electra", "released", kind, id=f"electra, released, {kind}") for kind in TASKS),
    *(pytest.param("electra", "huggingface", kind, id=f"electra, huggingface, {kind}") for kind in TASKS),
    *(pytest.param("modern", "huggingface", kind, id=f"modern, huggingface, {kind}") for kind in TASKS),
]
EVERY = [*EXPORTED, *(pytest.param("modern", "released", kind, id=f"modern, released, {kind}") for kind in TASKS)]


def make_tuned(backbone: str, style: HeadStyle, kind: str, **head: Any) -> TaskModel:
    config = HeadConfig(**{"kind": kind, "labels": LABELS.get(kind, ()), "style": style, "dropout": 0.25} | head)
    encoder = make_pair("tiny", backbone=backbone, num_layers=3, local_attention=8 * (backbone == "modern"))
    network = build_task_model(encoder.discriminator.encoder, config, seed=1)
    exaggerate(network)
    return network.eval()


def save(folder: Path, network: TaskModel) -> dict[str, Any]:
    save_network(folder, network, pad_id=0, cls_id=2, sep_id=3)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def flatten(answer: Tensor | SpanLogits) -> Tensor:
    return answer if isinstance(answer, Tensor) else torch.stack((answer.start, answer.end), dim=-1)


def ask_tuned(network: Any) -> Tensor:
    input_ids, segment_ids, is_pad = ROWS
    words = {"input_ids": input_ids, "attention_mask": (~is_pad).long()}
    if network.config.model_type == "electra":
        words["token_type_ids"] = segment_ids
    answer = network(**words)
    logits: Tensor
    logits = answer.logits if hasattr(answer, "logits") else torch.stack((answer.start_logits, answer.end_logits), -1)
    return logits


def assert_tuned_equal(ours: Tensor | SpanLogits, theirs: Tensor) -> None:
    ours = flatten(ours)
    assert ours.shape == theirs.shape
    if ours.dim() == 3:  # padding has no logits worth comparing
        ours, theirs = ours[~ROWS[2]], theirs[~ROWS[2]]
    assert (ours - theirs).abs().max() < TOLERANCE * max(1.0, theirs.abs().max().item())
    assert theirs.std() > 0.1, "logits too small for a difference to show"


@pytest.mark.parametrize(("backbone", "style", "kind"), EXPORTED)
@torch.no_grad()
def test_theirs_answers_like_ours(backbone: str, style: HeadStyle, kind: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, kind)
    config = save(tmp_path, ours)
    name = task_class_name(ours)
    assert name == {"electra": "Electra", "modern": "ModernBert"}[backbone] + SUFFIX[kind]
    assert config["architectures"] == [name]
    theirs, report = getattr(transformers, name).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    assert not report["unexpected_keys"]
    assert_tuned_equal(ours(*ROWS), ask_tuned(theirs.eval()))
    assert theirs.config.num_labels == ours.head_config.num_outputs
    assert theirs.config.classifier_dropout == 0.25
    if kind in LABELS:
        assert tuple(theirs.config.id2label.values()) == LABELS[kind]
        assert theirs.config.label2id["no" if kind == "classify" else "O"] == 0
    assert theirs.config.problem_type == {"classify": "single_label_classification", "regress": "regression"}.get(kind)


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("family", ["Electra", "ModernBert"])
@torch.no_grad()
def test_ours_answers_like_theirs(family: str, kind: str, tmp_path: Path) -> None:
    theirs = save_tuned(family, kind, tmp_path)
    ours = load_task_model(tmp_path)
    assert not ours.training
    assert_tuned_equal(ours(*ROWS), ask_tuned(theirs))
    assert ours.head_config.kind == kind
    assert ours.head_config.labels == LABELS.get(kind, ())
    is_deep = family == "ModernBert" or kind in ("classify", "regress")
    assert ours.head_config.style == ("huggingface" if is_deep else "released")


def save_tuned(family: str, kind: str, folder: Path, **changes: Any) -> Any:
    sizes: dict[str, Any] = {"vocab_size": 100, "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"intermediate_size": 96, "max_position_embeddings": 32, "pad_token_id": 0}
    if family == "Electra":
        sizes["embedding_size"] = 24
    else:
        sizes |= {"local_attention": 6, "bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    if kind in LABELS:
        sizes["id2label"] = dict(enumerate(LABELS[kind]))
        sizes["label2id"] = {name: index for index, name in enumerate(LABELS[kind])}
    if kind == "regress":
        sizes["num_labels"] = 1
    config = getattr(transformers, f"{family}Config")(**sizes | changes)
    theirs = getattr(transformers, family + SUFFIX[kind])(config).eval()
    exaggerate(theirs)
    theirs.save_pretrained(folder)
    return theirs


@pytest.mark.parametrize(("backbone", "style", "kind"), EVERY)
@torch.no_grad()
def test_a_tuned_network_comes_back_as_it_was(backbone: str, style: HeadStyle, kind: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, kind, has_answerability=kind == "qa")
    save(tmp_path, ours)
    again = load_task_model(tmp_path)
    # Labels and spans on electra are one head in both styles, and go by the released one.
    is_one = backbone == "electra" and not ours.head_config.is_pooled
    assert again.head_config == ours.head_config.model_copy(update={"style": "released"} if is_one else {})
    assert again.config.model_copy(update={"global_every": 1}) == ours.config.model_copy(update={"global_every": 1})
    expected = dict(ours.named_parameters())
    assert all(torch.equal(parameter, expected.pop(name)) for name, parameter in again.named_parameters())
    assert not expected
    before, after = ours(*ROWS), again(*ROWS)
    assert torch.equal(flatten(before), flatten(after))
    if kind == "qa":
        assert torch.equal(before.answerable, after.answerable)


@pytest.mark.parametrize("backbone", ["electra", "modern"])
@torch.no_grad()
def test_answerability_goes_along_without_disturbing_theirs(backbone: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, "huggingface", "qa", has_answerability=True)
    save(tmp_path, ours)
    theirs, report = getattr(transformers, task_class_name(ours)).from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert set(report["unexpected_keys"]) == {"head.answerable.weight", "head.answerable.bias"}
    assert_tuned_equal(ours(*ROWS), ask_tuned(theirs.eval()))


@pytest.mark.parametrize(("backbone", "style", "kind"), EVERY)
@torch.no_grad()
def test_the_encoder_of_a_tuned_folder_loads_alone(backbone: str, style: HeadStyle, kind: str, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, kind, has_answerability=kind == "qa")
    save(tmp_path, ours)
    assert torch.equal(load_encoder(tmp_path)(*ROWS), ours.encoder(*ROWS))


@pytest.mark.parametrize("kind", TASKS)
@pytest.mark.parametrize("family", ["Electra", "ModernBert"])
@torch.no_grad()
def test_the_encoder_of_their_tuned_folder_loads_alone(family: str, kind: str, tmp_path: Path) -> None:
    theirs = save_tuned(family, kind, tmp_path)
    words = {"input_ids": ROWS[0], "attention_mask": (~ROWS[2]).long()}
    if family == "Electra":
        words["token_type_ids"] = ROWS[1]
    assert_tuned_equal(load_encoder(tmp_path)(*ROWS), theirs.base_model(**words).last_hidden_state)


@torch.no_grad()
def test_what_they_trained_further_is_no_longer_read_as_a_linear_head(tmp_path: Path) -> None:
    save(tmp_path / "ours", make_tuned("electra", "released", "classify"))
    theirs = transformers.ElectraForSequenceClassification.from_pretrained(tmp_path / "ours").eval()
    theirs.classifier.dense.weight[-1, 0] += 0.5
    theirs.classifier.out_proj.weight[0, -1] += 0.5
    theirs.save_pretrained(tmp_path / "theirs")
    again = load_task_model(tmp_path / "theirs")
    assert again.head_config.style == "huggingface"
    assert_tuned_equal(again(*ROWS), ask_tuned(theirs))


@pytest.mark.parametrize(
    ("backbone", "labels"), [("electra", tuple(f"intent {index}" for index in range(65))), ("modern", ("no", "yes"))]
)
@torch.no_grad()
def test_a_head_without_a_class_of_theirs_is_not_loaded_by_them(
    backbone: str, labels: tuple[str, ...], tmp_path: Path
) -> None:
    ours = make_tuned(backbone, "released", "classify", labels=labels)  # 2 * 65 are more than 128 hidden
    config = save(tmp_path, ours)
    assert task_class_name(ours) == ""
    assert "architectures" not in config
    with pytest.raises(ValueError, match="does not recognize this architecture"):
        transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path)
    again = load_task_model(tmp_path)
    assert torch.equal(again(*ROWS), ours(*ROWS))
    assert again.head_config.labels == labels


@torch.no_grad()
def test_a_merged_table_keeps_the_logits(tmp_path: Path) -> None:
    encoder = make_pair("tiny", embedding_size=48).discriminator.encoder
    ours = build_task_model(encoder, HeadConfig(kind="classify", labels=("a", "b"), style="huggingface"), seed=1).eval()
    exaggerate(ours)
    save(tmp_path, ours)
    assert_tuned_equal(load_task_model(tmp_path)(*ROWS), ours(*ROWS))
    theirs = transformers.ModernBertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert_tuned_equal(ours(*ROWS), ask_tuned(theirs))


@torch.no_grad()
def test_their_two_unnamed_labels_have_their_usual_names(tmp_path: Path) -> None:
    save_tuned("Electra", "classify", tmp_path, id2label=None, label2id=None, num_labels=2)
    assert load_task_model(tmp_path).head_config.labels == ("LABEL_0", "LABEL_1")


@torch.no_grad()
@pytest.mark.parametrize("kind", ["classify", "regress"])
def test_mean_pooling_is_theirs(kind: str, tmp_path: Path) -> None:
    ours = make_tuned("modern", "huggingface", kind, pooling="mean")
    config = save(tmp_path, ours)
    assert config["classifier_pooling"] == "mean"
    theirs = transformers.ModernBertForSequenceClassification.from_pretrained(tmp_path).eval()
    assert_tuned_equal(ours(*ROWS), ask_tuned(theirs))
    again = load_task_model(tmp_path)
    assert again.head_config.pooling == "mean"
    assert torch.equal(again(*ROWS), ours(*ROWS))
    assert not torch.allclose(flatten(ours(*ROWS)), flatten(make_tuned("modern", "huggingface", kind)(*ROWS)))


@torch.no_grad()
@pytest.mark.parametrize(
    ("backbone", "style"), [("modern", "released"), ("electra", "released"), ("electra", "huggingface")]
)
def test_mean_pooling_that_no_class_of_theirs_has_comes_back(backbone: str, style: HeadStyle, tmp_path: Path) -> None:
    ours = make_tuned(backbone, style, "classify", pooling="mean")
    assert task_class_name(ours) == ""
    assert "architectures" not in save(tmp_path, ours)
    assert torch.equal(flatten(load_task_model(tmp_path)(*ROWS)), flatten(ours(*ROWS)))


@torch.no_grad()
def test_the_mean_is_that_of_tokens_alone() -> None:
    ours = make_tuned("modern", "released", "classify", pooling="mean")
    input_ids, segment_ids, is_pad = ROWS
    row, length = 1, int((~is_pad[1]).sum())
    alone = ours(input_ids[row : row + 1, :length], segment_ids[row : row + 1, :length], None)
    assert torch.allclose(flatten(ours(*ROWS))[row], flatten(alone)[0], atol=1e-4)
