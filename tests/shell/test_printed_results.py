"""Results as a person sees them: tables beside baselines, tokens in their colour, names as they are."""

import io
from collections.abc import Sequence
from typing import Any

import pytest
from rich.console import Console

from electralab.inspection import MetricsView
from electralab.records.answers import Detection, ProofreadResult, TokenScore
from electralab.records.evaluation import EvaluationResult
from electralab.records.run import CostEstimate, PaperTable, PretrainResults
from electralab.records.tuned import GlueResults, TunedResults
from electralab.reporting.blocks import Block
from electralab.reporting.format import tell
from electralab.reporting.study_page import glue_blocks
from electralab.reporting.terminal import print_blocks
from electralab.shell.call import settings_table
from electralab.shell.commands import detect, evaluate, finetune, flops, pretrain, proofread, show

HOSTILE = "a\x1b]0;title\x07b\x9b2Jc\x7f"


def printed(blocks: Sequence[Block], width: int = 100) -> str:
    out = io.StringIO()
    print_blocks(Console(file=out, width=width, markup=False, emoji=False), blocks)
    return out.getvalue()


def cells(blocks: Sequence[Block], width: int = 100) -> list[list[str]]:
    """The cells of each row, as the shell's console draws them."""
    lines = (line.replace("┃", "│").removeprefix("│").removesuffix("│") for line in printed(blocks, width).splitlines())
    return [[cell.strip() for cell in line.split("│")] for line in lines]


def test_scores_of_one_network_stand_beside_what_frequencies_achieve() -> None:
    scores, baselines = {"masked_loss": 4.0, "masked_accuracy": 0.25}, {"masked_loss": 6.0, "masked_accuracy": 0.05}
    ran = {"objective": "mlm", "step": 1000, "tokens": 64000, "flops": 1, "seconds": 1.0}
    results = PretrainResults.model_validate({**ran, "heldout": scores, "baselines": baselines})
    rows = cells(pretrain.result_blocks(results))
    assert rows[0] == ["held out, after 1,000 steps and 64,000 tokens"]
    assert ["masked loss", "4.000", "6.000", "token frequencies"] in rows
    assert ["masked accuracy", "25.0%", "5.0%", "always the most frequent token"] in rows
    assert not any("AUC" in row[0] for row in rows)


SPREAD = {"n": 1, "median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
CLASSES = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 1200}


def tuned(**changes: Any) -> TunedResults:
    values = {
        **{"task": "cola", "metric": "mcc", "best_seed": 0, "steps": 1, "tokens_per_seed": 1, "seconds": 1.0},
        **{"seeds": [{"seed": 0}], "spread": {"dev": {"mcc": SPREAD}}, "report": {}, "dev": {"mcc": 0.5}},
    }
    return TunedResults.model_validate(values | changes)


def test_scores_of_a_run_stand_beside_those_of_the_ensemble_and_the_baselines() -> None:
    rows = cells(finetune.score_blocks(tuned()))
    assert rows[0] == ["cola, one seed"]
    assert rows[2] == ["", "score"]
    assert ["dev mcc", "0.5000"] in rows
    rows = cells(finetune.score_blocks(tuned(seeds=[{"seed": 0}, {"seed": 1}], ensemble={"mcc": 0.7})))
    assert rows[0] == ["cola, 2 seeds"]
    assert ["dev mcc", "0.5000", "0.5100", "0.0200", "0.6250", "0.7000"] in rows
    linear = {"name": "linear", "what": "a linear SVM", "rows": 9, "scores": {"dev": {"mcc": 0.75}}}
    rows = cells(finetune.score_blocks(tuned(baselines={"linear": linear}, notes=["[careful]"])))
    assert ["dev mcc", "0.5000", "0.7500"] in rows
    assert rows[-1] == ["[careful]"]


def test_scores_of_many_seeds_fit_a_narrow_terminal() -> None:
    baseline = {"what": "", "rows": 9, "scores": {"dev": {"mcc": 0.4}}}
    baselines = {name: {"name": name, **baseline} for name in ("commonest", "linear")}
    results = tuned(seeds=[{"seed": 0}, {"seed": 1}], baselines=baselines, ensemble={"mcc": 0.6})
    shown = printed(finetune.score_blocks(results), width=70)
    assert max(map(len, shown.splitlines())) <= 70
    assert "…" not in shown
    assert "0.6000" in shown


