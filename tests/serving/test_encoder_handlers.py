"""Windows cover a text once, agree with the whole where it fits, and spans are slices of the text."""

import re
from collections import Counter
from html import unescape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from little_tuned import TEXT as WORDS
from little_tuned import build_pair, little_tokenizer
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Discriminator
from electralab.model.folders.folder import save_network
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import Pooling, pool_states
from electralab.model.weights import init_weights
from electralab.records.answers import Detection, HeldoutScores, TokenScore
from electralab.serving.encoder_handlers import Detector, Embedder, Vector, Window, cut_windows
from electralab.serving.inputs import TextInput, WindowConfig
from electralab.serving.model import Model
from electralab.stopping import NO_STOP
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab, train_tokenizer

TEXT = "the cat sat on the mat and the dog sat on the log. Ünïcode \U0001f600 too!"
TOKENIZER = train_tokenizer([TEXT], TokenizerConfig(vocab_size=80))
SYMBOLS = train_symbol_vocab(Counter({"open": 3, "read": 2, "7": 1}), TokenizerConfig())


@given(st.integers(0, 300), st.integers(1, 64), st.floats(0, 0.99))
def test_windows_judge_each_token_once_and_fit_the_model(count: int, size: int, overlap: float) -> None:
    windows = cut_windows(count, size, overlap)
    judged = [place for window in windows for place in range(window.keep_from, window.keep_to)]
    assert judged == list(range(count))
    for window in windows:
        assert 0 <= window.start <= window.keep_from <= window.keep_to <= window.end <= count
        assert window.end - window.start <= size


@given(st.integers(65, 300), st.floats(0, 0.9))
def test_a_token_inside_is_judged_with_context_on_both_sides(count: int, overlap: float) -> None:
    """Each border lies in the middle of what two windows share."""
    windows = cut_windows(count, 64, overlap)
    for left, right in pairwise(windows):
        before, after = right.keep_from - right.start, left.end - left.keep_to
        assert abs(before - after) <= 1


def test_a_text_that_fits_is_one_window() -> None:
    assert cut_windows(5, 8, 0.5) == [Window(0, 5, 0, 5)]
    assert cut_windows(0, 8, 0.5) == [Window(0, 0, 0, 0)]


def test_the_last_window_is_full() -> None:
    assert cut_windows(10, 4, 0.5) == [Window(0, 4, 0, 3), Window(2, 6, 3, 5), Window(4, 8, 5, 7), Window(6, 10, 7, 10)]


class Suspicious(Discriminator):
    """Judges a token by its id alone, so that windows cannot change its mind; special tokens it never suspects."""

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, trace: object = None) -> Tensor:
        assert input_ids.shape[1] <= self.config.sequence_length
        assert trace is None
        assert segment_ids.shape == input_ids.shape
        assert is_pad is None or is_pad.any()
        return torch.where(input_ids < 5, -torch.inf, input_ids / 10.0)


def make_config(vocab_size: int, sequence_length: int) -> EncoderConfig:
    sizes = dict.fromkeys(("embedding_size", "hidden_size", "feedforward_size"), 4) | {"num_heads": 1}
    changes = {"vocab_size": vocab_size, "sequence_length": sequence_length, "init_std": 0.02, **sizes}
    return build_pair(TOKENIZER).discriminator.config.model_copy(update=changes)


def make_detector(sequence_length: int = 16, **settings: float) -> Detector:
    model = Suspicious(make_config(TOKENIZER.vocab_size, sequence_length))
    return Detector(model, TOKENIZER, WindowConfig.model_validate(settings))


def detect(detector: Detector, given: TextInput) -> Detection:
    return detector.detect_many([given])[0]


def test_spans_are_exact_slices_of_the_text() -> None:
    found = detect(make_detector(), TEXT)
    assert "".join(token.text for token in found.tokens) == "".join(TEXT.split())
    for token in found.tokens:
        assert token.text == TEXT[token.start : token.end]
        assert token.p_original == 1 - token.p_replaced
    starts = [token.start for token in found.tokens]
    assert starts == sorted(starts)


@pytest.mark.parametrize("batch_tokens", [1, 30, 4096])
def test_windows_of_a_long_text_agree_with_one_window(batch_tokens: int) -> None:
    text = " ".join([TEXT] * 4)
    whole = detect(make_detector(sequence_length=512), text)
    cut = detect(make_detector(sequence_length=12, batch_tokens=batch_tokens), text)
    assert len(whole.tokens) > 60
    assert cut == whole


