"""Words are judged as wholes, suggestions weigh context against spelling, and what was planted is counted rightly."""

import itertools
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from little_tuned import TEXT, build_pair, little_tokenizer, save_pretrained

import electralab
from electralab.detection.lexicon import Lexicon, edit_distances
from electralab.records.answers import Detection, Proof, Suggestion, TokenScore, Word, WordFinding
from electralab.serving.encoder_handlers import Detector
from electralab.serving.generator_handlers import MaskFiller
from electralab.serving.inputs import WindowConfig
from electralab.serving.proofreader import (
    ProofreadConfig,
    Proofreader,
    group_words,
    render_proofs,
)

TOKENIZER = little_tokenizer()
LEXICON = Lexicon(TOKENIZER)


@cache
def slow_distance(one: str, other: str) -> int:
    """By the definition: what the last step may have been."""
    if not one or not other:
        return len(one) + len(other)
    steps = [
        slow_distance(one[:-1], other) + 1,
        slow_distance(one, other[:-1]) + 1,
        slow_distance(one[:-1], other[:-1]) + (one[-1] != other[-1]),
    ]
    if len(one) > 1 and len(other) > 1 and one[-2:] == other[-1] + other[-2]:
        steps.append(slow_distance(one[:-2], other[:-2]) + 1)
    return min(steps)


def letters_of(words: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.uint32]]:
    width = max(map(len, words))
    return np.array([[ord(letter) for letter in word.ljust(width, "\0")] for word in words], dtype=np.uint32)


@given(word=st.text("abc", max_size=6), others=st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=8))
def test_distances_are_those_of_the_definition(word: str, others: list[str]) -> None:
    words = letters_of([word] * len(others))
    assert edit_distances(words, letters_of(others)).tolist() == [slow_distance(word, other) for other in others]


def proofreader_of(**settings: float) -> Proofreader:
    config, pair = ProofreadConfig.model_validate(settings), build_pair(TOKENIZER)
    detector = Detector(pair.discriminator, TOKENIZER, WindowConfig())
    return Proofreader(detector, MaskFiller(pair.generator, TOKENIZER, WindowConfig()), config)  # type: ignore[arg-type]


