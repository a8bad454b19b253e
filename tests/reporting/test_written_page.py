"""The page: what it says in words, that it says it safely, and that it says no more than its files do."""

import json
import re
import signal
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from report_folders import SCORES, make_record, make_run, make_steps, write_examples

from electralab.errors import Stopped, TrainingDiverged, UsageError
from electralab.events import Event, Note, Result
from electralab.records.run import Budget, ExampleRow, GuessedToken, PretrainResults, RunExamples, RunFingerprint
from electralab.reporting import page as page_module
from electralab.reporting.artifact import Artifact, find_differences, read_artifact
from electralab.reporting.blocks import Table
from electralab.reporting.curves import plot_logs
from electralab.reporting.format import format_count, format_estimate, format_seconds
from electralab.reporting.html import json_in_html, render_blocks
from electralab.reporting.page import compose_page, compose_update, summarise, with_page, write_report

HERE = Path("here")
EVIL = "</script><img src=x onerror=alert(1)>\"'&"


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def elements(page: str) -> list[tuple[str, dict[str, str | None]]]:
    parser = _Elements()
    parser.feed(page)
    return parser.seen


def section_of(page: str, name: str) -> str:
    match = re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL)
    return match.group() if match else ""


def run(name: str, objective: str = "electra", data: str = "d", **settings: Any) -> Artifact:
    """A finished run of two steps; its loss of guesses is the length of its name."""
    fingerprint = RunFingerprint(
        data=data,
        init_from="",
        settings={"objective": objective, **settings},
        budget=Budget("steps", 2),
        total_steps=2,
        threads=1,
    )
    heldout = {**SCORES, "generator_loss": float(len(name))}
    results = PretrainResults(objective=objective, step=2, tokens=200, flops=2 * 10**9, seconds=1, heldout=heldout)
    logs = {"": make_steps(make_record(1), make_record(2))}
    return Artifact("run", name, HERE, run=fingerprint, pretrained=results, logs=logs)


def test_baselines_are_told_in_words(tmp_path: Path) -> None:
    text = " ".join(summarise(read_artifact(make_run(tmp_path / "mine"))))
    assert text.startswith("mine is an ELECTRA pair of size tiny on the modern backbone: a generator guesses")
    assert "It was trained for 40 steps on 4,000 tokens in 20 s, 4e10 FLOPs." in text
    assert "restores 27.7 % of the hidden tokens of text it has not seen; always saying the most frequent one" in text
    assert "gets 5.0 %" in text
    assert "as many calls at random would find 2.5 %" in text
    assert "Its loss is 0.315, better than 0.370 of knowing only their share." in text


@pytest.mark.parametrize(
    ("loss", "told"), [(4.5, "4.50 nats, better than 6.90"), (7.0, "7.00 nats, no better than 6.90")]
)
def test_guesses_say_whether_they_beat_the_trivial_answer(tmp_path: Path, loss: float, told: str) -> None:
    folder = make_run(tmp_path / "run")
    results = json.loads((folder / "results.json").read_text())
    results["heldout"]["generator_loss"] = loss
    (folder / "results.json").write_text(json.dumps(results))
    assert told in " ".join(summarise(read_artifact(folder)))


def test_a_run_that_is_still_training_says_how_far_it_is(tmp_path: Path) -> None:
    artifact = read_artifact(make_run(tmp_path / "mine", steps=20, total=80))
    assert "It is at step 20 of 80 (25.0 %)" in " ".join(summarise(artifact))
    assert '<progress max="80" value="20"' in compose_page([artifact])
    update = compose_update([artifact], lambda _: ())
    assert update["is_finished"] is False
    assert isinstance(update["figures"], dict)
    assert "loss" in update["figures"]


