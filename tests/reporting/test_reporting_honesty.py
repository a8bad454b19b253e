"""The page says no more than its files do: who is best, what was counted, what may be compared."""

import json
from pathlib import Path
from typing import Any

import pytest
from report_folders import SCORES, make_record, make_run

from electralab.reporting.composing import compose_page, news
from electralab.reporting.curves import draw_charts, draw_study
from electralab.reporting.findings import show_findings
from electralab.reporting.questions import tell_answers
from electralab.reporting.scores import show_compute, show_final, show_pictures, show_study
from electralab.reporting.subjects import Subject, read_subject
from electralab.reporting.summary import is_finished, summarise

HERE = Path("here")


def study(p_holm: float) -> Subject:
    def row(arm: str, mean: float) -> dict[str, Any]:
        return {"line": arm, "arm": arm, "scores": {"average": {"mean": mean}, "cola": {"mean": mean}}}

    lead = {"arm": "new", "versus": "old", "mean": 0.02, "low": 0.01, "high": 0.03, "over": "seeds"}
    worse = {**lead, "score": "cola", "mean": -0.05, "p_holm": 0.01}
    results = {
        "baseline": "old",
        "seeds": [0],
        "arms": {"old": {"size": "tiny", "objective": "mlm"}, "new": {"size": "tiny", "objective": "electra"}},
        "scores": {"cola": "mcc"},
        "table": [row("old", 0.5), row("new", 0.52)],
        "comparisons": [{**lead, "score": "average", "p_holm": p_holm}, worse],
        "curves": {"cola": {"new": [{"flops": 1, "mean": 0.5}, {"flops": 2, "mean": 0.52}]}},
    }
    return Subject("study", "study", HERE, results=results)


def test_the_best_of_a_study_is_marked_only_where_a_test_says_so() -> None:
    said = " ".join(summarise(study(0.4)))
    assert (
        "new, 52.0 points, which cannot be told apart from the baseline old (+2.0 points, p = 0.4 after Holm)" in said
    )
    assert "1 of 2: new −5.0 against old on cola (over seeds)." in said
    assert 'class="marked"' not in show_study(study(0.4))
    assert "new, 52.0 points, better than the baseline old" in " ".join(summarise(study(0.01)))
    assert '<tr class="marked"><th scope="row">new</th>' in show_study(study(0.01))


def test_a_study_names_its_metrics_draws_points_and_says_what_its_arms_differ_in() -> None:
    assert '<th scope="col" class="number">cola (MCC)</th>' in show_study(study(0.4))
    [chart] = draw_study(study(0.4).results)
    assert (chart.title, chart.unit, chart.lines[0].y) == ("cola (MCC)", "points", [50.0, 52.0])
    page = compose_page([study(0.4)])
    assert '<th scope="row">objective</th><td>mlm</td><td>electra</td>' in page
    assert '<th scope="row">size</th>' not in page


def figure(model: str, value: float, **more: Any) -> dict[str, Any]:
    told = {"claim": "M33", "name": "anisotropy", "unit": "cosine", "meaning": f"of {model}", "layer": 1, "note": ""}
    return {"model": model, "value": value, "low": value - 0.1, "high": value + 0.1, "control": None, **told, **more}


def analysis(findings: list[dict[str, Any]], missing: list[dict[str, Any]] | None = None) -> Subject:
    models = [{"name": name, "control_of": None} for name in "ab"]
    models += [{"name": f"{name}, untrained", "control_of": name} for name in "ab"]
    found = {"models": models, "findings": findings, "missing": missing or [], "drawings": []}
    return Subject("analysis", "seen", HERE, analysis=found)


def test_an_analysis_counts_its_models_and_answers_beside_the_untrained_twin() -> None:
    control = {"value": 0.0, "low": -0.1, "high": 0.1, "meaning": "noise"}
    subject = analysis([figure("a", 0.4, control=control), figure("a, untrained", 0.2), figure("b", 0.3)])
    [said] = summarise(subject)
    assert "a, b: 2 figures, 1 of them beside a control and each model beside its untrained twin; 0 could not" in said
    assert list(tell_answers(subject)) == [
        "M33, anisotropy (cosine): a 0.40 (0.30 to 0.50), untrained 0.20 (0.10 to 0.30); b 0.30 (0.20 to 0.40)."
    ]


