"""What others wrote reaches the terminal as text: no orders, no forged lines, and JSON that still says the same."""

import json

from hypothesis import given
from hypothesis import strategies as st

from electralab.terminal import escape_json, tame, tame_line

FORGED = "a\x1b[31mb\x9b2Jc\nelectra: all is well\r\tx\u202egnp.exe\u2028y\udcff"


def test_a_message_stays_one_line_without_orders() -> None:
    assert tame_line(FORGED) == "a�[31mb�2Jc electra: all is well  x�gnp.exe�y�"


def test_a_document_keeps_its_lines_tabs_and_places() -> None:
    assert tame("tab\tline\r\nrest\x1b\udcff") == "tab\tline \nrest��"


@given(st.text(st.characters(exclude_categories=())))
def test_escaped_json_says_the_same_and_holds_nothing_that_a_terminal_obeys(text: str) -> None:
    line = escape_json(json.dumps(text, ensure_ascii=False))
    assert json.loads(line) == text
    assert tame_line(line) == line
