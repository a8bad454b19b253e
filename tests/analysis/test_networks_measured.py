"""What is told of a whole model: figures where they can be had, with controls, and reasons where not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from little_analysis import write_tradeoff
from little_models import TEXT, TOKENIZER, build_pair, save_pair
from little_tuned import make_tuned
from test_scaling import write_run

from electralab.analysis.data import AnalysisData, AnalysisSettings, load_analysis_data
from electralab.analysis.finding import Finding, Skipped
from electralab.analysis.measures import list_measures
from electralab.analysis.measures.replacements import HARDENING, tag_tokens
from electralab.analysis.model import AnalysisModel, load_analysis_model, reinitialise
from electralab.analysis.probe_sets import TaggedSentence
from electralab.events import run_to_end
from electralab.finetuning.task_model import predict_examples, save_model
from electralab.model.flops import count_masked, step_flops
from electralab.model.folders.folder import save_network
from electralab.reporting.plots import HeatmapFigure
from electralab.stopping import StopSignal
from electralab.tasks.kinds.classification import ClassificationExample


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("measured")
    words = TEXT.split()
    for name, step in (("home", 1), ("away", 3)):
        lines = [" ".join(words[(row * step + place * step) % len(words)] for place in range(30)) for row in range(40)]
        (folder / f"{name}.txt").write_text("\n".join(lines))
    save_pair(folder / "pair", build_pair(), objective="electra")
    return folder


def settings_of(**changes: object) -> AnalysisSettings:
    return AnalysisSettings.model_validate({"rows": 12, "times": 10, "vectors": 100} | changes)


def data_of(place: Path, settings: AnalysisSettings) -> AnalysisData:
    return load_analysis_data(place / "home.txt", settings)


def measure(
    place: Path, claim: str, model: AnalysisModel | None = None, **changes: object
) -> tuple[dict[str, Finding], list[Skipped], list[Any]]:
    data = data_of(place, settings_of(**changes))
    found = list(list_measures()[claim].run(model or load_analysis_model(place / "pair"), data))
    figures = {one.name: one for one in found if isinstance(one, Finding)}
    rest = [one for one in found if not isinstance(one, Finding | Skipped)]
    return figures, [one for one in found if isinstance(one, Skipped)], rest


@pytest.mark.parametrize("claim", ["M31", "M32", "M38", "M46", "heads"])
def test_figures_have_intervals_and_controls_and_are_the_same_again(place: Path, claim: str) -> None:
    figures, _, _ = measure(place, claim)
    assert figures
    for one in figures.values():
        assert one.control is not None, one.name
        assert one.control_meaning, one.name
        assert not one.estimate.low > one.estimate.high, one.name
    if claim in ("M31", "M46"):
        again, _, _ = measure(place, claim)
        assert list(map(repr, figures.values())) == list(map(repr, again.values()))


def test_an_untrained_network_is_its_own_control(place: Path) -> None:
    twin = reinitialise(load_analysis_model(place / "pair"), 0)
    for claim in ("M31", "heads"):
        assert all(one.control is None for one in measure(place, claim, twin)[0].values())
    for claim in ("M39", "M40", "M42", "M47"):
        assert measure(place, claim, twin) == ({}, [], [])


def test_verdicts_pull_at_more_kinds_of_tokens_than_guesses(place: Path) -> None:
    figures, missing, _ = measure(place, "M31")
    assert missing == []
    assert "pull at replaced tokens" in figures
    assert "pull at replaced tokens, generator" not in figures
    assert 0 < figures["effective tokens"].estimate.value <= 1


def test_reach_is_told_of_verdicts_and_of_guesses_from_the_token_alone_to_the_whole_row(place: Path) -> None:
    figures, missing, _ = measure(place, "M38")
    assert missing == []
    for what in ("verdict AUC", "guess loss"):
        parts = [one.part for one in figures.values() if one.series == f"{what} by neighbours shown"]
        assert parts[:3] == ["0", "1", "2"]
        assert parts[-1] == "all"
    shown = {"verdict AUC, ±0", "verdict AUC, whole row", "guess loss, gain by context"}
    assert shown <= set(figures)
    for what in ("verdict AUC", "guess loss"):
        assert {f"{what}, gain beyond ±16", f"{what}, share beyond ±16"} <= set(figures)


def test_heads_are_told_by_layer_and_drawn(place: Path) -> None:
    found = list(list_measures()["heads"].run(load_analysis_model(place / "pair"), data_of(place, settings_of())))
    layers = [one.layer for one in found if isinstance(one, Finding) and one.name == "attention entropy"]
    assert layers == [1, 2]
    assert isinstance(found[-1], HeatmapFigure)


def test_flops_are_those_of_a_step_and_torch_agrees(place: Path) -> None:
    figures, missing, _ = measure(place, "M39")
    pair = build_pair()
    config = pair.discriminator.config
    length = config.sequence_length
    generator = pair.generator.config
    step = step_flops(generator, config, 1, length, count_masked(length, 0.15), pair.discriminator.head.kind)  # type: ignore[arg-type]
    assert figures["FLOPs per token"].estimate.value == pytest.approx(step / length / 1e6)
    assert figures["torch's count over ours"].estimate.value == pytest.approx(1)
    assert figures["generator's share"].estimate.value == pytest.approx(0.5, abs=0.1)
    assert missing == []


def test_balance_speaks_as_training_does(place: Path) -> None:
    figures, missing, _ = measure(place, "M32")
    assert "generator" in figures["verdict AUC"].note or "discriminator" in figures["verdict AUC"].note
    assert [one.name for one in missing] == ["gradient ratio"]


def test_the_gradient_ratio_is_read_from_the_end_of_the_log(place: Path, tmp_path: Path) -> None:
    run = save_pair(tmp_path / "run", build_pair(), objective="electra")
    lines = [{"step": step, "generator_gradient_norm": 1.0, "discriminator_gradient_norm": 4.0} for step in range(50)]
    lines[0]["discriminator_gradient_norm"] = 1e6
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    figures, missing, _ = measure(place, "M32", load_analysis_model(run))
    assert figures["gradient ratio"].estimate.value == pytest.approx(4)
    assert missing == []


def test_the_course_of_training_is_read_from_the_log(place: Path, tmp_path: Path) -> None:
    run = save_pair(tmp_path / "run", build_pair(), objective="electra")
    lines = [{"step": s, "heldout_auc": 0.5 + s / 100, "heldout_generator_loss": 9 - s / 10} for s in range(1, 9)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    figures, missing, _ = measure(place, "M46", load_analysis_model(run))
    assert figures["course of the verdict AUC"].estimate.value == pytest.approx(1)
    assert figures["course of the generator loss"].estimate.value == pytest.approx(-1)
    assert [one.name for one in missing if one.name == "course of training"] == []


def test_snapshots_say_more_of_the_course_than_the_log(place: Path, tmp_path: Path) -> None:
    run = save_pair(tmp_path / "run", build_pair(), objective="electra")
    for step in range(1, 5):
        save_pair(tmp_path / f"at-{step}", build_pair(step), objective="electra")
        (run / "snapshots").mkdir(exist_ok=True)
        (tmp_path / f"at-{step}" / "export").rename(run / "snapshots" / f"step-{step}")
        (run / "snapshots" / f"step-{step}" / "progress.json").write_text(json.dumps({"step": step}))
    figures, _, _ = measure(place, "M46", load_analysis_model(run))
    courses = [name for name in figures if name.startswith("course of the ")]
    by_snapshots = [f"course of the {name}" for name in ("log p of replacements", "rank of replacements", "difficulty")]
    assert courses == by_snapshots
    assert "over 4 snapshots" in figures[courses[0]].note
    lines = [{"step": s, "heldout_auc": 0.5 + s / 100, "heldout_generator_loss": 9 - s / 10} for s in range(1, 9)]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    figures, _, _ = measure(place, "M46", load_analysis_model(run))
    assert {*by_snapshots, "course of the generator loss"} <= set(figures)


def test_an_early_and_a_late_generator_come_before_the_same_judge(place: Path, tmp_path: Path) -> None:
    """A generator that has not changed is no harder; without a snapshot it is said what is needed."""
    run = save_pair(tmp_path / "run", build_pair(), objective="electra")
    _, missing, _ = measure(place, "M46", load_analysis_model(run))
    [said] = [one.reason for one in missing if one.name == HARDENING]
    assert "kept no snapshot" in said
    (run / "snapshots").mkdir()
    for step, seed in ((2, 1), (4, 7)):
        save_pair(tmp_path / f"at-{step}", build_pair(seed), objective="electra")
        (tmp_path / f"at-{step}" / "export").rename(run / "snapshots" / f"step-{step}")
        (run / "snapshots" / f"step-{step}" / "progress.json").write_text(json.dumps({"step": step}))
    figures, _, _ = measure(place, "M46", load_analysis_model(run))
    assert figures[HARDENING].estimate.value == 0, "the first snapshot has the run's own generator"
    shutil.rmtree(run / "snapshots" / "step-2")
    figures, _, _ = measure(place, "M46", load_analysis_model(run))
    found = figures[HARDENING]
    assert found.estimate.value != 0
    assert found.control is not None
    assert "after step 4" in found.note


def test_a_word_of_one_token_has_its_usual_tag() -> None:
    sentences = (
        TaggedSentence(("cat", "sat"), ("NOUN", "VERB"), ("O", "O")),
        TaggedSentence(("sat", "cat", "xqzjw"), ("NOUN", "NOUN", "ADJ"), ("O", "O", "O")),
        TaggedSentence(("sat",), ("VERB",), ("O",)),
    )
    tags = tag_tokens(TOKENIZER, sentences)
    cat, sat = (int(row[0]) for row in TOKENIZER.encode_many(["cat", "sat"]))
    assert (tags[cat], tags[sat]) == (0, 1)
    assert (tags >= 0).sum() == 2


def test_domains_need_texts_and_are_as_far_as_they_are(place: Path) -> None:
    _, missing, _ = measure(place, "M44")
    assert "--domains" in missing[0].reason
    same, away = str(place / "home.txt"), str(place / "away.txt")
    figures, missing, _ = measure(place, "M44", domains=[same, away])
    assert figures["W₂ to home"].estimate.value == pytest.approx(0, abs=1e-3)
    assert figures["loss risen on home"].estimate.value == 0
    for distance in ("W₂", "sliced W₂", "exact W₂"):
        assert figures[f"{distance} to away"].estimate.value > figures[f"{distance} to home"].estimate.value
        assert [one.part for one in figures.values() if one.series == distance] == ["home", "away"]
    assert [one.reason for one in missing] == ["distance and loss: needs at least 4 other domains, got 2; give more"]


def test_a_planted_law_is_found_over_runs(place: Path, tmp_path: Path) -> None:
    _, missing, _ = measure(place, "M40")
    assert "--runs DIR" in missing[0].reason
    for place_of, size in enumerate((4, 9, 20, 45, 100, 300)):
        write_run(tmp_path / f"run-{size}", size, 5 - 0.5 * place_of, "electra")
    _, missing, _ = measure(place, "M40", runs=str(tmp_path))
    # Size and data of these runs rise together; the power law over compute is told all the same.
    assert [one.name for one in missing] == ["scaling law"]
    figures, _, _ = measure(place, "M40", runs=str(tmp_path))
    assert "exponent of the power law" in figures


def test_a_tradeoff_is_read_as_it_was_written(place: Path, tmp_path: Path) -> None:
    _, missing, _ = measure(place, "M42")
    assert "electra compress" in missing[0].reason
    variants = {"fp32": (100, 1.0, 0.0), "half": (50, 3.0, 2.0)}
    table = write_tradeoff(str(place / "pair"), variants, 0.5)
    (tmp_path / "tradeoff.json").write_text(json.dumps(table))
    figures, missing, _ = measure(place, "M42", tradeoff=str(tmp_path))
    assert missing == []
    assert {name: one.estimate.value for name, one in figures.items()} == {
        "half, size": 0.5,
        "half, speed-up": 3.0,
        "half, loss": 2.0,
        "half, efficiency": 1.5,
    }
    loss = figures["half, loss"].estimate
    assert (loss.low, loss.high) == pytest.approx((2 - 1.386, 2 + 1.386), abs=1e-3)
    (tmp_path / "tradeoff.json").write_text(json.dumps(table | {"variants": 3}))
    assert "not a trade-off" in measure(place, "M42", tradeoff=str(tmp_path))[1][0].reason
    (tmp_path / "tradeoff.json").write_text(json.dumps(table | {"model": "runs/other"}))
    assert "is about runs/other" in measure(place, "M42", tradeoff=str(tmp_path))[1][0].reason


def test_a_tuned_model_loses_its_own_answers_to_damage(place: Path, tmp_path: Path) -> None:
    model = make_tuned(labels=("no", "yes"))
    save_model(tmp_path / "tuned", model)
    words = ("cat", "sat", "mat", "and", "dog", "saw", "who", "near", "old", "log")
    texts = [
        " ".join(words[(row * 7 + place_of * (1 + row % 4)) % len(words)] for place_of in range(6)) for row in range(90)
    ]
    asked = [ClassificationExample(str(row), (text,), "") for row, text in enumerate(texts)]
    answered = run_to_end(predict_examples([model], asked, batch_tokens=512, stop=StopSignal()))
    answers = [row["prediction"] for row in answered]
    rows = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, answers, strict=True)]
    assert len(set(answers)) == 2
    data = tmp_path / "data"
    data.mkdir()
    (data / "train.jsonl").write_text("\n".join(rows[:30]))
    (data / "dev.jsonl").write_text("\n".join(rows[30:]))
    tuned = load_analysis_model(tmp_path / "tuned")
    figures, missing, _ = measure(place, "M47", tuned, examples=str(data), rows=60)
    assert missing == []
    assert figures["accuracy, typo 0%"].estimate.value == 1
    assert figures["accuracy, typo 40%"].estimate.value < 1
    assert figures["retained, swap"].estimate.value < 1
    assert "--examples DIR" in measure(place, "M47", tuned)[1][0].reason
    assert "is not tuned" in measure(place, "M47")[1][0].reason


def test_models_of_one_network_say_what_they_lack(place: Path, tmp_path: Path) -> None:
    pair = build_pair()
    special = TOKENIZER.special
    (tmp_path / "mlm").mkdir()
    save_network(tmp_path / "mlm", pair.generator, pad_id=special.pad, objective="mlm")
    TOKENIZER.save(tmp_path / "mlm")
    specimen = load_analysis_model(tmp_path / "mlm")
    for claim in ("M32", "M46"):
        figures, missing, _ = measure(place, claim, specimen)
        assert figures == {}
        assert "give a run of electra" in missing[0].reason
    figures, missing, _ = measure(place, "M31", specimen)
    assert missing == []
    assert set(figures) == {"effective tokens", "tokens reached", "pull at masked tokens", "pull at unmasked tokens"}
