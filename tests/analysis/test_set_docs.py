"""What docs/analysis-sets.md says of the sets is so."""

import re
from pathlib import Path

import pytest

from electralab.analysis.probe_sets import SETS, SentencePair, read_analogies, read_pairs, read_senses, read_tagged

PAGE = (Path(__file__).parents[2] / "docs" / "analysis-sets.md").read_text(encoding="utf-8")
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("|")]


def test_numbers_are_those_of_the_sets() -> None:
    senses, analogies, tagged = read_senses(), read_analogies(), read_tagged()
    for sentence in (
        f"| {len(read_pairs()['past'])} pairs of each |",
        f"in {len({analogy.family for analogy in analogies})} families | {len(analogies)} |",
        f"| {len(tagged)} sentences, {sum(len(sentence.words) for sentence in tagged):,} words |",
        f"| {len({sense.word for sense in senses})} words, 8 sentences each |",
        f"{len({(sense.word, sense.sense) for sense in senses})} in all",
    ):
        assert sentence in PAGE


def test_examples_are_in_the_sets() -> None:
    for kind, pairs in read_pairs().items():
        [[_, source, target]] = [row for row in ROWS if row[0] == kind]
        assert SentencePair(source, target) in pairs
    senses = {(sense.word, sense.sense, sense.sentence) for sense in read_senses()}
    assert {tuple(row) for row in ROWS if row[0] in ("bank", "saw")} <= senses
    assert (SETS / "tagged.conll").read_text().partition("\n\n")[0] in PAGE


def test_every_tag_is_explained() -> None:
    tags = {tag for sentence in read_tagged() for tag in sentence.tags}
    assert {cell for row in ROWS if len(row) == 4 for cell in row} >= tags


def test_the_python_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    [program] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(program, {})
    assert "A short poem is written by our daughter every Sunday." in capsys.readouterr().out
