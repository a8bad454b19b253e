"""The example set on which meaning matters: it is what its script writes, and no word or sentence tells its class."""

import csv
import importlib.util
from collections import Counter, defaultdict
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_table_is_what_its_script_writes_and_its_sentences_say_nothing() -> None:
    spec = importlib.util.spec_from_file_location("meanings", EXAMPLES / "meanings.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    with (EXAMPLES / "meanings.csv").open(newline="") as file:
        _, *rows = (tuple(row) for row in csv.reader(file))
    assert rows == script.write_rows()
    assert Counter(label for _, label in rows) == dict.fromkeys(script.WORDS, 100)
    words = [word for text in script.WORDS.values() for word in text.split()]
    assert len(set(words)) == len(words), "no word is met twice"
    by_sentence: dict[str, Counter[str]] = defaultdict(Counter)
    for (text, label), word in zip(rows, words, strict=True):
        by_sentence[text.replace(f"the {word}", "the {}", 1)][label] += 1
    assert list(by_sentence) == list(script.SENTENCES)
    assert all(counts == dict.fromkeys(script.WORDS, 10) for counts in by_sentence.values())