def test_classes_are_shown_with_what_they_were_taken_for_where_there_is_room() -> None:
    names = ["[yes]", "no", ":cat:"]
    confusion = [[7, 5, 1], [0, 2, 0], [1, 1, 9]]
    report = {"classes": [{"name": name, **CLASSES} for name in names], "confusion": confusion}
    rows = cells(finetune.score_blocks(tuned(report=report)))
    assert ["[yes]", "50.0", "25.0", "33.3", "1,200"] in rows
    assert ["", *names] in rows
    assert ["[yes]", "7", "5", "1"] in rows
    many = {"classes": [{"name": str(n), **CLASSES} for n in range(27)], "confusion": [[0] * 27] * 27}
    assert "taken for" not in printed(finetune.score_blocks(tuned(report=many)))
    reports = {split: {"classes": [{"name": split, **CLASSES}]} for split in ("dev", "test")}
    shown = printed(finetune.score_blocks(tuned(report=reports["dev"], reports=reports)))
    assert "By class, test set" in shown


def test_an_account_names_the_parts_of_each_network_and_what_is_not_defined() -> None:
    values = {
        **{"objective": "causal", "vocab_size": 8192, "sequence_length": 128, "batch_size": 8, "steps": 100},
        **{"parameters": {"model": {"embeddings": 1000, "layers": 200, "head": 30}}, "total_parameters": 1230},
        **{"forward": {"model": {"attention": 4000, "feed_forward": 5000, "guesses": 600}}, "other": 0},
        **{"step_flops": 29491200, "paper_step_flops": None, "flops": 2949120000, "paper_flops": None},
        **{"tokens": 102400, "memory_bytes": 3 * 2**29, "estimated_minutes": 180.0},
    }
    rows = cells(flops.cost_blocks(CostEstimate.model_validate(values)), width=160)
    for row in (
        ["embeddings", "1,000"],
        ["together", "1,230"],
        ["feed forward", "5,000"],
        ["together", "9,600"],
        ["FLOPs, the run", "2.949e+09", "not defined"],
        ["memory, about", "1.5 GB"],
        ["time here, about", "3.0 hours"],
    ):
        assert row in rows
    assert not any("other tasks" in row[0] for row in rows)
    more = CostEstimate.model_validate(values | {"other": 77})
    assert ["other tasks, FLOPs a token", "77"] in cells(flops.cost_blocks(more))


def test_the_papers_runs_stand_beside_what_was_published() -> None:
    run = {"parameters": 14_100_000, "steps": 1, "paper_flops": 1294 * 10**15, "published_flops": 1.29e18}
    table = PaperTable.model_validate({"runs": {"ELECTRA-Small": run | {"ratio": 1.0031, "flops": 115 * 10**16}}})
    row = ["ELECTRA-Small", "14.1M", "1.294e+18", "1.29e+18", "1.0031", "1.150e+18"]
    assert row in cells([flops.paper_block(table)])


def test_glue_is_in_points_with_the_paper_beside_it() -> None:
    task = {"metric": "accuracy", **SPREAD, "n": 2}
    average = {"median": 0.5, "mean": 0.51, "sd": 0.02, "n": 2, "paper": 0.685}
    held = {"file": "submission-ensemble.zip", "holds": ["AX.tsv"], "missing": ["CoLA.tsv", "RTE.tsv"]}
    ax = {"metric": "mcc", "n": 2, "median": 0.1, "mean": 0.12, "sd": 0.01, "best": 0.13}
    values = {
        **{"suite": "glue", "tasks": {"rte": task, "wnli": task}, "paper": {"rte": 0.685, "wnli": None}},
        **{"average": average, "diagnostics": {"ax": ax}, "submissions": {"ensemble": held}},
    }
    results = GlueResults.model_validate(values)
    rows = cells([*glue_blocks(results)], width=140)
    assert ["rte", "accuracy", "50.0", "51.0", "2.0", "62.5", "2", "68.5"] in rows
    assert ["wnli", "accuracy", "50.0", "51.0", "2.0", "62.5", "2", "–"] in rows
    assert ["ax (mnli)", "Matthews correlation", "10.0", "12.0", "1.0", "13.0", "2", "–"] in rows
    assert ["average", "", "50.0", "51.0", "2.0", "", "2", "68.5"] in rows
    assert ["submission-ensemble.zip: 1 of the 3 files that GLUE's server takes, missing are CoLA.tsv, RTE.tsv"] in rows