def test_nothing_from_a_file_becomes_markup(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", size=EVIL, model={"backbone": EVIL, EVIL: EVIL})
    (folder / "environment.json").write_text(json.dumps({EVIL: EVIL, "command": [EVIL]}))
    (folder / "metrics.jsonl").write_text(json.dumps({"step": 1, EVIL: 2.0}) + "\n")
    guess = GuessedToken(text=EVIL, p=0.5, continues_word=False)
    row = ExampleRow(pieces=[EVIL], is_masked=[True], guesses=[[guess]], corrupted=[EVIL], is_replaced=[True])
    RunExamples(objective=EVIL, step=1, rows=(row,)).write(folder)
    evaluation = {"suite": "rtd", "model": EVIL, "data": EVIL, "scores": {EVIL: 1.0}, "notes": [EVIL]}
    (folder / "scores.json").write_text(json.dumps(evaluation))
    (folder / "analysis").mkdir()
    evil = {"name": EVIL, "claim": EVIL, "reason": EVIL, "model": EVIL, "value": 1.0, "unit": EVIL, "meaning": EVIL}
    analysis = {"seed": 0, "models": [], "missing": [evil], "findings": [{**evil, "layer": None}], "drawings": []}
    (folder / "analysis" / "analysis.json").write_text(json.dumps(analysis))
    artifact = read_artifact(folder, EVIL)
    assert artifact.troubles == ()
    seen = elements(compose_page([artifact]))
    assert not [tag for tag, _ in seen if tag == "img"]
    assert sum(tag == "script" for tag, _ in seen) == 2


def test_the_page_keeps_its_own_policy(tmp_path: Path) -> None:
    page = compose_page([read_artifact(make_run(tmp_path / "run"))])
    seen = elements(page)
    assert not [names for _, names in seen if any(name == "style" or name.startswith("on") for name in names)]
    assert [tag for tag, _ in seen].count("style") == 1
    assert not re.search(r'(src|href)="(?!#|data:)', page)
    policy = next(names["content"] for _, names in seen if names.get("http-equiv"))
    for text in (re.search(r"<style>(.*?)</style>", page, re.S), re.search(r"<script>(.*?)</script>", page, re.S)):
        assert text
        assert policy
        assert b64encode(sha256(text[1].encode()).digest()).decode() in policy


def test_json_cannot_end_its_element() -> None:
    assert "<" not in json_in_html({"a": "</script>"})
    assert json.loads(json_in_html({"a": "</script>"})) == {"a": "</script>"}


def test_cells_are_text_and_columns_of_numbers_stand_to_the_right() -> None:
    made = render_blocks([Table("t", ["a", "b", "c"], [("<b>.x", "−0.1", 1), ("y", None, "wide")])])
    assert '<th scope="row">&lt;b&gt;.<wbr>x</th><td class="number">−0.1</td><td>1</td>' in made
    assert '<th scope="col" class="number">b</th><th scope="col">c</th>' in made


def test_only_settings_that_differ_are_told() -> None:
    first: dict[str, Any] = {"size": "tiny", "model": {"layers": 2, "heads": 2}}
    second: dict[str, Any] = {"size": "tiny", "model": {"layers": 4, "heads": 2}, "extra": True}
    assert find_differences([first, second]) == {"model.layers": [2, 4], "extra": ["–", True]}
    assert find_differences([first, first]) == {}


def test_digits_follow_the_width_of_the_interval() -> None:
    assert format_estimate(-0.12345, -0.2, -0.05) == "−0.12 (−0.20 to −0.05)"
    assert format_estimate(1234.5, 1000, 1500) == "1234 (1000 to 1500)"
    assert format_estimate(-1e-17, -2e-17, 0.0) == "0"
    assert format_estimate(0.5) == "0.5"
    assert format_estimate(None) == "–"


def test_numbers_are_said_shortly() -> None:
    assert [format_count(value) for value in (950, 11_366_345, 2.1e9)] == ["950", "11.4 million", "2.1 billion"]
    assert [format_seconds(value) for value in (42, 90, 600, 7200)] == ["42 s", "1.5 min", "10 min", "2.0 h"]


def test_examples_are_shaded_marked_and_counted(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    row = ExampleRow(
        pieces=["a", "cat"],
        is_masked=[False, True],
        guesses=[[], [GuessedToken(text="cow", p=0.5, continues_word=False)]],
        corrupted=["a", "dog"],
        is_replaced=[False, True],
        p_replaced=[0.1, 0.93],
    )
    RunExamples(objective="electra", step=40, rows=(row,)).write(folder)
    page = compose_page([read_artifact(folder)])
    assert "<del>cat</del>" in page
    assert '<span class="heat-9 put" title="93.0 % replaced">dog</span>' in page
    assert "1 hidden, 0 restored, 1 replaced; 1 of them found, 0 false alarms." in page
    assert "“cow” 50.0 %" in page


def test_examples_without_a_discriminator_show_the_likeliest_guesses(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", objective="mlm")
    guesses = [[GuessedToken(text=text, p=0.5, continues_word=True)] for text in ("at", "og")]
    pieces = ["c", "##at", "d", "##ig"]
    row = ExampleRow(pieces=pieces, is_masked=[False, True] * 2, guesses=[[], guesses[0], [], guesses[1]])
    RunExamples(objective="mlm", step=40, rows=(row,)).write(folder)
    page = compose_page([read_artifact(folder)])
    assert "<p>c<del>at</del> d<del>ig</del></p>" in page
    assert '<p>c<span class="back">at</span> d<span class="put">og</span></p>' in page
    assert "2 hidden, 1 restored." in page


def test_a_causal_run_says_that_nothing_is_hidden(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run", objective="causal")
    scores = {"next_loss": 5.0, "next_accuracy": 0.2}
    PretrainResults(objective="causal", step=40, tokens=1, flops=1, seconds=1, heldout=scores).write(folder)
    page = compose_page([read_artifact(folder)])
    assert "<strong>Nothing is hidden.</strong>" in page
    assert "The model foresees 20.0\N{NO-BREAK SPACE}% of the next tokens of text it has not seen." in page


def test_charts_that_show_nothing_but_zeros_are_folded(tmp_path: Path) -> None:
    folder = make_run(tmp_path / "run")
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    def page(recall: float) -> str:
        written = "".join(json.dumps({**record, "recall": recall, "heldout_recall": 0.0}) + "\n" for record in records)
        (folder / "metrics.jsonl").write_text(written)
        return compose_page([read_artifact(folder, "run")])

    folded = page(0.0).partition("<details><summary>Always 0: Replaced tokens found</summary>")[2]
    assert 'data-chart="recall"' in folded.partition("</details>")[0]
    assert "Always 0" not in page(0.01)


def test_a_comparison_says_what_differs_and_all_last_scores(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / "a"), make_run(tmp_path / "b", seed=1)]
    result = write_report(runs, tmp_path / "report.html")
    assert [subject.name for subject in result.subjects] == ["a", "b"]
    page = (tmp_path / "report.html").read_text()
    assert '<th scope="row">seed</th><td class="number">0</td><td class="number">1</td>' in page
    assert '<th scope="row">accuracy of guesses</th><td class="number">0.277</td>' in page
    assert '<th scope="row">size</th>' not in page.partition('id="settings"')[0]
    assert page.count("<caption>Environment</caption>") == 1
    assert '<th scope="row">torch</th><td class="number">2</td><td class="number">2</td>' in page
    assert page.count("<strong>No examples.</strong>") == 1


def test_examples_of_several_runs_stand_under_their_names(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / name) for name in "ab"]
    write_examples(runs[0])
    page = compose_page([read_artifact(folder, folder.name) for folder in runs])
    assert "<h3>a</h3>" in section_of(page, "examples")
    assert "<h3>b</h3><p" in section_of(page, "examples")


def find_note(*artifacts: Artifact) -> str:
    return next(chart.note for chart in plot_logs(artifacts) if chart.name == "guessing-loss")


def test_why_runs_are_not_to_be_compared_is_the_true_reason() -> None:
    assert find_note(run("a"), run("b")) == ""
    assert "Compare shapes" not in section_of(compose_page([run("a"), run("b")]), "scores")
    assert find_note(run("a"), run("b", "mlm")).endswith("their objectives ask about different tokens.")
    assert find_note(run("a"), run("b", data="e")).endswith("their data differ.")
    shown = section_of(compose_page([run("a"), run("b", "mlm", generator={"width_share": 1})]), "scores")
    assert "Guesses. Compare shapes, not levels: their objectives ask about different tokens." in shown
    assert "Verdicts. Compare shapes, not levels: each is judged against a generator of its own kind." in shown


def test_a_comparison_says_who_is_ahead_and_whether_the_compute_was_equal() -> None:
    page = compose_page([run("a"), run("bb")])
    assert "All had about equal compute, 2e9 FLOPs." in page
    assert "loss of guesses, a is ahead (1 against 2 of bb)" in page
    assert "a is ahead" not in compose_page([run("a"), run("bb", data="e")])
    longer = Artifact("run", "c", HERE, logs={"": make_steps(make_record(9))})
    assert "Their compute is not equal (a 2e9, c 9e9 FLOPs)" in compose_page([run("a"), longer])


def test_the_compute_of_a_fine_tuning_is_that_of_all_seeds() -> None:
    logs = {f"seed-{seed}": make_steps(make_record(10)) for seed in range(3)}
    shown = section_of(compose_page([Artifact("fine-tuning run", "tuned", HERE, logs=logs)]), "compute")
    for name, value in (("steps", "30"), ("tokens", "3,000"), ("FLOPs", "3e10"), ("time", "15 s")):
        assert f'<th scope="row">{name}</th><td class="number">{value}</td>' in shown


def test_a_picture_that_the_page_draws_itself_is_not_shown_again() -> None:
    pictures = {"learning-curve": "data:,", "other": "data:,"}
    page = compose_page([Artifact("fine-tuning run", "tuned", HERE, pictures=pictures)])
    assert page.count("<img") == 1


def events(end: BaseException | None = None) -> Iterator[Event[int]]:
    if end is not None:
        raise end
    yield Result(7)


def test_finished_work_leaves_its_page_and_says_where_before_its_result(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert list(with_page(run, events())) == [Note(f"page  {run / 'report.html'}"), Result(7)]
    assert "<h1>run</h1>" in (run / "report.html").read_text()


@pytest.mark.parametrize("end", [Stopped(signal.SIGTERM), TrainingDiverged("run: 9 steps were not finite")])
def test_work_that_stops_early_leaves_one_too(tmp_path: Path, end: BaseException) -> None:
    run = make_run(tmp_path / "run", steps=20, total=80)
    with pytest.raises(type(end)):
        list(with_page(run, events(end)))
    assert "It is at step 20 of 80" in (run / "report.html").read_text()


def test_a_folder_that_was_refused_stays_as_it_was_and_an_empty_one_empty(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    for folder, end in ((run, UsageError("run: holds data")), (tmp_path / "empty", Stopped(signal.SIGINT))):
        with pytest.raises(type(end)):
            list(with_page(folder, events(end)))
    assert not (run / "report.html").exists()
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_page_that_cannot_be_written_is_a_warning_and_costs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run")
    (run / "report.html").mkdir()
    note, result = with_page(run, events())
    assert isinstance(note, Note)
    assert note.text.startswith(f"warning: {run / 'report.html'}: could not be written (")
    assert note.text.endswith("tries again")
    assert result == Result(7)

    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr(page_module, "compose_page", fail)
    note, _ = with_page(make_run(tmp_path / "other"), events())
    assert isinstance(note, Note)
    assert "could not be written (ZeroDivisionError); 'electra report" in note.text
