"""A block looks right wherever it is drawn, and text from a file gives no orders anywhere."""

import doctest
import io

import pytest
from rich.console import Console

from electralab.records.evaluation import EvaluationPlan
from electralab.reporting import format, terminal
from electralab.reporting.blocks import (
    Block,
    Heading,
    MarkedText,
    Matrix,
    Paragraph,
    Table,
    TokenSpan,
    join_tokens,
    long_table,
)
from electralab.reporting.format import tell
from electralab.reporting.terminal import color_tokens, print_blocks, suspicion_style

EVIL = "a\x1b]0;title\x07b|c\nd"


def printed(*blocks: Block, width: int = 80) -> str:
    out = io.StringIO()
    print_blocks(Console(file=out, width=width, markup=False, emoji=False), blocks)
    return out.getvalue()


@pytest.mark.parametrize("module", [format, terminal])
def test_the_examples_of_the_docstrings_are_true(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_columns_of_numbers_are_known_by_what_they_say() -> None:
    table = Table("t", ["", "a", "b", "c"], [("x", "−0.1", 1), ("y", None, "wide", 2.0)])
    assert table.is_number_column() == [False, True, False, True]
    assert table.texts() == [["x", "−0.1", "1", ""], ["y", "–", "wide", "2"]]


def test_cells_of_markdown_cannot_leave_their_table() -> None:
    table = Table("", ["", "dev"], [(EVIL, 3)])
    assert table.markdown() == "|  | dev |\n|---|---:|\n| a\x1b]0;title\x07b&#124;c d | 3 |"


def test_a_name_with_a_line_break_is_no_second_sentence() -> None:
    plan = EvaluationPlan(model="a\nb", suite="rtd", data="d", generator=None, task="t", settings={})
    assert tell(plan) == ["would score a b by rtd on d, task t"]


def test_a_wide_table_of_numbers_is_cut_and_each_part_names_its_rows() -> None:
    said = printed(Table("scores", ["task", *map(str, range(12))], [("mrpc", *[0.123] * 12)]), width=60)
    assert said.count("mrpc") == 2
    assert max(map(len, said.splitlines())) <= 60
    assert "…" not in said


def test_a_table_of_prose_is_wrapped() -> None:
    said = printed(Table("", ["measure", "meaning"], [("loss", "how far answers are from the truth " * 3)]), width=60)
    assert said.count("loss") == 1
    assert said.count("answers") == 3


def test_nothing_gives_orders_to_a_terminal() -> None:
    blocks: list[Block] = [
        Paragraph(EVIL),
        Table(EVIL, [EVIL, EVIL], [(EVIL, EVIL)]),
        Heading(EVIL),
        MarkedText(EVIL, []),
    ]
    assert not set(printed(*blocks)) & set("\x1b\x07")


def test_tokens_keep_their_text_and_have_the_colour_of_their_suspicion() -> None:
    colored = color_tokens(MarkedText("an elephant", [TokenSpan(0, 2, 0.05), TokenSpan(3, 11, 0.8, "replaced")]))
    assert colored.plain == "an elephant"
    assert [(span.start, span.end, str(span.style)) for span in colored.spans] == [
        (0, 2, "green"),
        (3, 11, "bold white on red"),
        (3, 11, "underline"),
    ]
    assert [suspicion_style(p) for p in (0.1, 0.25, 0.4, 0.9)] == ["green", "yellow", "bold red", "bold white on red"]


def test_wordpieces_become_the_text_they_were() -> None:
    marked = join_tokens(["the", "cat", "##s", "##"], [(None, ""), (0.9, "replaced"), (None, "hidden"), (None, "")])
    assert marked == MarkedText("the cats ##", [TokenSpan(4, 7, 0.9, "replaced"), TokenSpan(7, 8, None, "hidden")])


def test_a_confusion_matrix_has_its_classes_on_both_sides() -> None:
    matrix = Matrix("taken for", ["no", "yes"], [[3, 1], [0, 4]])
    assert "no" in printed(matrix)
    assert "yes" in printed(matrix)


def test_a_long_table_is_folded() -> None:
    assert isinstance(long_table("t", ["a"], [("x",)]), Table)
    assert not isinstance(long_table("t", ["a"], [("x",)] * 13), Table)