def test_a_real_network_gives_the_same_verdicts_in_any_batch_of_windows() -> None:
    """Windows of different lengths are padded; the padding must not be seen."""
    model = Discriminator(make_config(TOKENIZER.vocab_size, 16))
    init_weights(model, seed=0)
    detector = Detector(model, TOKENIZER, WindowConfig())
    ids = TOKENIZER.encode(TEXT).ids
    parts = [ids[:14], ids[3:8], ids[5:6]]
    together = {output.text: output for output in detector.run(parts, NO_STOP)}
    for index, part in enumerate(parts):
        (alone,) = detector.run([part], NO_STOP)
        scores = together[index].output[together[index].window.columns]
        assert torch.allclose(scores, alone.output[alone.window.columns], atol=1e-6)
    assert np.ptp(together[0].output.numpy()) > 1e-7


@pytest.mark.parametrize("sequence_length", [8, 64])
def test_frame_tokens_typed_in_a_text_are_seen_but_not_judged(sequence_length: int) -> None:
    text = "the [SEP] cat [PAD] sat [UNK] on [CLS] the [MASK] mat"
    found = detect(make_detector(sequence_length), text)
    kept = [token.text for token in found.tokens if token.text.startswith("[")]
    assert kept == ["[UNK]", "[MASK]"]
    rest = text.replace("[SEP]", "").replace("[PAD]", "").replace("[CLS]", "")
    assert "".join(token.text for token in found.tokens) == "".join(rest.split())
    assert all(token.text == text[token.start : token.end] for token in found.tokens)


class Remembering(Suspicious):
    seen: list[tuple[Tensor, Tensor | None]]

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, trace: object = None) -> Tensor:
        self.seen = [*getattr(self, "seen", []), (input_ids, is_pad)]
        return super().forward(input_ids, segment_ids, is_pad, trace)


def test_a_typed_pad_is_not_padding() -> None:
    model = Remembering(make_config(TOKENIZER.vocab_size, 16))
    detector = Detector(model, TOKENIZER, WindowConfig())
    detect(detector, "the [PAD] [PAD] mat")
    pad = TOKENIZER.special.pad
    list(detector.run([np.array([9, pad, 8]), np.array([7])], NO_STOP))
    (_, alone), (rows, together) = model.seen
    assert alone is None
    assert together is not None
    assert rows[0, 2] == pad
    assert together.tolist() == [[False] * 5, [False, False, False, True, True]]


def test_energies_are_no_chances(tmp_path: Path) -> None:
    network = Discriminator(make_config(TOKENIZER.vocab_size, 16))
    TOKENIZER.save(tmp_path)
    save_network(tmp_path, network, pad_id=TOKENIZER.special.pad, objective="electra")
    assert Model(tmp_path).detector
    save_network(tmp_path, network, pad_id=TOKENIZER.special.pad, objective="electric")
    with pytest.raises(
        InputError,
        match=r"says energies, which cannot detect; it can embed; compare .*blimp",
    ):
        Model(tmp_path).detect(TEXT)


def test_an_empty_text_has_no_tokens() -> None:
    assert detect(make_detector(), "").tokens == ()
    assert detect(make_detector(), " \n ").tokens == ()


def test_symbols_are_judged_one_by_one() -> None:
    detector = Detector(Suspicious(make_config(SYMBOLS.vocab_size, 16)), SYMBOLS, WindowConfig())
    found = detect(detector, ["open", 7, "never seen", "read"])
    assert found.text == "open 7 never seen read"
    assert [token.text for token in found.tokens] == ["open", "7", "never seen", "read"]
    assert all(found.text[token.start : token.end] == token.text for token in found.tokens)
    assert detect(detector, '["open", 7, "never seen", "read"]') == found
    assert [token.unknown for token in found.tokens] == [False, False, True, False]
    with pytest.raises(
        InputError, match="a model of symbols takes a JSON list of strings or integers, got 'open read'"
    ):
        detect(detector, "open read")


class Calm(Discriminator):
    """Judges a token by its id alone, and never passes the threshold: the chance of the last id is a third."""

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, trace: object = None) -> Tensor:
        assert segment_ids.shape == input_ids.shape
        assert is_pad is None or trace is None
        return torch.logit(input_ids.double() / (3 * self.config.vocab_size)).float()


def calm_detector(heldout: HeldoutScores | None = None) -> Detector:
    return Detector(Calm(make_config(TOKENIZER.vocab_size, 64)), TOKENIZER, WindowConfig(), heldout)


