"""What docs/analysis-sets.md says of the sets is so."""

import re
from pathlib import Path

import pytest

from electralab.analysis.sets.analogies import list_analogies
from electralab.analysis.sets.lexicon import ACTIVITIES, ANIMAL_ACTIVITIES, FRAMES, NOUNS, ONCE_FRAMES
from electralab.analysis.sets.senses import list_senses
from electralab.analysis.sets.tagged import TAGS, format_conll, list_tagged
from electralab.analysis.sets.transformations import TRANSFORMATIONS, Pair, list_pairs

PAGE = (Path(__file__).parents[2] / "docs" / "analysis-sets.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]


def test_numbers_are_those_of_the_sets() -> None:
    senses = list_senses()
    words = sum(len(sentence.words) for sentence in list_tagged())
    verbs = {frame.verb for frame in (*FRAMES, *ONCE_FRAMES)}
    verbs |= {activity.verb for activity in (*ACTIVITIES, *ANIMAL_ACTIVITIES)}
    families = len({analogy.family for analogy in list_analogies()})
    for claim in (
        f"| {len(list_pairs('past'))} pairs of each |",
        f"in {families} families | {len(list_analogies())} |",
        f"| {len(list_tagged())} sentences, {words:,} words |",
        f"| {len({sense.word for sense in senses})} words, 8 sentences each |",
        f"{len({(sense.word, sense.sense) for sense in senses})} in all",
        f"{len(verbs)} verbs and {len(NOUNS)} nouns",
    ):
        assert claim in PAGE


def test_examples_are_in_the_sets() -> None:
    for kind in TRANSFORMATIONS:
        [[_, source, target]] = [row for row in ROWS if row[0] == kind]
        assert Pair(source, target) in list_pairs(kind)
    senses = {(sense.word, sense.sense, sense.sentence) for sense in list_senses()}
    assert {tuple(row) for row in ROWS if row[0] in ("bank", "saw")} <= senses
    assert format_conll(list_tagged()[:1]).strip() in PAGE


def test_every_tag_is_explained() -> None:
    assert {cell for row in ROWS if len(row) == 4 for cell in row} >= set(TAGS)


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(program, {})
    assert "A short poem is written by our daughter every Sunday." in capsys.readouterr().out