def test_controls_are_explained_and_notes_and_reasons_are_said_once() -> None:
    control = {"value": 0.0, "low": -0.1, "high": 0.1, "meaning": "noise"}
    findings = [figure("a", 0.4, control=control, note="mine"), figure("b", 0.3), figure("a, untrained", 0.2)]
    lacking = [
        {"claim": "M33", "model": model, "name": name, "reason": "is no pair"}
        for model in ("a", "a, untrained")
        for name in ("balance", "ratio")
    ]
    shown = show_findings(analysis(findings, lacking))
    assert "<li>anisotropy: of a. Control: noise.</li><li>Note of a: mine.</li>" in shown
    assert shown.count("is no pair") == 1
    assert "<strong>balance; ratio (a).</strong>" in shown
    assert "<p>What shape has the cloud of states" in shown


def test_widths_of_the_context_and_long_tables_are_folded() -> None:
    widths = [figure("a", 0.4, claim="M38", layer=None, name=f"AUC, ±{width}", part=str(width)) for width in (1, 4)]
    shown = show_findings(analysis([figure("a", 0.4, claim="M38", layer=None, name="AUC, gain beyond ±4"), *widths]))
    assert "±1" not in shown.partition("<details><summary>All figures</summary>")[0]
    many = [figure("a", 0.4, name=f"measure {number}") for number in range(13)]
    assert "layers at the last one: 13 rows</summary>" in show_findings(analysis(many))


@pytest.mark.parametrize("names", ["abc", "abcd"])
def test_pictures_of_many_models_are_folded_by_model_and_those_of_all_are_not(names: str) -> None:
    models = [{"name": name, "control_of": None} for name in names]
    models.append({"name": "a, untrained", "control_of": "a"})
    owners = (None, *names, "a, untrained")
    drawings = [{"claim": "M33", "model": one, "file": f"{one}.png", "title": f"picture of {one}"} for one in owners]
    found = {"models": models, "findings": [figure("a", 0.4)], "missing": [], "drawings": drawings}
    subject = Subject("analysis", "seen", HERE, analysis=found, pictures={str(one): "data:," for one in owners})
    shown = show_findings(subject)
    open_part = shown.partition("<details>")[0]
    assert [f'alt="picture of {one}"' in open_part for one in (None, *names)] == [True] + [len(names) < 4] * len(names)
    assert ("<summary>b: 1 picture</summary>" in shown) == (len(names) > 3)
    assert "<summary>Before training: 1 picture</summary>" in shown
    assert all(shown.count(f'alt="picture of {one}"') == 1 for one in owners)


def test_each_claim_of_several_has_a_link_to_it() -> None:
    shown = show_findings(analysis([figure("a", 0.4), figure("a", 0.4, claim="M35")]))
    assert '<a href="#seen-M35">M35</a>' in shown
    assert '<h3 id="seen-M35">' in shown


def run(name: str, objective: str = "electra", data: str = "d", **settings: Any) -> Subject:
    records = [make_record(1), make_record(2)]
    identity = {"data": data, "total_steps": 2, "settings": {"objective": objective, **settings}}
    results = {"heldout": {**SCORES, "generator_loss": len(name)}}
    return Subject("run", name, HERE, identity=identity, logs={"": records}, results=results)


def find_note(*subjects: Subject) -> str:
    return next(chart.note for chart in draw_charts(subjects) if chart.name == "guessing-loss")


def test_why_runs_are_not_to_be_compared_is_the_true_reason() -> None:
    assert find_note(run("a"), run("b")) == ""
    assert "Compare shapes" not in show_final([run("a"), run("b")])
    assert find_note(run("a"), run("b", "mlm")).endswith("their objectives ask about different tokens.")
    assert find_note(run("a"), run("b", data="e")).endswith("their data differ.")
    shown = show_final([run("a"), run("b", "mlm", generator={"width_share": 1})])
    assert "Guesses. Compare shapes, not levels: their objectives ask about different tokens." in shown
    assert "Verdicts. Compare shapes, not levels: each is judged against a generator of its own kind." in shown


