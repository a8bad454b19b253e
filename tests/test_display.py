from electralab.display import colour_tokens, sparkline, suspicion


def test_suspicion_rises_from_green_to_red() -> None:
    assert [suspicion(p) for p in (0.1, 0.25, 0.4, 0.9)] == ["green", "yellow", "bold red", "bold white on red"]


def test_each_token_has_its_colour_and_the_text_stays_as_it_is() -> None:
    tokens = [
        {"text": "an", "start": 0, "end": 2, "p_replaced": 0.05},
        {"text": "elephant", "start": 3, "end": 11, "p_replaced": 0.8},
    ]
    coloured = colour_tokens({"text": "an elephant", "tokens": tokens})
    assert coloured.plain == "an elephant"
    assert [(span.start, span.end, str(span.style)) for span in coloured.spans] == [
        (0, 2, "green"),
        (3, 11, "bold white on red"),
    ]


def test_a_sparkline_falls_as_its_values_fall() -> None:
    assert sparkline([8, 7, 6, 5, 4, 3, 2, 1]) == "█▇▆▅▄▃▂▁"


def test_a_flat_curve_is_a_flat_line() -> None:
    assert sparkline([3.0, 3.0, 3.0]) == "▁▁▁"
