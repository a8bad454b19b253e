"""What simple methods reach, in the task's own scores, and who is better in words."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from electralab.errors import DamagedArtifact
from electralab.finetuning.results import compare_baselines, score_baselines
from electralab.records.tuned import Baseline, Baselines
from electralab.tasks import baselines
from electralab.tasks.baselines import LinearClassifier, LinearRegressor, TextFeatures, WindowTagger, compare_bags
from electralab.tasks.catalog import find_task
from electralab.tasks.kind import Example, Split
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.qa import Answer, QAExample
from electralab.tasks.kinds.regression import RegressionExample
from electralab.tasks.kinds.tagging import TaggingExample
from electralab.tasks.load import TaskData


def split(name: str, examples: Sequence[Example], *, is_labelled: bool = True) -> Split[Example]:
    return Split(name, f"{name}.csv", examples, is_labelled, {}, len(examples), ())


def classes(*rows: tuple[str, str]) -> list[Example]:
    return [ClassificationExample(str(number), (text,), label) for number, (text, label) in enumerate(rows)]


TRAIN = classes(("a cat", "yes"), ("the cat", "yes"), ("cat here", "yes"), ("a dog", "no"), ("the dog", "no"))
DEV = classes(("my cat", "yes"), ("my dog", "no"), ("our dog", "no"), ("one dog", "no"))


def score(task: str, labels: tuple[str, ...], train: Sequence[Example], *splits: Split[Example]) -> dict[str, Baseline]:
    data = TaskData(find_task(task), labels, split("train", train), splits, (), "", ())
    return {baseline.name: baseline for baseline in score_baselines(data)}


def test_classes_are_scored_with_the_scores_of_the_task_on_every_labelled_split() -> None:
    unlabelled = split("test", classes(("my cat", "")), is_labelled=False)
    found = score("classify", ("no", "yes"), TRAIN, split("dev", DEV), split("test-mm", DEV[:2]), unlabelled)
    assert found["commonest"].scores["dev"] == {"accuracy": 0.25, "macro_f1": pytest.approx(0.2)}
    assert found["commonest"].what == "always answering 'yes'"
    assert found["linear"].scores == {
        "dev": {"accuracy": 1.0, "macro_f1": 1.0},
        "test-mm": {"accuracy": 1.0, "macro_f1": 1.0},
    }
    assert found["linear"].rows == 5


def test_the_commonest_of_equals_does_not_depend_on_the_order_of_the_rows() -> None:
    rows = [TRAIN[0], TRAIN[3]]
    for order in (rows, rows[::-1]):
        assert score("cola", ("no", "yes"), order, split("dev", DEV))["commonest"].what.startswith(
            "always answering 'no'"
        )


def test_numbers_are_scored_by_correlation() -> None:
    def scored(*rows: tuple[str, float]) -> list[Example]:
        return [RegressionExample(str(number), (text, "and"), value) for number, (text, value) in enumerate(rows)]

    train = scored(*[("cat", 5.0), ("a cat", 4.5), ("dog", 1.0), ("a dog", 0.5), ("a cat dog", 3.0)] * 20)
    found = score("stsb", (), train, split("dev", scored(("the cat", 5.0), ("the dog", 1.0), ("the cat dog", 3.0))))
    assert found["commonest"].scores["dev"] == {"spearman": 0.0, "pearson": 0.0}
    assert found["linear"].scores["dev"]["spearman"] == 1.0
    assert "what the pair shares" in found["linear"].what


def test_tags_are_scored_by_whole_entities() -> None:
    def tagged(*rows: str) -> list[Example]:
        pairs = [[word.split("/") for word in row.split()] for row in rows]
        return [TaggingExample(str(n), tuple(w for w, _ in of), tuple(t for _, t in of)) for n, of in enumerate(pairs)]

    train = tagged("Anna/B-PER sees/O Rome/B-LOC", "Rome/B-LOC sleeps/O", "Anna/B-PER runs/O", "Rome/B-PER calls/O")
    found = score("ner", ("O", "B-PER", "B-LOC"), train, split("dev", tagged("Anna/B-PER likes/O Rome/B-LOC")))
    assert found["commonest"].scores["dev"]["f1"] == 1.0
    assert found["linear"].scores["dev"].keys() == {"f1", "precision", "recall", "accuracy"}


def test_questions_have_no_baseline() -> None:
    question: Example = QAExample("1", "who", "Anna sat", (Answer("Anna", 0),), is_impossible=False)
    assert score("qa", (), [question], split("dev", [question])) == {}


def test_of_many_rows_some_evenly_apart_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "MOST_FITTED_CHARACTERS", 60)
    train = classes(*[("a cat", "yes"), ("a dog", "no")] * 10)
    found = score("classify", ("no", "yes"), train, split("dev", DEV))
    assert found["linear"].rows == 12
    assert found["commonest"].rows == 20


def test_what_was_written_is_read_and_what_was_not_is_named(tmp_path: Path) -> None:
    known = Baselines(baselines=tuple(score("classify", ("no", "yes"), TRAIN, split("dev", DEV)).values()))
    known.write(tmp_path)
    assert Baselines.read(tmp_path) == known
    for text in ("{}", "[]", '{"baselines": [{"name": "x"}]}'):
        (tmp_path / "baselines.json").write_text(text)
        with pytest.raises(DamagedArtifact, match=r"baselines.json: not as electralab writes it"):
            Baselines.read(tmp_path)


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (0.5, "a baseline wins: a tree has test macro f1 0.7500, the tuned model 0.5000; "),
        (0.75, "a baseline is as good: a tree also has test macro f1 0.7500"),
        (0.8, "better than its baselines: test macro f1 0.8000, against 0.7500 of a tree"),
    ],
)
def test_who_is_better_is_said_in_words(ours: float, said: str) -> None:
    known = [
        Baseline(name="x", what=what, rows=9, scores={"test": {"macro_f1": value}})
        for what, value in (("a stone", 0.1), ("a tree", 0.75))
    ]
    assert compare_baselines("macro_f1", "test", ours, known).startswith(said)
    assert compare_baselines("macro_f1", "dev", ours, known) == ""


ANIMALS = [("the cat sat",), ("a cat",), ("cat on the mat",), ("the dog sat",), ("a dog",), ("dog on the mat",)]


def test_classes_are_told_by_a_word() -> None:
    model = LinearClassifier().fit(ANIMALS, ["yes"] * 3 + ["no"] * 3)
    assert model.predict([("my cat ran",), ("my dog ran",)]) == ["yes", "no"]


def test_classes_are_told_by_punctuation_and_by_parts_of_words() -> None:
    asked = LinearClassifier().fit([("is it so ?",), ("it is so .",), ("so ?",), ("so .",)], ["ask", "say"] * 2)
    assert asked.predict([("really ?",), ("really .",)]) == ["ask", "say"]
    past = [("walked",), ("walking",), ("jumped",), ("jumping",), ("called",), ("calling",)]
    assert LinearClassifier().fit(past, ["ed", "ing"] * 3).predict([("helped",), ("helping",)]) == ["ed", "ing"]


def test_a_single_class_is_all_that_is_ever_said() -> None:
    assert LinearClassifier().fit([("a",), ("b",)], ["x", "x"]).predict([("c",), ("d",)]) == ["x", "x"]


def test_pairs_are_told_by_what_they_share() -> None:
    """No word says it: every one stands in pairs of both classes."""
    words = ["cat", "dog", "mat", "sun", "sea", "hat"]
    same = [(f"the {word}", f"a {word}") for word in words]
    other = [(f"the {word}", f"a {words[(place + 1) % 6]}") for place, word in enumerate(words)]
    model = LinearClassifier(strength=10).fit([*same, *other], ["same"] * 6 + ["other"] * 6)
    assert model.predict([("the moon", "a moon"), ("the moon", "a lamp")]) == ["same", "other"]


def test_what_two_bags_share_is_a_share_of_each() -> None:
    """The second time a, which is everywhere, counts little."""
    idf = {"": 4.0, "a": 1.0, "b": 4.0}
    counted, weighted, lengths = np.split(compare_bags(["a", "b", "c", "c"], ["a"], idf), [5, 10])
    assert counted == pytest.approx([1 / 3, 1 / 3, 1.0, math.log(3), 0.0])
    assert weighted == pytest.approx([1 / 9, 1 / 9, 1.0, math.log(9), 0.0])
    long, short, unlike = lengths
    assert long > short
    assert unlike == pytest.approx(long - short)


def test_numbers_follow_a_word() -> None:
    model = LinearRegressor(penalty=0.1).fit(ANIMALS, [4.0] * 3 + [1.0] * 3)
    high, low = model.predict([("my cat ran",), ("my dog ran",)])
    assert high > 3 > 2 > low
    assert model.predict([]).shape == (0,)


def test_tags_follow_the_word_and_its_neighbours() -> None:
    sentences = [("the", "run", "ends"), ("they", "run", "fast"), ("the", "walk", "ends"), ("they", "walk", "far")] * 5
    tags = [("D", "N", "V"), ("P", "V", "A"), ("D", "N", "V"), ("P", "V", "A")] * 5
    model = WindowTagger().fit(sentences, tags)
    assert model.predict([("the", "run", "ends"), ("they", "walk", "fast")]) == [("D", "N", "V"), ("P", "V", "A")]
    assert WindowTagger().fit([("a", "b")], [("O", "O")]).predict([("c",), ()]) == [("O",), ()]


def test_a_text_of_any_length_and_script_has_features() -> None:
    features = TextFeatures()
    assert features.fit_transform([("고양이가 앉았다",), ("x" * 200_000,), ("?",)]).shape[0] == 3
    assert features.transform([("고양이",), ("🙂",), (" ",)]).shape[0] == 3