def chances_of(**words: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    chances = np.full(TOKENIZER.vocab_size, 1e-9)
    for word, chance in words.items():
        chances[next(index for index, known in LEXICON.words.items() if known == word)] = chance
    return chances


def test_suggestion_weighs_the_context_against_the_spelling() -> None:
    # Three letters away, "the" would have to be expected e^6 times as much as "cat", which is one letter away.
    near = LEXICON.suggest("caat", chances_of(cat=0.01, the=0.5), 1)
    far = LEXICON.suggest("caat", chances_of(cat=1e-6, the=0.5), 1)
    assert [one.text for one in (*near, *far)] == ["cat", "the"]
    assert near[0].p == pytest.approx(0.01)


def test_suggestion_is_never_what_was_written_and_keeps_its_case() -> None:
    chances = chances_of(cat=0.9, sat=0.05, mat=0.01)
    assert [one.text for one in LEXICON.suggest("Cat", chances, 2)] == ["Sat", "Mat"]
    assert [one.text for one in LEXICON.suggest("CAT", chances, 1)] == ["SAT"]


def test_pieces_of_a_word_are_one_word_as_suspicious_as_the_worst() -> None:
    text = "the oldog, sat"
    offsets = TOKENIZER.encode(text).offsets
    chances = np.linspace(0.1, 0.9, len(offsets))
    tokens = tuple(
        TokenScore(text=text[a:b], start=a, end=b, p_replaced=float(p), p_original=1 - float(p))
        for (a, b), p in zip(offsets, chances, strict=True)
    )
    words = group_words(Detection(text=text, tokens=tokens), TOKENIZER)
    assert [word.text for word in words] == ["the", "oldog", ",", "sat"]
    of_word = [token.p_replaced for token in tokens if 4 <= token.start < 9]
    assert len(of_word) > 1
    assert words[1].suspicion == max(of_word)


def test_findings_say_where_they_are() -> None:
    text = f"{TEXT}\n{TEXT}"
    proof = proofreader_of(threshold=0.0, limit=0, context=4, suggestions=2).proofread(text, "a.txt")
    assert [finding.word.text for finding in proof.findings] == TEXT.split() * 2
    assert proof.words == 2 * len(TEXT.split())
    second = proof.findings[len(TEXT.split()) + 1]
    assert (second.line, second.column, second.before, second.word.text, second.after) == (2, 5, "the ", "cat", " sat")
    assert all(len(finding.suggestions) == 2 for finding in proof.findings)


def test_only_the_most_suspicious_are_named_in_the_order_of_the_text() -> None:
    every = proofreader_of(threshold=0.0, limit=0).proofread(TEXT).findings
    few = proofreader_of(threshold=0.0, limit=3).proofread(TEXT).findings
    worst = sorted((finding.word for finding in every), key=lambda word: -word.suspicion)[:3]
    assert [finding.word for finding in few] == sorted(worst, key=lambda word: word.start)


def test_page_shows_the_text_as_it_is_written() -> None:
    text = "a <b> & cat"
    word, meant = Word(text="cat", start=8, end=11, suspicion=0.75), Suggestion(text="<sat>", p=0.5)
    finding = WordFinding(word=word, line=1, column=9, before="", after="", suggestions=(meant,))
    page = render_proofs([Proof(source="x<y>.txt", text=text, words=3, findings=(finding,))])
    assert "a &lt;b&gt; &amp; <mark" in page
    assert "&lt;sat&gt;" in page
    assert "x&lt;y&gt;.txt" in page
    assert "1 of 3 words" in page
    assert not re.search(r"https?://", page)


def test_where_no_word_passes_a_few_of_the_text_are_named_apart() -> None:
    proof = proofreader_of(threshold=1.0).proofread(TEXT)
    assert proof.findings == ()
    words = proofreader_of().score_words(TEXT)
    worst = sorted((word.suspicion for word in words), reverse=True)[: len(proof.most_suspicious)]
    assert len(worst) == 3
    named = [finding.word for finding in proof.most_suspicious]
    assert sorted((word.suspicion for word in named), reverse=True) == worst
    assert [word.start for word in named] == sorted(word.start for word in named)
    page = render_proofs([proof], "this model is too weak to use")
    assert page.count('<mark class="relative"') == 3
    assert f"none of {proof.words} words passes the threshold; marked with dots: the 3 most suspicious" in page
    assert '<p class="warning">This model is too weak to use.</p>' in page
    assert len(proofreader_of(threshold=1.0, limit=1).proofread(TEXT).most_suspicious) == 1
    assert proofreader_of(threshold=0.0).proofread(TEXT).most_suspicious == ()
    assert proofreader_of(threshold=1.0).proofread("").most_suspicious == ()


def test_python_and_the_page_agree(tmp_path: Path) -> None:
    model = save_pretrained(tmp_path / "run")
    page = tmp_path / "proofs.html"
    result = electralab.proofread({"a": TEXT}, model=model, html=page, settings={"threshold": 0.0})
    assert page.read_text().count("<mark") == len(result["proofs"][0]["findings"]) > 0


def detect_evenly(text: str) -> Detection:
    offsets = TOKENIZER.encode(text).offsets
    return Detection(
        text=text,
        tokens=tuple(TokenScore(text=text[a:b], start=a, end=b, p_replaced=0.5, p_original=0.5) for a, b in offsets),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("the sa\u0301t mat", ["the", "sa\u0301t", "mat"]),
        ("the sat\u0301 mat", ["the", "sat\u0301", "mat"]),
        ("the \u0130sat mat", ["the", "\u0130sat", "mat"]),
        ("sat\r\nmat", ["sat", "mat"]),
    ],
)
def test_words_keep_the_marks_that_belong_to_them(text: str, words: list[str]) -> None:
    found = group_words(detect_evenly(text), TOKENIZER)
    assert [word.text for word in found] == words
    assert all(before.end <= after.start for before, after in itertools.pairwise(found))


def test_text_that_the_model_cannot_read_has_no_suggestions() -> None:
    proof = proofreader_of(threshold=0.0).proofread("漢字 漢字")
    assert [finding.suggestions for finding in proof.findings] == [()] * len(proof.findings)


def test_context_gives_no_orders_to_a_terminal() -> None:
    proof = proofreader_of(threshold=0.0, limit=0).proofread("the \x1b[31m cat\r\nsat")
    shown = "".join(finding.before + finding.after for finding in proof.findings)
    assert not any(character < " " for character in shown)


def test_blob_longer_than_any_word_is_another_word_altogether() -> None:
    chances = chances_of(cat=0.5)
    assert [one.text for one in LEXICON.suggest("x" * 100_000, chances, 1)] == ["cat"]
