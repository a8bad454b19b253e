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

from electralab.analysis.data import (
    AnalysisModel,
    AnalysisSettings,
    load_analysis_data,
    load_analysis_model,
    reinitialise,
)
from electralab.analysis.finding import Finding, Skipped
from electralab.analysis.measures import list_measures
from electralab.analysis.measures.replacements import HARDENING, tag_tokens
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
        lines = [
            " ".join(words[(row * step + column * step) % len(words)] for column in range(30)) for row in range(40)
        ]
        (folder / f"{name}.txt").write_text("\n".join(lines))
    save_pair(folder / "pair", build_pair(), objective="electra")
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder to be given a log and snapshots."""
    saved: Path = save_pair(tmp_path / "run", build_pair(), objective="electra")
    return saved


def write_log(run: Path, lines: list[dict[str, float]]) -> None:
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def write_snapshots(run: Path, seeds: dict[int, int]) -> None:
    """Step -> the seed of the networks that the run had then."""
    (run / "snapshots").mkdir()
    for step, seed in seeds.items():
        save_pair(run.parent / f"at-{step}", build_pair(seed), objective="electra")
        (run.parent / f"at-{step}" / "export").rename(run / "snapshots" / f"step-{step}")
        (run / "snapshots" / f"step-{step}" / "progress.json").write_text(json.dumps({"step": step}))


def measure(
    place: Path, claim: str, model: AnalysisModel | Path | None = None, **changes: object
) -> tuple[dict[str, Finding], list[Skipped], list[Any]]:
    settings = AnalysisSettings.model_validate({"rows": 12, "times": 10, "vectors": 100} | changes)
    model = model if isinstance(model, AnalysisModel) else load_analysis_model(model or place / "pair")
    outputs = list(list_measures()[claim].run(model, load_analysis_data(place / "home.txt", settings)))
    figures = {output.name: output for output in outputs if isinstance(output, Finding)}
    skipped = [output for output in outputs if isinstance(output, Skipped)]
    return figures, skipped, [output for output in outputs if not isinstance(output, Finding | Skipped)]


@pytest.mark.parametrize("claim", ["M31", "M32", "M38", "M46", "heads"])
def test_figures_have_intervals_and_controls_and_are_the_same_again(place: Path, claim: str) -> None:
    figures, _, _ = measure(place, claim)
    assert figures
    for figure in figures.values():
        assert figure.control is not None, figure.name
        assert figure.control_meaning, figure.name
        assert not figure.estimate.low > figure.estimate.high, figure.name
    if claim in ("M31", "M46"):
        assert list(map(repr, figures.values())) == list(map(repr, measure(place, claim)[0].values()))


def test_an_untrained_network_is_its_own_control(place: Path) -> None:
    untrained = reinitialise(load_analysis_model(place / "pair"), 0)
    for claim in ("M31", "heads"):
        assert all(figure.control is None for figure in measure(place, claim, untrained)[0].values())
    for claim in ("M39", "M40", "M42", "M47"):
        assert measure(place, claim, untrained) == ({}, [], [])


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
        parts = [figure.part for figure in figures.values() if figure.series == f"{what} by neighbours shown"]
        assert parts[:3] == ["0", "1", "2"]
        assert parts[-1] == "all"
        assert {f"{what}, gain beyond ±16", f"{what}, share beyond ±16", f"{what}, gain by context"} <= set(figures)
    assert {"verdict AUC, ±0", "verdict AUC, whole row"} <= set(figures)


def test_heads_are_told_by_layer_and_drawn(place: Path) -> None:
    model = load_analysis_model(place / "pair")
    outputs = list(
        list_measures()["heads"].run(model, load_analysis_data(place / "home.txt", AnalysisSettings(rows=12)))
    )
    layers = [figure.layer for figure in outputs if isinstance(figure, Finding) and figure.id == "entropy"]
    assert layers == [1, 2]
    assert isinstance(outputs[-1], HeatmapFigure)


def test_flops_are_those_of_a_step_and_torch_agrees(place: Path) -> None:
    figures, missing, _ = measure(place, "M39")
    pair = build_pair()
    config, head = pair.discriminator.config, pair.discriminator.head
    length = config.sequence_length
    step = step_flops(pair.generator.config, config, 1, length, count_masked(length, 0.15), head.kind)  # type: ignore[arg-type]
    assert figures["FLOPs per token"].estimate.value == pytest.approx(step / length / 1e6)
    assert figures["torch's count over ours"].estimate.value == pytest.approx(1)
    assert figures["generator's share"].estimate.value == pytest.approx(0.5, abs=0.1)
    assert missing == []


def test_balance_speaks_as_training_does_and_reads_the_gradient_ratio_from_the_end_of_the_log(
    place: Path, run: Path
) -> None:
    figures, missing, _ = measure(place, "M32")
    assert "generator" in figures["verdict AUC"].note or "discriminator" in figures["verdict AUC"].note
    assert [gap.name for gap in missing] == ["gradient ratio"]
    norms = [1e6, *[4.0] * 49]
    write_log(run, [{"step": 1, "generator_gradient_norm": 1.0, "discriminator_gradient_norm": norm} for norm in norms])
    figures, missing, _ = measure(place, "M32", run)
    assert figures["gradient ratio"].estimate.value == pytest.approx(4)
    assert missing == []


LOG = [{"step": step, "heldout_auc": 0.5 + step / 100, "heldout_generator_loss": 9 - step / 10} for step in range(1, 9)]


def test_the_course_of_training_is_read_from_the_log_and_from_snapshots(place: Path, run: Path) -> None:
    write_log(run, LOG)
    figures, missing, _ = measure(place, "M46", run)
    assert figures["course of the verdict AUC"].estimate.value == pytest.approx(1)
    assert figures["course of the generator loss"].estimate.value == pytest.approx(-1)
    assert "course of training" not in [gap.name for gap in missing]
    write_log(run, [])
    write_snapshots(run, {step: step for step in range(1, 5)})
    figures, _, _ = measure(place, "M46", run)
    names = [f"course of the {name}" for name in ("log p of replacements", "rank of replacements", "difficulty")]
    assert [name for name in figures if name.startswith("course of the ")] == names
    assert "over 4 snapshots" in figures[names[0]].note
    write_log(run, LOG)
    assert {*names, "course of the generator loss"} <= set(measure(place, "M46", run)[0])


def test_an_early_and_a_late_generator_come_before_the_same_judge(place: Path, run: Path) -> None:
    """A generator that has not changed is no harder; without a snapshot it is said what is needed."""
    reasons = {gap.name: gap.reason for gap in measure(place, "M46", run)[1]}
    assert "kept no snapshot" in reasons[HARDENING]
    write_snapshots(run, {2: 1, 4: 7})
    figures, _, _ = measure(place, "M46", run)
    assert figures[HARDENING].estimate.value == 0, "the first snapshot has the run's own generator"
    shutil.rmtree(run / "snapshots" / "step-2")
    harder = measure(place, "M46", run)[0][HARDENING]
    assert harder.estimate.value != 0
    assert harder.control is not None
    assert "after step 4" in harder.note


def test_a_word_of_one_token_has_its_usual_tag() -> None:
    rows = [("cat sat", "NOUN VERB"), ("sat cat xqzjw", "NOUN NOUN ADJ"), ("sat", "VERB")]
    sentences = [TaggedSentence(tuple(words.split()), tuple(tags.split()), ()) for words, tags in rows]
    tags = tag_tokens(TOKENIZER, tuple(sentences))
    cat, sat = (int(row[0]) for row in TOKENIZER.encode_many(["cat", "sat"]))
    assert (tags[cat], tags[sat]) == (0, 1)
    assert (tags >= 0).sum() == 2


def test_domains_need_texts_and_are_as_far_as_they_are(place: Path) -> None:
    assert "--domains" in measure(place, "M44")[1][0].reason
    figures, missing, _ = measure(place, "M44", domains=[str(place / "home.txt"), str(place / "away.txt")])
    assert figures["W₂ to home"].estimate.value == pytest.approx(0, abs=1e-3)
    assert figures["loss risen on home"].estimate.value == 0
    for distance in ("W₂", "sliced W₂", "exact W₂"):
        assert figures[f"{distance} to away"].estimate.value > figures[f"{distance} to home"].estimate.value
        assert [figure.part for figure in figures.values() if figure.series == distance] == ["home", "away"]
    assert [gap.reason for gap in missing] == ["distance and loss: needs at least 4 other domains, got 2; give more"]


def test_a_planted_law_is_fitted_over_runs(place: Path, tmp_path: Path) -> None:
    assert "--runs DIR" in measure(place, "M40")[1][0].reason
    for index, size in enumerate((4, 9, 20, 45, 100, 300)):
        write_run(tmp_path / f"run-{size}", size, 5 - 0.5 * index, "electra")
    figures, missing, _ = measure(place, "M40", runs=str(tmp_path))
    # Size and data of these runs rise together; the power law over compute is told all the same.
    assert [gap.name for gap in missing] == ["scaling law"]
    assert "exponent of the power law" in figures


def test_a_tradeoff_is_read_as_it_was_written(place: Path, tmp_path: Path) -> None:
    assert "electra compress" in measure(place, "M42")[1][0].reason
    path = tmp_path / "tradeoff.json"
    table = write_tradeoff(str(place / "pair"), {"fp32": (100, 1.0, 0.0), "half": (50, 3.0, 2.0)}, 0.5)
    path.write_text(json.dumps(table))
    figures, missing, _ = measure(place, "M42", tradeoff=str(tmp_path))
    assert missing == []
    values = {name.removeprefix("half, "): figure.estimate.value for name, figure in figures.items()}
    assert values == {"size": 0.5, "speed-up": 3.0, "loss": 2.0, "efficiency": 1.5}
    loss = figures["half, loss"].estimate
    assert (loss.low, loss.high) == pytest.approx((2 - 1.386, 2 + 1.386), abs=1e-3)
    for change, reason in (({"variants": 3}, "not a trade-off"), ({"model": "runs/other"}, "is about runs/other")):
        path.write_text(json.dumps(table | change))
        assert reason in measure(place, "M42", tradeoff=str(tmp_path))[1][0].reason


def test_a_tuned_model_loses_its_own_answers_to_damage(place: Path, tmp_path: Path) -> None:
    model, tuned, data = make_tuned(labels=("no", "yes")), tmp_path / "tuned", tmp_path / "data"
    save_model(tuned, model)
    words = ("cat", "sat", "mat", "and", "dog", "saw", "who", "near", "old", "log")
    texts = [" ".join(words[(row * 7 + at * (1 + row % 4)) % len(words)] for at in range(6)) for row in range(90)]
    asked = [ClassificationExample(str(row), (text,), "") for row, text in enumerate(texts)]
    answered = run_to_end(predict_examples([model], asked, batch_tokens=512, stop=StopSignal()))
    answers = [row["prediction"] for row in answered]
    rows = [json.dumps({"text": text, "label": label}) for text, label in zip(texts, answers, strict=True)]
    assert len(set(answers)) == 2
    data.mkdir()
    (data / "train.jsonl").write_text("\n".join(rows[:30]))
    (data / "dev.jsonl").write_text("\n".join(rows[30:]))
    figures, missing, _ = measure(place, "M47", tuned, examples=str(data), rows=60)
    assert missing == []
    assert figures["accuracy, typo 0%"].estimate.value == 1
    assert figures["accuracy, typo 40%"].estimate.value < 1
    assert figures["retained, swap"].estimate.value < 1
    assert "--examples DIR" in measure(place, "M47", tuned)[1][0].reason
    assert "is not tuned" in measure(place, "M47")[1][0].reason


def test_models_of_one_network_say_what_they_lack(place: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mlm"
    folder.mkdir()
    save_network(folder, build_pair().generator, pad_id=TOKENIZER.special.pad, objective="mlm")
    TOKENIZER.save(folder)
    for claim in ("M32", "M46"):
        figures, missing, _ = measure(place, claim, folder)
        assert figures == {}
        assert "give a run of electra" in missing[0].reason
    figures, missing, _ = measure(place, "M31", folder)
    assert missing == []
    assert set(figures) == {"effective tokens", "tokens reached", "pull at masked tokens", "pull at unmasked tokens"}
