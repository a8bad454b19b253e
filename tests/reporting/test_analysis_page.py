"""Findings beside their controls, what could not be measured, pictures, and the verdicts on the claims."""

from pathlib import Path
from typing import Any

import pytest

from electralab.records.findings import Analysis, ClaimsResult, PointClouds
from electralab.reporting.analysis_page import claim_blocks, finding_blocks, tell_answers
from electralab.reporting.artifact import Artifact
from electralab.reporting.format import tell
from electralab.reporting.html import render_blocks
from electralab.reporting.page import compose_page

HERE = Path("here")
CONTROL = {"value": 0.0, "low": -0.1, "high": 0.1, "meaning": "noise"}


def figure(model: str, value: float, **more: Any) -> dict[str, Any]:
    told = {"claim": "M33", "name": "anisotropy", "unit": "cosine", "meaning": f"of {model}", "layer": 1, "note": ""}
    return {"model": model, "value": value, "low": value - 0.1, "high": value + 0.1, "control": None, **told, **more}


def analysis(findings: list[dict[str, Any]], models: str = "ab", **more: Any) -> Analysis:
    names = [{"name": name, "control_of": None} for name in models]
    names += [{"name": f"{name}, untrained", "control_of": name} for name in models]
    return Analysis.model_validate({"seed": 0, "models": names, "findings": findings, **more})


def show(seen: Analysis, **more: Any) -> str:
    return render_blocks(list(finding_blocks(Artifact("analysis", "seen", HERE, analysis=seen, **more))))


def test_an_analysis_counts_its_models_and_answers_beside_the_untrained_control() -> None:
    seen = analysis([figure("a", 0.4, control=CONTROL), figure("a, untrained", 0.2), figure("b", 0.3)])
    [text] = tell(seen, "analysis")
    assert "a, b: 2 figures, 1 of them beside a control and each model beside its untrained twin; 0 could not" in text
    assert list(tell_answers(seen)) == [
        "M33, anisotropy (cosine): a 0.40 (0.30 to 0.50), untrained 0.20 (0.10 to 0.30); b 0.30 (0.20 to 0.40)."
    ]


def test_controls_are_explained_and_notes_and_reasons_are_said_once() -> None:
    findings = [figure("a", 0.4, control=CONTROL, note="mine"), figure("b", 0.3), figure("a, untrained", 0.2)]
    lacking = [
        {"claim": "M33", "model": model, "name": name, "reason": "is no pair"}
        for model in ("a", "a, untrained")
        for name in ("balance", "ratio")
    ]
    shown = show(analysis(findings, missing=lacking))
    assert "<li>anisotropy: of a. Control: noise.</li><li>Note of a: mine.</li>" in shown
    assert shown.count("is no pair") == 1
    assert "<strong>balance; ratio (a).</strong>" in shown
    assert "<p>What shape has the cloud of states" in shown
    assert "0.00 (−0.10 to 0.10)" in shown
    assert "0.40 (0.30 to 0.50)" in shown


def test_widths_of_the_context_and_long_tables_are_folded() -> None:
    widths = [figure("a", 0.4, claim="M38", layer=None, name=f"AUC, ±{width}", part=str(width)) for width in (1, 4)]
    shown = show(analysis([figure("a", 0.4, claim="M38", layer=None, name="AUC, gain beyond ±4"), *widths]))
    assert "±1" not in shown.partition("<details><summary>All figures</summary>")[0]
    many = [figure("a", 0.4, name=f"measure {number}") for number in range(13)]
    assert "layers at the last one: 13 rows</summary>" in show(analysis(many))


@pytest.mark.parametrize("names", ["abc", "abcd"])
def test_pictures_of_many_models_are_folded_by_model_and_those_of_all_are_not(names: str) -> None:
    owners = (None, *names, "a, untrained")
    drawings = [{"claim": "M33", "model": who, "file": f"{who}.png", "title": f"picture of {who}"} for who in owners]
    seen = analysis([figure("a", 0.4)], names, drawings=drawings)
    shown = show(seen, pictures={str(who): "data:," for who in owners})
    open_part = shown.partition("<details>")[0]
    assert [f'alt="picture of {who}"' in open_part for who in (None, *names)] == [True] + [len(names) < 4] * len(names)
    assert ("<summary>b: 1 picture</summary>" in shown) == (len(names) > 3)
    assert "<summary>Before training: 1 picture</summary>" in shown
    assert all(shown.count(f'alt="picture of {who}"') == 1 for who in owners)


def test_each_claim_of_several_has_a_link_to_it() -> None:
    shown = show(analysis([figure("a", 0.4), figure("a", 0.4, claim="M35")]))
    assert '<a href="#seen-M35">M35</a>' in shown
    assert '<h3 id="seen-M35">' in shown


def test_a_cloud_has_its_most_frequent_category_first_and_its_words_in_the_data() -> None:
    cloud = {"claim": "M33", "title": "words", "points": [[0, 0, 1]] * 3, "categories": ["N", "V", "V"]}
    clouds = PointClouds.model_validate({"clouds": [{**cloud, "words": ["cat", "ran", "<b>"]}]})
    page = compose_page([Artifact("analysis", "seen", HERE, analysis=analysis([figure("a", 0.4)]), clouds=clouds)])
    assert '<li class="c0 steady">V</li><li class="c1 steady">N</li>' in page
    assert '"kinds":[1,0,0],"names":["V","N"],"words":["cat","ran","\\u003cb>"]' in page


def claims(*verdicts: str, **values: Any) -> ClaimsResult:
    told = {"sentence": "A <b>bold</b> claim.", "measure": "points", "unit": "share", "why": "because"}
    rows = [{"number": f"M3{i}", "verdict": verdict, "values": values, **told} for i, verdict in enumerate(verdicts)]
    return ClaimsResult.model_validate({"claims": rows})


def test_verdicts_are_counted_and_shown_with_their_figures() -> None:
    result = claims("holds", "undecided", "undecided", electra={"value": 0.5, "low": 0.4, "high": 0.6})
    page = compose_page([Artifact("study", "s", HERE, claims=result)])
    assert "Of 3 claims 1 holds, 2 are undecided at this scale." in page
    assert '<p class="verdict holds">holds</p>' in page
    assert "0.5 [0.4, 0.6]" in page
    assert "<b>bold</b>" not in page


def test_without_claims_there_is_nothing_of_them() -> None:
    assert list(claim_blocks(None)) == list(claim_blocks(claims())) == []
