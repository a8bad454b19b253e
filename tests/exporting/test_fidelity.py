"""What an exported network is off by is said in the terms of its task, and tried on pairs of texts too."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from little_exports import LENGTH, TEXT, TOKENIZER, build_classic, build_task, save_classic, save_task

import electralab
from electralab.exporting.export import ExportConfig, _read_samples, _read_source
from electralab.exporting.fidelity import Exportable, Sample, compare_networks, make_pair, sample_rows
from electralab.exporting.onnx_graphs import feed
from electralab.model.task_model import HeadConfig, SpanLogits, TaskModel
from electralab.records.export import Fidelity, ProbabilityFidelity, ValueFidelity

SAMPLES = sample_rows(TOKENIZER, build_classic().discriminator.config)
SPECIAL = TOKENIZER.special


def compare(ours: Exportable, theirs: Exportable, *, has_energies: bool = False) -> Fidelity:
    return compare_networks(ours, theirs, SAMPLES, SPECIAL, outputs_energies=has_energies)


def test_pairs_have_their_segments_and_fit() -> None:
    first, second = np.full(30, 7), np.full(3, 8)
    pair = make_pair(first, second, TOKENIZER, 12)
    assert pair.ids.tolist() == [SPECIAL.cls, *[7] * 6, SPECIAL.sep, *[8] * 3, SPECIAL.sep]
    assert pair.segment_ids.tolist() == [0] * 8 + [1] * 4
    assert len(make_pair(second, first, TOKENIZER, 12).ids) == len(make_pair(first, first, TOKENIZER, 12).ids) == 12
    assert sum(sample.segment_ids.any() for sample in SAMPLES) >= 8
    assert max(len(sample.ids) for sample in SAMPLES) == LENGTH


def test_a_network_of_one_segment_is_given_no_second() -> None:
    config = build_classic().discriminator.config.model_copy(update={"num_segments": 1})
    assert not any(sample.segment_ids.any() for sample in sample_rows(TOKENIZER, config))


def test_a_wrong_second_segment_is_found() -> None:
    """The first segment is the same: rows of one text would not show it."""
    ours, theirs = build_classic().discriminator, build_classic().discriminator
    with torch.no_grad():
        (segments,) = (of for name, of in theirs.named_parameters() if "segment" in name)
        segments[1] += torch.linspace(-1, 1, 16)
    assert compare(ours, theirs).largest_difference > 1e-3


def test_calibration_is_fed_the_segments() -> None:
    pair = make_pair(np.array([7]), np.array([8]), TOKENIZER, LENGTH)
    assert feed(pair)["token_type_ids"].tolist() == [[0, 0, 0, 1, 1]]


def read_given(source: Path, data: Path) -> list[Sample]:
    samples = _read_samples(_read_source(source, "onnx"), ExportConfig(rows=6), data)
    assert len(samples) == 6 + len(SAMPLES)
    return samples[:6]


@pytest.mark.parametrize(("num_texts", "paired"), [(0, 3), (1, 0), (2, 6)])
def test_text_is_read_as_the_network_is_asked(tmp_path: Path, num_texts: int, paired: int) -> None:
    """Of six rows all are pairs for a task of two texts, none for one of one, half where it is not known."""
    (tmp_path / "text.txt").write_text(f"{TEXT}\n\n" * 30)
    source = save_task(tmp_path / "task", HeadConfig(kind="classify", labels=("no", "yes")), num_texts)
    given = read_given(source, tmp_path / "text.txt")
    assert sum(sample.segment_ids.any() for sample in given) == paired
    assert all(len(sample.ids) == LENGTH for sample in given)


def test_every_row_is_a_question_where_questions_are_answered(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(f"{TEXT}\n\n" * 30)
    given = read_given(save_task(tmp_path / "qa", HeadConfig(kind="qa"), 0), tmp_path / "text.txt")
    assert all(sample.segment_ids.any() for sample in given)


def test_spans_are_compared_over_positions() -> None:
    """All starts likelier by the same: each logit is off, no probability and no best span is."""
    ours, theirs = (build_task(HeadConfig(kind="qa")) for _ in range(2))
    with torch.no_grad():
        theirs.head.output.bias[0] += 0.25
    off = compare(ours, theirs)
    assert isinstance(off, ProbabilityFidelity)
    assert off.largest_difference == pytest.approx(0.25, abs=1e-5)
    assert off.largest_probability_difference == pytest.approx(0.0, abs=1e-5)
    assert (off.agreement, off.answers) == (1.0, len(SAMPLES))
    assert off.words["texts with the same best span"] == "100.00 %"


def find_span(network: TaskModel, sample: Sample) -> tuple[int, int]:
    """The slow twin: every span that does not end before it begins and lies in the second text, or is [CLS]."""
    with torch.inference_mode():
        said = network(torch.from_numpy(sample.ids)[None], torch.from_numpy(sample.segment_ids)[None], None)
    assert isinstance(said, SpanLogits)
    is_pair = sample.segment_ids.any()
    places = [place for place in range(len(sample.ids)) if place == 0 or not is_pair or sample.segment_ids[place]]
    spans = {(a, b): float(said.start[0, a] + said.end[0, b]) for a in places for b in places if a <= b}
    return max(spans, key=lambda span: spans[span])


def test_best_spans_agree_as_often_as_a_slow_search_says() -> None:
    ours, theirs = (build_task(HeadConfig(kind="qa")) for _ in range(2))
    with torch.no_grad():
        theirs.head.output.weight += 0.3 * torch.randn(2, 16, generator=torch.Generator().manual_seed(1))
    same = [find_span(ours, sample) == find_span(theirs, sample) for sample in SAMPLES]
    off = compare(ours, theirs)
    assert isinstance(off, ProbabilityFidelity)
    assert 0.2 < off.agreement < 1
    assert off.agreement == pytest.approx(sum(same) / len(same))


def test_a_changed_mind_about_whether_there_is_an_answer_counts() -> None:
    head = HeadConfig(kind="qa", has_answerability=True)
    ours, theirs = build_task(head), build_task(head)
    with torch.no_grad():
        for network, bias in ((ours, 100.0), (theirs, -100.0)):
            assert network.head.answerable is not None
            network.head.answerable.bias.fill_(bias)
    off = compare(ours, theirs)
    assert isinstance(off, ProbabilityFidelity)
    assert off.agreement == 0.0
    assert off.largest_probability_difference == pytest.approx(1.0)


def test_numbers_are_compared_in_the_units_of_the_label() -> None:
    ours, theirs = (build_task(HeadConfig(kind="regress", origin=3.0, unit=2.0)) for _ in range(2))
    with torch.no_grad():
        theirs.head.output.bias.add_(0.25)
    off = compare(ours, theirs)
    assert isinstance(off, ValueFidelity)
    assert off.mean_difference == pytest.approx(0.5, abs=1e-5)
    assert off.largest_difference == pytest.approx(0.5, abs=1e-5)
    assert off.correlation == pytest.approx(1.0, abs=1e-6)
    assert off.share_of_spread == pytest.approx(0.5 / off.spread, abs=1e-5)
    assert off.words["mean difference of a number, in the units of the label"] == "0.5"


def test_numbers_that_are_all_one_have_no_correlation() -> None:
    network = build_task(HeadConfig(kind="regress"))
    with torch.no_grad():
        network.head.output.weight.zero_()
    off = compare(network, network)
    assert isinstance(off, ValueFidelity)
    assert (off.correlation, off.share_of_spread, off.largest_difference) == (None, None, 0.0)
    assert "correlation with the model's answers" not in off.words


def test_energies_are_compared_as_energies_and_their_card_claims_no_verdicts(tmp_path: Path) -> None:
    source = save_classic(tmp_path / "electric", "electric")
    result = electralab.export(source / "export" / "discriminator", tmp_path / "out", format="onnx-int8")
    folder = tmp_path / "out" / "discriminator"
    said = json.loads((folder / "export.json").read_text())
    assert said["subject"] == "energies"
    assert said["correlation"] > 0.9
    assert "mean difference of an energy" in said["words"]
    assert result["networks"]["discriminator"]["words"] == said["words"]
    card = (folder / "README.md").read_text()
    assert all(f"| {what} | {value} |" in card for what, value in said["words"].items())
    assert "Electric's discriminator: for every token an energy" in card
    assert "above 0 where" not in card
    assert "`replaced`" not in card
    assert "id2label" not in json.loads((folder / "config.json").read_text())
