"""What the generator would write: blanks are hidden, guesses are readable, special tokens are none."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from little_tuned import TEXT, build_pair, little_tokenizer
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Generator
from electralab.records.answers import FillResult, PlayResult
from electralab.serving.generator_handlers import CorruptionDemo, MaskFiller
from electralab.serving.inputs import WindowConfig
from electralab.stopping import StopSignal
from electralab.tokens.tokenizer import Tokenizer


class Recording(Generator):
    """Notes the rows that it is shown."""

    shown: list[list[int]]

    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, positions: Tensor, trace: object = None
    ) -> Tensor:
        assert trace is None
        self.shown = [*getattr(self, "shown", []), *input_ids.tolist()]
        return super().forward(input_ids, segment_ids, is_pad, positions)


def make_filler(kind: type[Generator] = Generator) -> tuple[MaskFiller, Tokenizer]:
    tokenizer = little_tokenizer()
    generator = build_pair(tokenizer).generator
    assert isinstance(generator, Generator)
    network = kind(generator.config)
    network.load_state_dict(generator.state_dict())
    return MaskFiller(network, tokenizer, WindowConfig()), tokenizer


def fill(filler: MaskFiller, text: str, **options: Any) -> FillResult:
    return filler.answer([filler.parse(text, **options)])[0]


def test_guesses_are_the_softmax_over_ordinary_tokens() -> None:
    filler, tokenizer = make_filler()
    special = tokenizer.special
    (blank,) = fill(filler, "the [MASK] sat", top=4).blanks
    ids = [special.cls, *tokenizer.encode("the [MASK] sat").ids.tolist(), special.sep]
    place = ids.index(special.mask)
    row = torch.tensor([ids])
    with torch.no_grad():
        logits = filler.generator(row, torch.zeros_like(row), None, torch.tensor([place]))[0].double().numpy()
    chances = np.where(tokenizer.is_ordinary, np.exp(logits), 0.0)
    chances /= chances.sum()
    best = np.argsort(-chances)[:4]
    assert [guess.p for guess in blank.guesses] == pytest.approx(chances[best].tolist(), abs=1e-6)
    assert [guess.text for guess in blank.guesses] == [tokenizer.token(i).removeprefix("##") for i in best]
    assert [guess.continues_word for guess in blank.guesses] == [tokenizer.token(i).startswith("##") for i in best]
    assert (blank.start, blank.end, blank.text) == (4, 10, "[MASK]")


def test_no_special_token_is_ever_proposed() -> None:
    filler, tokenizer = make_filler()
    (blank,) = fill(filler, "[MASK]", top=10_000).blanks
    assert len(blank.guesses) == int(tokenizer.is_ordinary.sum())
    assert sum(guess.p for guess in blank.guesses) == pytest.approx(1.0, abs=1e-5)
    assert not any(guess.text.startswith("[") for guess in blank.guesses)


def test_a_span_is_hidden_whole_behind_one_mask_and_alone() -> None:
    filler, tokenizer = make_filler(Recording)
    found = fill(filler, "the cat sat on a mat", at=[(4, 11), (1, 2)])
    assert [blank.text for blank in found.blanks] == ["cat sat", "the"]
    network = filler.generator
    assert isinstance(network, Recording)
    special, pad = tokenizer.special, tokenizer.special.pad
    rows = [[index for index in row if index != pad] for row in network.shown]
    hidden = [tokenizer.encode(text).ids.tolist() for text in ("the [MASK] on a mat", "[MASK] cat sat on a mat")]
    assert sorted(rows) == sorted([special.cls, *ids, special.sep] for ids in hidden)


def test_masks_of_a_text_that_fits_are_guessed_in_one_row() -> None:
    filler, _ = make_filler(Recording)
    found = fill(filler, "the [MASK] sat on [MASK] mat")
    assert [(blank.start, blank.end) for blank in found.blanks] == [(4, 10), (18, 24)]
    assert isinstance(filler.generator, Recording)
    assert len(filler.generator.shown) == 1


def test_a_blank_far_inside_a_long_text_has_context_on_both_sides() -> None:
    filler, tokenizer = make_filler(Recording)
    fill(filler, f"{TEXT * 5} [MASK] {TEXT * 5}")
    assert isinstance(filler.generator, Recording)
    (row,) = filler.generator.shown
    assert len(row) == filler.generator.config.sequence_length
    assert abs(row.index(tokenizer.special.mask) - len(row) // 2) <= 1


def test_many_are_answered_as_one_by_one() -> None:
    filler, _ = make_filler()
    asks: list[Any] = [("the [MASK] sat",), (TEXT * 4, [(70, 80), (0, 3)], 2), ("[MASK] [MASK]", None, 1)]
    together = filler.answer([filler.parse(*ask) for ask in asks])
    for ask, found in zip(asks, together, strict=True):
        (alone,) = filler.answer([filler.parse(*ask)])
        assert [blank.text for blank in found.blanks] == [blank.text for blank in alone.blanks]
        for one, other in zip(found.blanks, alone.blanks, strict=True):
            assert [guess.p for guess in one.guesses] == pytest.approx([guess.p for guess in other.guesses], abs=1e-6)


def test_no_more_is_kept_of_a_blank_than_its_guesses() -> None:
    whole, _ = make_filler()
    filler = MaskFiller(whole.generator, whole.tokenizer, WindowConfig(batch_tokens=1))
    question = filler.parse("the cat sat on a mat", [(0, 3), (4, 7), (8, 11)])
    sizes = [(list(places), tuple(probs.shape)) for places, probs in filler.probs([question])]
    # One row at a time, each gone before the next is asked for.
    assert sorted(place for places, _ in sizes for place in places) == [(0, 0), (0, 1), (0, 2)]
    assert {shape for _, shape in sizes} == {(1, filler.generator.config.vocab_size)}


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (("the cat",), r"has no \[MASK\], so there is nothing to fill"),
        (("the cat", [(3, 4)]), "at 0: no token stands between characters 3 and 4 of the text's 7"),
        (("the cat", [(0, 3), (90, 99)]), "at 1: no token"),
        (("the cat", [(2, 1)]), "at 0: no token"),
        (("the [MASK]", None, 0), "top: is how many guesses to give, at least 1, got 0"),
        (("日本",), "holds nothing that the model's vocabulary knows"),
    ],
)
def test_what_cannot_be_filled_is_told(ask: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_filler()[0].parse(*ask)


# The game of pre-training on a text

TOKENIZER = little_tokenizer()


def make_game(batch_tokens: int = 1024) -> CorruptionDemo:
    pair = build_pair(TOKENIZER)
    assert isinstance(pair.generator, Generator)
    return CorruptionDemo(
        MaskFiller(pair.generator, TOKENIZER, WindowConfig(batch_tokens=batch_tokens)), pair.discriminator
    )


GAME = make_game()


def play(demo: CorruptionDemo, *given: Any) -> PlayResult:
    return demo.answer([demo.parse(*given)])[0]


@given(
    st.lists(st.sampled_from(TEXT.split()), min_size=1, max_size=60).map(" ".join),
    st.floats(0.05, 0.95),
    st.integers(-(2**63), 2**63 - 1),
)
@settings(max_examples=30)
def test_what_is_told_of_a_game_fits_together(text: str, share: float, seed: int) -> None:
    played = play(GAME, text, share, 1.0, seed)
    masked = [token for token in played.tokens if token.is_masked]
    scores = played.scores
    assert "".join(token.text for token in played.tokens) == text.replace(" ", "")
    assert len(masked) == scores.masked > 0
    assert scores.replaced + scores.restored == scores.masked
    assert scores.replaced == sum(token.is_replaced for token in played.tokens)
    for token in played.tokens:
        assert (token.drawn is not None) == (len(token.guesses) == 3) == token.is_masked
        assert token.is_masked or not token.is_replaced
        assert not token.is_masked or token.is_replaced or token.drawn == token.text
    suspected = [token.is_replaced for token in played.tokens if token.p_replaced > 0.5]
    assert (scores.found, scores.false_alarms) == (sum(suspected), len(suspected) - sum(suspected))
    # A piece of a word that stands at the beginning is written like the word itself.
    is_changed = any(token.is_replaced and token.drawn != token.text for token in played.tokens)
    assert (played.corrupted != text) == is_changed
    assert (scores.auc is None) == (scores.replaced in (0, len(played.tokens)))


def test_the_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    played = play(GAME, TEXT, 0.4, 1.0, 3)
    replaced = [token.p_replaced for token in played.tokens if token.is_replaced]
    original = [token.p_replaced for token in played.tokens if not token.is_replaced]
    right = [(one > other) + 0.5 * (one == other) for one in replaced for other in original]
    assert played.scores.auc == pytest.approx(sum(right) / len(right))


def test_a_seed_repeats_a_game_whatever_is_played_with_it_and_another_changes_it() -> None:
    asks = [(TEXT * 3, 0.2, 1.0, 5), ("the cat sat on a mat", 0.3, 2.0, 5), (TEXT, 0.2, 1.0, 6)]
    together = GAME.answer([GAME.parse(*ask) for ask in asks])
    assert together == [play(GAME, *ask) for ask in asks]
    assert play(GAME, TEXT, 0.2, 1.0, 7) != together[2]


class Counting(StopSignal):
    """Counts how often it is looked at, and stops the third time."""

    looks = 0

    def check(self, *_: object) -> None:
        self.looks += 1
        if self.looks == 3:
            raise InterruptedError


def test_a_long_game_is_played_some_rows_at_a_time_and_can_be_left_between_them() -> None:
    few_rows, long = make_game(batch_tokens=1), f"{TEXT} " * 20
    whole, in_turns = play(GAME, long, 0.3, 1.0, 3), play(few_rows, long, 0.3, 1.0, 3)
    for one, other in zip(whole.tokens, in_turns.tokens, strict=True):
        assert (one.is_masked, one.drawn, one.is_replaced) == (other.is_masked, other.drawn, other.is_replaced)
        assert one.p_replaced == pytest.approx(other.p_replaced, abs=1e-5)
    assert whole.corrupted == in_turns.corrupted
    stop = Counting()
    with pytest.raises(InterruptedError):
        few_rows.answer([few_rows.parse(long)], stop)
    assert stop.looks == 3


def test_the_corrupted_text_joins_pieces_as_they_are_written() -> None:
    reading = GAME.parse("the cat sat").text
    vocabulary = {TOKENIZER.token(index): index for index in range(TOKENIZER.vocab_size)}
    piece = next(name for name in vocabulary if name.startswith("##"))
    word = next(index for index, (start, _) in enumerate(reading.offsets) if start == 4)
    drawn, is_replaced = reading.ids.tolist(), [index == word for index in range(len(reading.ids))]
    drawn[word] = vocabulary[piece]
    end = reading.offsets[word][1]
    assert GAME._write(reading, drawn, is_replaced) == f"the{piece[2:]}{reading.text[end:]}"


def test_special_tokens_written_in_a_text_are_text_in_a_game() -> None:
    played = play(GAME, "the [MASK] cat [PAD] sat", 0.5)
    assert all(token.text not in ("[MASK]", "[PAD]") or not token.is_masked for token in played.tokens)
    assert played.scores.masked > 0


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        ((TEXT, 0.0), "mask_share: is a share between 0 and 1, got 0.0"),
        ((TEXT, 1.0), "mask_share: is a share between 0 and 1, got 1.0"),
        ((TEXT, 0.1, 0.0), "temperature: is a number above 0, got 0.0"),
        ((TEXT, 0.1, float("inf")), "temperature: is a number above 0, got inf"),
        (("日本",), "holds nothing that the model's vocabulary knows"),
    ],
)
def test_what_cannot_be_played_is_told(ask: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        GAME.parse(*ask)
