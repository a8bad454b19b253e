"""Damage is where it says it is, of the kind that was asked for, and the same for the same luck."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.corpus.damage import (
    DAMAGE_KINDS,
    PLANTED_KINDS,
    DamageKind,
    PlantedKind,
    WordCounts,
    count_words,
    damage_text,
    exchange,
    mishear,
    misread,
    misspell,
    plant_damage,
)

TEXT = "The harbour was calm, and the old sailors were mending their nets beside the lighthouse."
kinds = pytest.mark.parametrize("kind", DAMAGE_KINDS)


@kinds
@given(
    text=st.text(st.sampled_from("abc dEF,.\né한국漢字0"), max_size=80), share=st.floats(0, 1), seed=st.integers(0, 99)
)
def test_undoing_every_damage_gives_the_text_back(kind: DamageKind, text: str, share: float, seed: int) -> None:
    planted = damage_text(text, kind, share, Random(seed))
    restored = planted.text
    for damage in reversed(planted.damages):
        assert restored[damage.start : damage.end] == damage.damaged
        restored = restored[: damage.start] + damage.original + restored[damage.end :]
    assert restored == text


@kinds
def test_no_damage_leaves_a_word_as_it_was(kind: DamageKind) -> None:
    planted = damage_text(TEXT * 20, kind, 1.0, Random(0))
    assert len(planted.damages) > 100
    assert all(damage.original.lower() != damage.damaged.lower() for damage in planted.damages)


@kinds
def test_damage_is_a_function_of_the_luck(kind: DamageKind) -> None:
    assert damage_text(TEXT, kind, 0.5, Random(3)) == damage_text(TEXT, kind, 0.5, Random(3))
    assert damage_text(TEXT * 9, kind, 0.5, Random(3)) != damage_text(TEXT * 9, kind, 0.5, Random(4))


def test_share_is_about_that_of_the_words() -> None:
    damaged = len(damage_text("harbour " * 2000, "typo", 0.1, Random(0)).damages)
    assert 150 < damaged < 250


SCRIPTS = {
    "한국어": "항구는 조용했고 늙은 선원들은 등대 옆에서 그물을 손질하고 있었다 바람이 불자 배들이 흔들렸다 ",
    "中文": "港口很平静，年老的水手们在灯塔旁边修补渔网，风一吹船就摇晃起来。",
    "ไทย": "ท่าเรือเงียบสงบและกะลาสีเฒ่ากำลังซ่อมแหอยู่ข้างประภาคาร ",
    "русский": "гавань была спокойна и старые моряки чинили свои сети возле маяка ",
    "العربية": "كان الميناء هادئا وكان البحارة القدامى يصلحون شباكهم بجانب المنارة ",
    "हिन्दी": "बंदरगाह शांत था और बूढ़े नाविक प्रकाशस्तंभ के पास अपने जाल ठीक कर रहे थे ",
}


@kinds
@pytest.mark.parametrize("name", SCRIPTS)
def test_words_of_any_script_are_damaged(kind: DamageKind, name: str) -> None:
    text = SCRIPTS[name] * 100
    planted = damage_text(text, kind, 0.1, Random(0))
    assert count_words(text) >= 700
    # Of the words that were drawn some stay as they were, where there is nothing to exchange.
    assert 0.05 * count_words(text) < len(planted.damages) < 0.13 * count_words(text)
    alphabet = set(text)
    assert all(set(damage.damaged) <= alphabet for damage in planted.damages)


def test_words_of_india_are_not_cut_at_their_vowel_signs() -> None:
    assert count_words("हिन्दी भाषा") == 2


def test_slips_are_those_of_fingers() -> None:
    seen = {misspell("calm", [], Random(seed)) for seed in range(200)}
    assert {"clam", "cam", "callm", "cakm"} <= seen  # exchanged, left out, doubled, beside the key
    assert all(word[0] == "c" for word in seen)


def test_scanners_take_letters_for_those_that_look_alike() -> None:
    seen = {misread("corner", [], Random(seed)) for seed in range(100)}
    assert seen == {"comer", "eorner", "c0rner", "corncr", "coruer"}
    assert misread("xyz", [], Random(1)) == "xyz"


def test_swapped_words_come_from_the_text_and_keep_the_capital() -> None:
    words = ["house", "Tree"]
    assert {exchange("Garden", words, Random(seed)) for seed in range(20)} == {"House", "Tree"}
    assert {exchange("garden", words, Random(seed)) for seed in range(20)} == {"house", "tree"}


def test_letters_that_sound_alike_are_taken_for_each_other() -> None:
    seen = {mishear("receive", Random(seed)) for seed in range(100)}
    assert {"recieve", "reseive"} <= seen
    assert {mishear("ação", Random(seed)) for seed in range(60)} >= {"asão", "assão", "açam"}
    assert all(word.isascii() for word in seen)  # accents are lost and never added
    assert mishear("qqq", Random(0)) == "qqq"


@pytest.mark.parametrize("kind", PLANTED_KINDS)
@given(
    text=st.text(st.sampled_from("abc dEF,.\né한국漢字0"), max_size=80), share=st.floats(0, 1), seed=st.integers(0, 99)
)
def test_undoing_planted_damage_gives_the_text_back(kind: PlantedKind, text: str, share: float, seed: int) -> None:
    planted = plant_damage(text, [kind], share, Random(seed), WordCounts([text, TEXT]))
    restored = planted.text
    for damage in reversed(planted.damages):
        assert damage.damaged.lower() != damage.original.lower()
        restored = restored[: damage.start] + damage.original + restored[damage.end :]
    assert restored == text


def test_wrong_words_are_about_as_long_and_as_frequent() -> None:
    frequent = [f"{first}{second}our" for first in "bcdfgh" for second in "aeiou"]
    rare = [f"{first}{second}ish" for first in "bcdfgh" for second in "aeiou"]
    counts = WordCounts([" ".join(frequent * 50 + rare * 2)])
    assert all(counts.choose_word("huour", Random(seed)) in frequent for seed in range(50))
    assert all(counts.choose_word("baish", Random(seed)) in rare for seed in range(50))


def test_wrong_words_of_korean_text_are_korean() -> None:
    counts = WordCounts(["항구는 조용했고 선원들은 device bit cng 그물을 " * 3])
    assert {counts.choose_word("항구는", Random(seed)) for seed in range(80)} <= {"조용했고", "선원들은", "그물을"}
    assert counts.choose_word("bits", Random(0)) in {"bit", "cng"}


def test_half_of_the_words_with_accents_lose_one_when_spelt_by_ear() -> None:
    heard = [mishear("coração", Random(seed)) for seed in range(400)]
    lost = [word for word in heard if word in {"corassão", "corasão", "coraçao"}]
    assert 0.5 < len(lost) / len(heard) < 0.85


def test_wrong_forms_begin_like_the_word() -> None:
    counts = WordCounts(["start starts started starting startle stability stand " * 2])
    seen = {counts.choose_form("starts", Random(seed)) for seed in range(50)}
    assert seen == {"start", "started", "startle"}
    assert counts.choose_form("harbour", Random(0)) == "harbour"
    # Two letters alike make no form of a word of three.
    short = WordCounts(["the tho thy they cat cats cut " * 2])
    assert {short.choose_form("the", Random(seed)) for seed in range(20)} == {"they"}
    assert {short.choose_form("cat", Random(seed)) for seed in range(20)} == {"cats"}
    assert counts.spoil("Start", "form", Random(0))[0] == "S"


def test_korean_is_damaged_letter_by_letter_of_its_syllables() -> None:
    counts = WordCounts([SCRIPTS["한국어"] * 2])
    assert "게발" in {counts.spoil("개발", "sound", Random(seed)) for seed in range(100)}
    assert "만주당" in {counts.spoil("민주당", "ocr", Random(seed)) for seed in range(200)}
    kinds: list[PlantedKind] = ["typo", "sound", "ocr"]
    for kind in kinds:
        seen = {counts.spoil("대통령", kind, Random(seed)) for seed in range(50)}
        assert len(seen) > 5
        assert all("가" <= letter <= "힣" for word in seen for letter in word)


def test_korean_slips_hit_the_key_beside_and_ears_move_a_consonant() -> None:
    counts = WordCounts([SCRIPTS["한국어"] * 2])
    slips = {counts.spoil("바다", "typo", Random(seed)) for seed in range(200)}
    assert slips == {"자다", "빠다", "버다", "비다", "바자", "바가", "바따", "바더", "바디"}, "ㅅ is three keys from ㅂ"
    heard = [counts.spoil("먹었다", "sound", Random(seed)) for seed in range(200)]
    assert 60 < heard.count("머겄다") < 140
    assert len(set(heard)) > 5
    assert not {counts.spoil("강아지", "sound", Random(seed)) for seed in range(100)} & {"가아지"}
