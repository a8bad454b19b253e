import json
from pathlib import Path
from typing import Any

from electralab.reporting.claims import draw_figures, show_claims
from electralab.reporting.composing import compose_page
from electralab.reporting.subjects import read_subject


def claim(number: str, verdict: str, **values: Any) -> dict[str, Any]:
    told = {"sentence": "A <b>bold</b> claim.", "measure": "points", "unit": "share", "why": "because"}
    return {"number": number, "verdict": verdict, "values": values, **told}


def study_with(folder: Path, claims: Any) -> Path:
    (folder / "study.toml").write_text('name = "s"')
    (folder / "claims.json").write_text(json.dumps({"claims": claims}))
    return folder


def figure(value: float, low: float | None = None, high: float | None = None) -> dict[str, float | None]:
    return {"value": value, "low": low, "high": high}


def test_verdicts_are_counted_and_shown_with_their_figures(tmp_path: Path) -> None:
    claims = [
        claim("M30", "holds", electra=figure(0.5, 0.4, 0.6)),
        claim("M31", "undecided"),
        claim("M32", "undecided"),
    ]
    page = compose_page([read_subject(study_with(tmp_path, claims))])
    assert "Of 3 claims 1 holds, 2 are undecided at this scale." in page
    assert '<p class="verdict holds">holds</p>' in page
    assert "0.5 [0.4, 0.6]" in page
    assert "<b>bold</b>" not in page


def test_a_study_without_claims_has_no_section_for_them(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text('name = "s"')
    assert show_claims(read_subject(tmp_path)) == ""


def test_what_are_no_claims_is_said_and_the_others_are_shown(tmp_path: Path) -> None:
    subject = read_subject(study_with(tmp_path, [claim("M30", "holds"), {"number": "M31"}, 7]))
    assert [one["number"] for one in subject.claims] == ["M30"]
    assert any("not all of it are claims" in said for said in subject.troubles)
    assert read_subject(study_with(tmp_path, 7)).claims == []


def test_dots_stand_in_the_order_of_their_values() -> None:
    drawn = draw_figures({"electra": figure(1.0), "mlm": figure(3.0), "causal": figure(2.0, 1.5, 2.5)})
    across = [float(part.split('"')[0]) for part in drawn.split('cx="')[1:]]
    assert across[0] < across[2] < across[1]
    assert drawn.count("<line") == 1


def test_an_interval_that_leaves_the_picture_is_cut_at_its_edge() -> None:
    drawn = draw_figures({"electra": figure(1.0, -1e6, 1e6), "mlm": figure(2.0)})
    start, end = (float(drawn.split(f'{side}="')[1].split('"')[0]) for side in ("x1", "x2"))
    dots = [float(part.split('"')[0]) for part in drawn.split('cx="')[1:]]
    assert start < dots[0] < dots[1] < end <= 300


def test_one_figure_without_an_interval_is_a_dot() -> None:
    assert "<circle" in draw_figures({"electra": figure(0.0)})
    assert draw_figures({"electra": figure(None)}) == draw_figures({}) == ""  # type: ignore[arg-type]
