"""What the generator would write: blanks are hidden, guesses are readable, special tokens are none."""

import numpy as np
import pytest
import torch
from little_tuned import build_pair, little_tokenizer
from torch import Tensor

from electralab.errors import InputError
from electralab.model.electra import Generator
from electralab.serving.inputs import WindowConfig
from electralab.serving.mask_filler import FillRequest, MaskFiller
from electralab.tokens.tokenizer import Tokenizer

TEXT = "the cat sat on the mat and a dog saw who sat near the old log"


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


def test_guesses_are_the_softmax_over_ordinary_tokens() -> None:
    filler, tokenizer = make_filler()
    special = tokenizer.special
    (blank,) = filler.fill("the [MASK] sat", top=4).blanks
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
    (blank,) = filler.fill("[MASK]", top=10_000).blanks
    assert len(blank.guesses) == int(tokenizer.is_ordinary.sum())
    assert sum(guess.p for guess in blank.guesses) == pytest.approx(1.0, abs=1e-5)
    assert not any(guess.text.startswith("[") for guess in blank.guesses)


def test_a_span_is_hidden_whole_behind_one_mask_and_alone() -> None:
    filler, tokenizer = make_filler(Recording)
    found = filler.fill("the cat sat on a mat", at=[(4, 11), (1, 2)])
    assert [blank.text for blank in found.blanks] == ["cat sat", "the"]
    network = filler.generator
    assert isinstance(network, Recording)
    special, pad = tokenizer.special, tokenizer.special.pad
    rows = [[index for index in row if index != pad] for row in network.shown]
    hidden = [tokenizer.encode(text).ids.tolist() for text in ("the [MASK] on a mat", "[MASK] cat sat on a mat")]
    assert sorted(rows) == sorted([special.cls, *ids, special.sep] for ids in hidden)


def test_masks_of_a_text_that_fits_are_guessed_in_one_row() -> None:
    filler, _ = make_filler(Recording)
    found = filler.fill("the [MASK] sat on [MASK] mat")
    assert [(blank.start, blank.end) for blank in found.blanks] == [(4, 10), (18, 24)]
    assert isinstance(filler.generator, Recording)
    assert len(filler.generator.shown) == 1


def test_a_blank_far_inside_a_long_text_has_context_on_both_sides() -> None:
    filler, tokenizer = make_filler(Recording)
    filler.fill(f"{TEXT * 5} [MASK] {TEXT * 5}")
    assert isinstance(filler.generator, Recording)
    (row,) = filler.generator.shown
    assert len(row) == filler.generator.config.sequence_length
    assert abs(row.index(tokenizer.special.mask) - len(row) // 2) <= 1


def test_many_are_answered_as_one_by_one() -> None:
    filler, _ = make_filler()
    asks = [
        FillRequest("the [MASK] sat"),
        FillRequest(TEXT * 4, [(70, 80), (0, 3)], 2),
        FillRequest("[MASK] [MASK]", None, 1),
    ]
    together = filler.answer([filler.parse(ask) for ask in asks])
    for ask, found in zip(asks, together, strict=True):
        alone = filler.answer([filler.parse(ask)])[0]
        assert [blank.text for blank in found.blanks] == [blank.text for blank in alone.blanks]
        for one, other in zip(found.blanks, alone.blanks, strict=True):
            assert [guess.p for guess in one.guesses] == pytest.approx([guess.p for guess in other.guesses], abs=1e-6)


def test_no_more_is_kept_of_a_blank_than_its_guesses() -> None:
    whole, _ = make_filler()
    filler = MaskFiller(whole.generator, whole.tokenizer, WindowConfig(batch_tokens=1))
    question = filler.parse(FillRequest("the cat sat on a mat", [(0, 3), (4, 7), (8, 11)]))
    sizes = [(list(places), tuple(logits.shape)) for places, logits in filler.logits([question])]
    # One row at a time, each gone before the next is asked for.
    assert sorted(place for places, _ in sizes for place in places) == [(0, 0), (0, 1), (0, 2)]
    assert {shape for _, shape in sizes} == {(1, filler.generator.config.vocab_size)}


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (FillRequest("the cat"), r"has no \[MASK\], so there is nothing to fill"),
        (FillRequest("the cat", [(3, 4)]), "at 0: no token stands between characters 3 and 4 of the text's 7"),
        (FillRequest("the cat", [(0, 3), (90, 99)]), "at 1: no token"),
        (FillRequest("the cat", [(2, 1)]), "at 0: no token"),
        (FillRequest("the [MASK]", None, 0), "top: is how many guesses to give, at least 1, got 0"),
        (FillRequest("日本"), "holds nothing that the model's vocabulary knows"),
    ],
)
def test_what_cannot_be_filled_is_told(ask: FillRequest, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make_filler()[0].parse(ask)
