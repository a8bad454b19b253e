"""Pictures have a panel for each measure, and one for all domains or widths of a measure together."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from electralab.records.findings import Analysis, AnalyzedModel, FindingRecord
from electralab.reporting.plots import plot_claim

ANALYSIS = Analysis(
    seed=0,
    models=(AnalyzedModel(name="a"), AnalyzedModel(name="a, untrained", control_of="a")),
    findings=(),
    missing=(),
)


def row(name: str, value: float, model: str = "a", **more: Any) -> FindingRecord:
    known = {
        "name": name,
        "unit": "nats",
        "model": model,
        "layer": None,
        "control": None,
        "claim": "M38",
        "meaning": "",
    }
    return FindingRecord.model_validate({**known, "value": value, "low": value - 1, "high": value + 1, **more})


def draw(rows: list[FindingRecord]) -> Figure:
    return plot_claim("title", rows, ANALYSIS)


def test_widths_are_one_line_in_a_panel_of_its_own_and_the_rest_have_theirs() -> None:
    widths = [row(f"loss, {part}", 3 - place, series="loss", part=part) for place, part in enumerate(("0", "1", "all"))]
    before = [width.model_copy(update={"model": "a, untrained", "value": 5.0}) for width in widths]
    wide, narrow = draw([*widths, *before, row("reach", 4.0)]).axes
    assert wide.get_title(loc="left") == "loss, nats"
    assert [label.get_text() for label in wide.get_xticklabels()] == ["0", "1", "all"]
    model, twin = wide.get_lines()
    assert np.asarray(model.get_ydata()).tolist() == [3, 2, 1]
    assert (model.get_linestyle(), twin.get_linestyle()) == ("-", "--")
    assert narrow.get_title(loc="left") == "reach, nats"


def test_domains_are_dots_beside_each_other_without_a_line() -> None:
    domains = [row(f"loss on {part}", 2.0, series="loss", part=part) for part in ("news", "novels")]
    [panel] = draw([*domains, *(domain.model_copy(update={"model": "a, untrained"}) for domain in domains)]).axes
    model, twin = panel.get_lines()
    assert {model.get_linestyle(), twin.get_linestyle()} == {"None"}
    (here, _), (there, _) = np.asarray(model.get_xdata()), np.asarray(twin.get_xdata())
    assert -0.5 < here < 0 < there < 0.5


def test_a_figure_without_an_interval_is_drawn_all_the_same() -> None:
    [panel] = draw([row("loss on news", 2.0, series="loss", part="news", low=None, high=None)]).axes
    assert np.asarray(panel.get_lines()[0].get_ydata()).tolist() == [2]