def test_an_evaluation_is_a_sentence_a_table_of_scores_and_one_for_each_kind_of_group() -> None:
    result = EvaluationResult(
        suite="blimp",
        model="runs/[a]",
        data="blimp",
        scores={"discriminator": 0.5, "discriminator_interval": [0.25, 0.75], "layer": 3},
        counts={"discriminator_pairs": 1000, "[bad]": 1},
        groups={"field": {"syntax": {"discriminator": 0.625}}, "uid": {str(n): {} for n in range(67)}},
    )
    assert tell(result, "blimp") == [
        "the discriminator prefers the acceptable sentence in 50.0 % of 1,000 pairs (chance: 50 %)"
    ]
    rows = cells(evaluate.score_blocks(result))
    assert rows[0] == ["blimp  runs/[a]"]
    for row in (
        ["discriminator", "0.5000 [0.2500, 0.7500]"],
        ["discriminator pairs", "1,000"],
        ["[bad]", "1"],
        ["syntax", "0.6250"],
    ):
        assert row in rows
    assert not any(row[0] == "66" for row in rows), "sixty-seven groups are not for a terminal"


def test_a_document_gives_no_orders_to_the_terminal() -> None:
    place = HOSTILE.index("c")
    token = TokenScore(text="c", start=place, end=place + 1, p_replaced=0.8, p_original=0.2)
    marked = detect.mark_tokens(Detection(text=HOSTILE, tokens=(token,), suspicious=(0,)))
    for block in (marked, settings_table("plan", {"documents": {HOSTILE: HOSTILE}})):
        assert not set(printed([block])) & set("\x1b\x07\x9b\x7f")


def test_words_that_look_wrong_give_no_orders_to_the_terminal() -> None:
    order = "\x1b[2J"
    finding = {
        "word": {"text": f"ca{order}t", "start": 4, "end": 11, "suspicion": 0.9},
        **{"line": 1, "column": 5, "before": f"the{order} ", "after": f" sat{order}"},
        "suggestions": [{"text": f"dog{order}", "p": 0.5, "distance": 3}],
    }
    proof = {"source": f"[red]{order}.txt", "text": "", "words": 3, "findings": [finding]}
    result = {"model": "m", "threshold": 0.5, "warning": None, "proofs": [proof]}
    out = io.StringIO()

    class Printer:
        console = Console(file=out, width=120, force_terminal=True, color_system=None, markup=False)

    proofread.print_proofs(Printer(), ProofreadResult.model_validate(result))  # type: ignore[arg-type]
    assert out.getvalue().splitlines() == [
        "[red]�[2J.txt: 1 of 3 words look wrong",
        "    1:5    0.90  the�[2J ca�[2Jt sat�[2J   → dog�[2J",
    ]


# A run, as `show` prints it


def lines_of(records: list[dict[str, Any]]) -> list[str]:
    view = MetricsView.model_validate({"kind": "metrics", "path": "run/metrics.jsonl", "records": records})
    return printed(show.view_blocks(view), width=120).splitlines()


def test_a_pair_shows_how_its_networks_stand_against_each_other() -> None:
    records = [
        {
            **{"step": step, "loss": 9.0, "tokens": 10, "gradient_norm": 3.0},
            **{"generator_loss": 8.0 - step, "discriminator_loss": 0.5},
            **{"generator_accuracy": step / 10, "generator_entropy": 4.0, "auc": 0.5 + step / 10},
            **{"discriminator_gradient_norm": 2.0, "generator_gradient_norm": float(step)},
        }
        for step in (1, 2)
    ]
    records[1] |= {"heldout_generator_loss": 6.5, "heldout_auc": 0.75, "heldout_generator_accuracy": 0.25}
    assert lines_of(records) == [
        "metrics run/metrics.jsonl",
        "               generator_loss █▁ 7 → 6",
        "           discriminator_loss ▁▁ 0.5 → 0.5",
        "                          auc ▁█ 0.6 → 0.7",
        "           generator_accuracy ▁█ 0.1 → 0.2",
        "            generator_entropy ▁▁ 4 → 4",
        "  discriminator_gradient_norm ▁▁ 2 → 2",
        "      generator_gradient_norm ▁█ 1 → 2",
        "       heldout_generator_loss ▁ 6.5 → 6.5",
        "                  heldout_auc ▁ 0.75 → 0.75",
        "                     held out G 6.5 (25.0% right)  AUC 0.750",
    ]


@pytest.mark.parametrize(
    ("records", "lines"),
    [
        (
            [{"step": 1, "loss": 5.0, "masked_loss": 5.0, "masked_accuracy": 0.1, "gradient_norm": 1.0}],
            ["                  masked_loss ▁ 5 → 5", "              masked_accuracy ▁ 0.1 → 0.1"],
        ),
        # What was not finite is left out of its curve.
        (
            [{"step": 1, "masked_loss": None}, {"step": 2, "masked_loss": 4.0}],
            ["                  masked_loss ▁ 4 → 4"],
        ),
    ],
)
def test_one_network_shows_its_own_loss_and_no_verdicts(records: list[dict[str, Any]], lines: list[str]) -> None:
    assert lines_of(records)[1:] == lines