def test_a_comparison_says_who_is_ahead_and_whether_the_compute_was_equal() -> None:
    page = compose_page([run("a"), run("bb")])
    assert "All had about equal compute, 2e9 FLOPs." in page
    assert "loss of guesses, a is ahead (1 against 2 of bb)" in page
    assert "a is ahead" not in compose_page([run("a"), run("bb", data="e")])
    longer = Subject("run", "c", HERE, logs={"": [make_record(9)]})
    assert "Their compute is not equal (a 2e9, c 9e9 FLOPs)" in compose_page([run("a"), longer])


def test_the_compute_of_a_fine_tuning_is_that_of_all_seeds() -> None:
    logs = {f"seed-{seed}": [make_record(10)] for seed in range(3)}
    shown = show_compute([Subject("fine-tuning run", "tuned", HERE, logs=logs)])
    for name, said in (("steps", "30"), ("tokens", "3,000"), ("FLOPs", "3e10"), ("time", "15 s")):
        assert f'<th scope="row">{name}</th><td class="number">{said}</td>' in shown


def test_dev_scores_are_drawn_in_points_and_their_own_picture_is_not_shown_again() -> None:
    logs = {"seed-0": [make_record(step, dev_mcc=step / 10) for step in (1, 2)]}
    pictures = {"learning-curve": "data:,", "other": "data:,"}
    subject = Subject("fine-tuning run", "tuned", HERE, logs=logs, pictures=pictures)
    chart = next(chart for chart in draw_charts([subject]) if chart.name == "key-dev_mcc")
    assert (chart.title, chart.unit, chart.lines[0].y) == ("Dev MCC", "points", [10.0, 20.0])
    assert show_pictures(subject).count("<img") == 1


def test_subjects_of_different_kinds_are_shown_under_their_names_and_not_compared() -> None:
    page = compose_page([run("a"), study(0.4)])
    assert '<h3>a</h3><div class="scroll" role="region" aria-label="On rows that training does not see"' in page
    assert "<h3>study</h3>" in page
    assert "Settings that are not the same in all (" not in page
    assert "Settings that are not the same in all (runs)" in compose_page([run("a"), run("b", "mlm"), study(0.4)])


def test_results_are_missed_only_when_training_is_over(tmp_path: Path) -> None:
    going = read_subject(make_run(tmp_path / "going", steps=20, total=80))
    assert going.troubles == ()
    assert not is_finished(going)
    assert is_finished(read_subject(make_run(tmp_path / "over")))
    assert news([going], lambda _: ())["is_finished"] is False


def test_a_comparison_without_examples_says_why_once(tmp_path: Path) -> None:
    runs = [read_subject(make_run(tmp_path / name), name) for name in "ab"]
    assert compose_page(runs).count("<strong>No examples.</strong>") == 1


def test_environments_stand_in_one_table(tmp_path: Path) -> None:
    runs = [read_subject(make_run(tmp_path / name), name) for name in "ab"]
    page = compose_page(runs)
    assert page.count("<caption>Environment</caption>") == 1
    assert '<th scope="row">torch</th><td class="number">2</td><td class="number">2</td>' in page


@pytest.mark.parametrize(
    ("loss", "said"), [(4.5, "4.50 nats, better than 6.90"), (7.0, "7.00 nats, no better than 6.90")]
)
def test_guesses_say_whether_they_beat_the_trivial_answer(tmp_path: Path, loss: float, said: str) -> None:
    folder = make_run(tmp_path / "run")
    results = json.loads((folder / "results.json").read_text())
    results["heldout"]["generator_loss"] = loss
    (folder / "results.json").write_text(json.dumps(results))
    assert said in " ".join(summarise(read_subject(folder)))
