"""Which column is which: by wish, by name, by content; never by accident."""

from dataclasses import replace
from pathlib import Path

import pytest

from electralab.errors import InputError, UsageError
from electralab.tasks.kinds import KINDS
from electralab.tasks.load import choose_columns, match_columns
from electralab.tasks.table import Columns, Row, Table


def table(*records: dict[str, str]) -> Table:
    return Table(Path("a.csv"), tuple(records[0]), [Row(number, fields) for number, fields in enumerate(records, 2)])


def named(*columns: str) -> Table:
    return table(dict.fromkeys(columns, "x"))


def choose(
    rows: Table,
    kind: str = "classify",
    num_texts: int = 0,
    wish: Columns | None = None,
    *,
    needs_label: bool = True,
) -> Columns:
    task = replace(KINDS[kind].own_tasks()[0], num_texts=num_texts)
    return choose_columns(rows, task, wish or Columns(), needs_label=needs_label)


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        (("label", "text"), Columns(("text",), "label")),
        (("id", "document", "label"), Columns(("document",), "label", "id")),
        (("Review", "Stars"), Columns(("Review",), "Stars")),
        (("title", "category", "body"), Columns(("body",), "category")),
        (("text_a", "text_b", "label"), Columns(("text_a", "text_b"), "label")),
        (("idx", "premise", "hypothesis", "label"), Columns(("premise", "hypothesis"), "label", "idx")),
        (("text", "question", "sentence", "label"), Columns(("text",), "label")),
    ],
)
def test_columns_are_known_by_their_names(columns: tuple[str, ...], chosen: Columns) -> None:
    assert choose(named(*columns)) == chosen


@pytest.mark.parametrize(
    ("kind", "columns", "chosen"),
    [
        ("regress", ("sentence1", "sentence2", "label", "score"), Columns(("sentence1", "sentence2"), "score")),
        ("label", ("tokens", "ner_tags"), Columns(("tokens",), "ner_tags")),
        ("qa", ("id", "title", "context", "question", "answers"), Columns(("question", "context"), "answers", "id")),
    ],
)
def test_every_kind_has_names_of_its_own(kind: str, columns: tuple[str, ...], chosen: Columns) -> None:
    assert choose(named(*columns), kind) == chosen


def test_failing_names_the_content_decides() -> None:
    rows = [{"k": str(n), "lang": "en", "c": "pos" if n % 2 else "neg", "t": f"film number {n}"} for n in range(8)]
    assert choose(table(*rows)) == Columns(("t",), "c")


def test_a_score_is_the_only_column_of_numbers() -> None:
    assert choose(table({"a": "a film", "b": "2.5"}, {"a": "another", "b": "1"}), "regress").label == "b"
    with pytest.raises(UsageError, match="cannot tell which column holds the label; it has 'a', 'b', 'c'; give --data"):
        choose(table({"a": "a film", "b": "2.5", "c": "3"}), "regress")


def test_a_first_line_that_is_a_row_is_found_out() -> None:
    rows = [{"1": label, "A good film": f"text {number}"} for number, label in enumerate("0101")]
    with pytest.raises(UsageError, match="its first line seems to be a row"):
        choose(table(*rows))


def test_a_wish_wins_over_names() -> None:
    wish = Columns(("title",), "stars", "url")
    assert choose(named("text", "title", "label", "stars", "id", "url"), wish=wish) == wish


def test_a_text_is_not_looked_for_in_the_wished_label() -> None:
    assert choose(named("text", "title"), wish=Columns(label="text")) == Columns(("title",), "text")


def test_a_wish_that_is_no_column_is_met_with_a_suggestion_and_all_names() -> None:
    with pytest.raises(
        UsageError, match=r"a.csv: has no column 'labels'; did you mean 'label'\? it has 'text', 'label'"
    ):
        choose(named("text", "label"), wish=Columns(label="labels"))


def test_a_pair_needs_two_columns_of_text() -> None:
    with pytest.raises(UsageError, match=r"the task reads 2 columns of text; give --data.text-a and --data.text-b"):
        choose(named("text", "label"), num_texts=2, wish=Columns(("text",)))
    with pytest.raises(UsageError, match="cannot tell which column holds the text"):
        choose(named("text", "label"), num_texts=2)


def test_without_need_a_label_is_taken_by_name_only() -> None:
    rows = table({"t": "one film", "c": "0"}, {"t": "two films", "c": "1"})
    assert choose(rows, num_texts=1, needs_label=False) == Columns(("t",))
    assert choose(rows, num_texts=1, wish=Columns(("t",), "stars"), needs_label=False) == Columns(("t",))


def test_another_file_may_lack_the_label_but_not_the_text() -> None:
    trained = Columns(("sentence",), "label")
    assert match_columns(named("index", "sentence"), trained) == Columns(("sentence",), "", "index")
    with pytest.raises(InputError, match=r"has no column 'sentence', which its task needs; did you mean 'sentences'\?"):
        match_columns(named("sentences", "label"), trained)