def test_where_no_token_passes_the_most_suspicious_words_of_the_text_are_named() -> None:
    found = detect(calm_detector(), TEXT)
    assert max(token.p_replaced for token in found.tokens) < 0.5
    assert found.is_relative
    # Three of fewer than twenty words, the most suspicious first, each by its most suspicious token.
    chances = [found.tokens[place].p_replaced for place in found.suspicious]
    assert len(chances) == 3
    assert chances == sorted(chances, reverse=True)
    words = [token for token in found.tokens if any(map(str.isalnum, token.text))]
    assert chances[0] == max(token.p_replaced for token in words)
    assert all(any(map(str.isalnum, found.tokens[place].text)) for place in found.suspicious)


def test_of_a_long_text_at_most_five_words_are_named() -> None:
    assert len(detect(calm_detector(), " ".join([TEXT] * 10)).suspicious) == 5


@pytest.mark.parametrize("text", ["", "cat", "cat cat cat cat", "!!! ..."])
def test_where_nothing_stands_out_nothing_is_named(text: str) -> None:
    found = detect(calm_detector(), text)
    assert (found.suspicious, found.is_relative) == ((), False)


def test_where_some_pass_exactly_these_are_named() -> None:
    found = detect(make_detector(), TEXT)
    passing = {place for place, token in enumerate(found.tokens) if token.p_replaced > 0.5}
    assert passing
    assert set(found.suspicious) == passing
    assert not found.is_relative
    chances = [found.tokens[place].p_replaced for place in found.suspicious]
    assert chances == sorted(chances, reverse=True)


def test_an_unknown_symbol_is_suspicious_before_all_others_whatever_the_network_thinks() -> None:
    for network in (Suspicious, Calm):
        detector = Detector(network(make_config(SYMBOLS.vocab_size, 16)), SYMBOLS, WindowConfig())
        found = detect(detector, ["open", "never seen", "read", "nor this"])
        assert [token.unknown for token in found.tokens] == [False, True, False, True]
        assert set(found.suspicious[:2]) == {1, 3}
        assert not found.is_relative
        # What the network said is reported as it is.
        assert all(found.tokens[place].p_replaced <= 0.5 for place in (1, 3))
        # The server answers about events of which it knows none.
        (strange,) = detector.answer([detector.parse('["never seen", "nor this"]')])
        assert set(strange.suspicious) == {0, 1}


def test_a_text_without_a_known_token_is_scored_and_warned_of_in_python_as_over_http() -> None:
    """One parse for all: what the tokenizer makes of the text is answered, and what it is worth is said."""
    found = detect(make_detector(), "漢字")
    assert [token.unknown for token in found.tokens] == [True, True]
    assert found.warning == "the text holds nothing that the model's vocabulary knows; give text of its language"
    assert detect(make_detector(), "").warning is None


def test_an_unknown_word_of_a_text_is_marked_and_judged_like_any() -> None:
    found = detect(make_detector(), "the cat 漢 sat")
    assert [token.text for token in found.tokens if token.unknown] == ["漢"]
    unknown = next(place for place, token in enumerate(found.tokens) if token.unknown)
    assert unknown not in found.suspicious


@pytest.mark.parametrize(
    ("heldout", "is_weak", "words"),
    [
        (
            HeldoutScores(auc=0.60, recall=0.0, precision=0.0),
            True,
            "too weak to use: on held-out text its AUC is 0.60, and guessing has 0.50",
        ),
        (
            HeldoutScores(auc=0.71, recall=0.076, precision=0.64),
            False,
            "only 8% of the replaced tokens pass 0.5 (AUC 0.71)",
        ),
        (HeldoutScores(auc=0.93, recall=0.6, precision=0.8), False, None),
        (None, False, None),
    ],
)
def test_a_model_says_how_far_it_can_be_trusted(
    heldout: HeldoutScores | None, is_weak: bool, words: str | None
) -> None:
    found = detect(calm_detector(heldout), TEXT)
    assert heldout is None or heldout.is_weak == is_weak
    if words is None:
        assert found.warning is None
    else:
        assert found.warning is not None
        assert words in found.warning
        assert found.warning in unescape(found._repr_html_())


def test_a_model_of_text_takes_no_list() -> None:
    with pytest.raises(InputError, match="a model of text takes a string, got a list; give the text itself"):
        detect(make_detector(), ["the", "cat"])


def make_network(sequence_length: int) -> Detector:
    model = Discriminator(make_config(TOKENIZER.vocab_size, sequence_length))
    init_weights(model, seed=0)
    return Detector(model, TOKENIZER, WindowConfig(batch_tokens=64))


