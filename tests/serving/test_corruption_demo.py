"""The game of pre-training on a text: what is hidden, drawn and judged fits together, and a seed repeats it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from little_tuned import TEXT, build_pair, little_tokenizer

from electralab.errors import InputError
from electralab.model.electra import Generator
from electralab.serving.corruption_demo import CorruptionDemo, PlayRequest
from electralab.serving.inputs import WindowConfig
from electralab.serving.mask_filler import MaskFiller
from electralab.stopping import StopSignal

TOKENIZER = little_tokenizer()


def make_game(batch_tokens: int = 1024) -> CorruptionDemo:
    pair = build_pair(TOKENIZER)
    assert isinstance(pair.generator, Generator)
    return CorruptionDemo(
        MaskFiller(pair.generator, TOKENIZER, WindowConfig(batch_tokens=batch_tokens)), pair.discriminator
    )


GAME = make_game()


@given(
    st.lists(st.sampled_from(TEXT.split()), min_size=1, max_size=60).map(" ".join),
    st.floats(0.05, 0.95),
    st.integers(-(2**63), 2**63 - 1),
)
@settings(max_examples=30)
def test_what_is_told_of_a_game_fits_together(text: str, share: float, seed: int) -> None:
    played = GAME.play(text, share, 1.0, seed)
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
    assert (played.corrupted == text) == (scores.replaced == 0)
    assert (scores.auc is None) == (scores.replaced in (0, len(played.tokens)))


def test_the_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    played = GAME.play(TEXT, 0.4, 1.0, 3)
    replaced = [token.p_replaced for token in played.tokens if token.is_replaced]
    original = [token.p_replaced for token in played.tokens if not token.is_replaced]
    right = [(one > other) + 0.5 * (one == other) for one in replaced for other in original]
    assert played.scores.auc == pytest.approx(sum(right) / len(right))


def test_a_seed_repeats_a_game_whatever_is_played_with_it_and_another_changes_it() -> None:
    asks = [
        PlayRequest(TEXT * 3, 0.2, 1.0, 5),
        PlayRequest("the cat sat on a mat", 0.3, 2.0, 5),
        PlayRequest(TEXT, 0.2, 1.0, 6),
    ]
    together = GAME.answer([GAME.parse(ask) for ask in asks])
    assert together == [GAME.play(ask.given, ask.mask_share, ask.temperature, ask.seed) for ask in asks]
    assert GAME.play(TEXT, 0.2, 1.0, 7) != together[2]


class Counting(StopSignal):
    """Counts how often it is looked at, and stops the third time."""

    looks = 0

    def check(self, *_: object) -> None:
        self.looks += 1
        if self.looks == 3:
            raise InterruptedError


def test_a_long_game_is_played_some_rows_at_a_time_and_can_be_left_between_them() -> None:
    few_rows, long = make_game(batch_tokens=1), f"{TEXT} " * 20
    whole, in_turns = GAME.play(long, 0.3, 1.0, 3), few_rows.play(long, 0.3, 1.0, 3)
    for one, other in zip(whole.tokens, in_turns.tokens, strict=True):
        assert (one.is_masked, one.drawn, one.is_replaced) == (other.is_masked, other.drawn, other.is_replaced)
        assert one.p_replaced == pytest.approx(other.p_replaced, abs=1e-5)
    assert whole.corrupted == in_turns.corrupted
    stop = Counting()
    with pytest.raises(InterruptedError):
        few_rows.answer([few_rows.parse(PlayRequest(long))], stop)
    assert stop.looks == 3


def test_the_corrupted_text_joins_pieces_as_they_are_written() -> None:
    reading = GAME.parse(PlayRequest("the cat sat")).text
    vocabulary = {TOKENIZER.token(index): index for index in range(TOKENIZER.vocab_size)}
    piece = next(name for name in vocabulary if name.startswith("##"))
    word = next(index for index, (start, _) in enumerate(reading.offsets) if start == 4)
    drawn, is_replaced = reading.ids.tolist(), [index == word for index in range(len(reading.ids))]
    drawn[word] = vocabulary[piece]
    end = reading.offsets[word][1]
    assert GAME._write(reading, drawn, is_replaced) == f"the{piece[2:]}{reading.text[end:]}"


def test_special_tokens_written_in_a_text_are_text_in_a_game() -> None:
    played = GAME.play("the [MASK] cat [PAD] sat", 0.5)
    assert all(token.text not in ("[MASK]", "[PAD]") or not token.is_masked for token in played.tokens)
    assert played.scores.masked > 0


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (PlayRequest(TEXT, 0.0), "mask_share: is a share between 0 and 1, got 0.0"),
        (PlayRequest(TEXT, 1.0), "mask_share: is a share between 0 and 1, got 1.0"),
        (PlayRequest(TEXT, 0.1, 0.0), "temperature: is a number above 0, got 0.0"),
        (PlayRequest(TEXT, 0.1, float("inf")), "temperature: is a number above 0, got inf"),
        (PlayRequest("日本"), "holds nothing that the model's vocabulary knows"),
    ],
)
def test_what_cannot_be_played_is_told(ask: PlayRequest, words: str) -> None:
    with pytest.raises(InputError, match=words):
        GAME.parse(ask)