@given(st.lists(st.sampled_from(["", "the cat", TEXT, TEXT * 3, "[PAD] sat [MASK]", "log " * 40]), max_size=6))
@settings(max_examples=25)
def test_many_texts_are_judged_as_one_by_one(texts: list[str]) -> None:
    detector = make_network(sequence_length=16)
    together, alone = detector.detect_many(texts), [detect(detector, text) for text in texts]
    assert [found.text for found in together] == texts
    for one, other in zip(together, alone, strict=True):
        assert [token.text for token in one.tokens] == [token.text for token in other.tokens]
        chances = [token.p_replaced for token in one.tokens]
        assert chances == pytest.approx([token.p_replaced for token in other.tokens], abs=1e-6)


def test_a_notebook_shows_the_text_itself_shaded_and_escaped() -> None:
    tokens = (
        TokenScore(text="<b>", start=2, end=5, p_replaced=1.0, p_original=0.0),
        TokenScore(text="&", start=6, end=7, p_replaced=0.0, p_original=1.0),
    )
    html = Detection(text='a <b> & "c"\n', tokens=tokens)._repr_html_()
    assert "<b>" not in html
    assert 'title="p_replaced 1.000">&lt;b&gt;</span> <span' in html
    assert html.count("rgba(230, 60, 40, 0.750)") == html.count("rgba(230, 60, 40, 0.000)") == 1
    assert unescape(re.sub("<[^>]+>", "", html)) == 'a <b> & "c"\n'


# A text's vector

LITTLE = little_tokenizer()
LONG = " ".join([WORDS] * 5)


def make_embedder() -> Embedder:
    return Embedder(build_pair(LITTLE).discriminator.encoder, LITTLE, WindowConfig())


def embed(embedder: Embedder, text: str, pooling: Pooling = "mean") -> Vector:
    return embedder.answer([embedder.parse(text, pooling)])[0]


def states_of(embedder: Embedder, ids: list[int]) -> torch.Tensor:
    row = torch.tensor([[LITTLE.special.cls, *ids, LITTLE.special.sep]])
    with torch.no_grad():
        states: torch.Tensor = embedder.network(row, torch.zeros_like(row), None)
    return states


@pytest.mark.parametrize("pooling", ["mean", "first", "last"])
def test_a_text_that_fits_is_pooled_as_anywhere_else(pooling: Pooling) -> None:
    embedder = make_embedder()
    states = states_of(embedder, LITTLE.encode("the cat sat").ids.tolist())
    expected = pool_states(states, torch.zeros(states.shape[:2], dtype=torch.bool), pooling)[0].numpy()
    assert np.allclose(embed(embedder, "the cat sat", pooling), expected, atol=1e-6)


def test_every_token_of_a_long_text_counts_once_where_it_has_context() -> None:
    embedder = make_embedder()
    ids = LITTLE.encode(LONG).ids
    size = embedder.network.config.sequence_length - 2
    assert len(ids) > 3 * size
    kept = []
    for window in cut_windows(len(ids), size, 0.5):
        states = states_of(embedder, ids[window.start : window.end].tolist())[0, 1:-1].numpy()
        kept.append(states[window.keep_from - window.start : window.keep_to - window.start])
    assert np.allclose(embed(embedder, LONG), np.concatenate(kept).mean(axis=0), atol=1e-5)


def test_the_ends_of_a_long_text_are_its_first_and_last_window() -> None:
    embedder = make_embedder()
    ids, size = LITTLE.encode(LONG).ids, embedder.network.config.sequence_length - 2
    first, last = states_of(embedder, ids[:size].tolist())[0, 0], states_of(embedder, ids[-size:].tolist())[0, -1]
    assert np.allclose(embed(embedder, LONG, "first"), first.numpy(), atol=1e-6)
    assert np.allclose(embed(embedder, LONG, "last"), last.numpy(), atol=1e-6)


def test_many_are_answered_as_one_by_one_and_an_empty_one_has_a_vector() -> None:
    embedder = make_embedder()
    texts: dict[str, Pooling] = {"the cat": "mean", WORDS * 6: "last", "a dog sat": "first", WORDS * 3: "mean"}
    together = embedder.answer([embedder.parse(*parts) for parts in texts.items()])
    for parts, vector in zip(texts.items(), together, strict=True):
        assert np.allclose(vector, embed(embedder, *parts), atol=1e-6)
    assert np.abs(embed(embedder, "")).max() > 0
