"""Results as a person sees them: colours, curves, and tables that show names as they are."""

import io
from typing import Any

from rich.console import Console, RenderableType

from electralab.tables import (
    class_tables,
    colour_tokens,
    evaluation_tables,
    flops_tables,
    glue_table,
    paper_table,
    results_table,
    sparkline,
    study_tables,
    suspicion,
    tame,
    tree_table,
    tuned_tables,
)


def test_suspicion_rises_from_green_to_red() -> None:
    assert [suspicion(p) for p in (0.1, 0.25, 0.4, 0.9)] == ["green", "yellow", "bold red", "bold white on red"]


def test_each_token_has_its_colour_and_the_text_stays_as_it_is() -> None:
    tokens = [
        {"text": "an", "start": 0, "end": 2, "p_replaced": 0.05},
        {"text": "elephant", "start": 3, "end": 11, "p_replaced": 0.8},
    ]
    coloured = colour_tokens({"text": "an elephant", "tokens": tokens, "suspicious": [1]})
    assert coloured.plain == "an elephant"
    assert [(span.start, span.end, str(span.style)) for span in coloured.spans] == [
        (0, 2, "green"),
        (3, 11, "bold white on red"),
    ]


HOSTILE = "a\x1b]0;title\x07b\x9b2Jc\x7f"


def test_a_document_gives_no_orders_to_the_terminal_and_its_characters_keep_their_places() -> None:
    assert tame("tab\tline\r\nrest") == "tab\tline \nrest"
    assert tame(HOSTILE) == "a�]0;title�b�2Jc�"
    token = {"text": "c", "start": HOSTILE.index("c"), "end": HOSTILE.index("c") + 1, "p_replaced": 0.8}
    coloured = colour_tokens({"text": HOSTILE, "tokens": [token], "suspicious": [0]})
    (span,) = coloured.spans
    assert coloured.plain[span.start : span.end] == "c"
    for shown in (coloured, tree_table("plan", {"documents": {HOSTILE: HOSTILE}})):
        out = io.StringIO()
        Console(file=out, width=100, force_terminal=True, color_system=None, markup=False).print(shown)
        assert not set(out.getvalue()) & set("\x1b\x07\x9b\x7f")


def test_a_sparkline_falls_as_its_values_fall() -> None:
    assert sparkline([8, 7, 6, 5, 4, 3, 2, 1]) == "█▇▆▅▄▃▂▁"


def test_a_flat_curve_is_a_flat_line() -> None:
    assert sparkline([3.0, 3.0, 3.0]) == "▁▁▁"


def render(table: RenderableType, width: int = 100) -> list[list[str]]:
    """The cells of each row, as the shell's console draws them."""
    out = io.StringIO()
    Console(file=out, width=width, markup=False, emoji=False).print(table)
    lines = (line.replace("┃", "│").removeprefix("│").removesuffix("│") for line in out.getvalue().splitlines())
    return [[cell.strip() for cell in line.split("│")] for line in lines]


def test_scores_of_one_network_stand_beside_what_frequencies_achieve() -> None:
    heldout, baselines = {"masked_loss": 4.0, "masked_accuracy": 0.25}, {"masked_loss": 6.0, "masked_accuracy": 0.05}
    rows = render(results_table({"step": 1000, "tokens": 64000, "heldout": heldout, "baselines": baselines}))
    assert rows[0] == ["held out, after 1,000 steps and 64,000 tokens"]
    assert ["masked loss", "4.000", "6.000", "token frequencies"] in rows
    assert ["masked accuracy", "25.0%", "5.0%", "always the most frequent token"] in rows
    assert not any("AUC" in row[0] for row in rows)


def test_scores_of_a_run_stand_beside_those_of_the_ensemble() -> None:
    spread = {"median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
    results: dict[str, Any] = {"task": "cola", "seeds": [{}], "spread": {"dev": {"mcc": spread}}}
    rows = render(next(tuned_tables(results)))
    assert rows[0] == ["cola, one seed"]
    assert rows[2] == ["", "score"]
    assert ["dev mcc", "0.5000"] in rows
    rows = render(next(tuned_tables({**results, "seeds": [{}, {}], "ensemble": {"mcc": 0.7}})))
    assert rows[0] == ["cola, 2 seeds"]
    assert ["dev mcc", "0.5000", "0.5100", "0.0200", "0.6250", "0.7000"] in rows


def test_scores_stand_beside_baselines_on_every_split_that_has_them() -> None:
    of = {"median": 0.5, "mean": 0.5, "sd": 0.0, "best": 0.5}
    baselines = {
        "commonest": {"what": "always 'no'", "rows": 9, "scores": {"dev": {"accuracy": 0.4}}},
        "linear": {"what": "a linear SVM", "rows": 9, "scores": {"dev": {"accuracy": 0.75}, "test": {"accuracy": 0.7}}},
    }
    spread = {"dev": {"accuracy": of}, "test": {"accuracy": of}}
    rows = render(next(tuned_tables({"task": "mine", "seeds": [{}], "spread": spread, "baselines": baselines})))
    assert rows[2] == ["", "score", "commonest", "linear model"]
    assert ["dev accuracy", "0.5000", "0.4000", "0.7500"] in rows
    assert ["test accuracy", "0.5000", "", "0.7000"] in rows


def test_scores_of_many_seeds_fit_a_narrow_terminal() -> None:
    of = {"median": 0.5, "mean": 0.5, "sd": 0.0, "best": 0.5}
    baselines = {
        name: {"what": "", "rows": 9, "scores": {"dev": {"precision": 0.4}}} for name in ("commonest", "linear")
    }
    results = {"task": "ner", "seeds": [{}, {}], "spread": {"dev": {"precision": of}}, "baselines": baselines}
    first, second = (render(table, width=80) for table in tuned_tables({**results, "ensemble": {"precision": 0.6}}))
    assert first[2] == ["", "median", "commonest", "linear model", "mean", "± sd", "best"]
    assert first[4] == ["dev precision", "0.5000", "0.4000", "0.4000", "0.5000", "0.0000", "0.5000"]
    assert second[3] == ["dev precision", "0.6000"]


def test_classes_are_shown_with_what_they_were_taken_for_where_there_is_room() -> None:
    scores = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3, "support": 1200}
    names = ["[yes]", "no", ":cat:"]
    report = {"classes": [{"name": name, **scores} for name in names], "confusion": [[7, 5, 1], [0, 2, 0], [1, 1, 9]]}
    by_class, taken_for = map(render, class_tables({"report": report}))
    assert by_class[0] == ["by class, dev"]
    assert ["[yes]", "0.500", "0.250", "0.333", "1,200"] in by_class
    assert ["", *names] in taken_for
    assert ["[yes]", "7", "5", "1"] in taken_for
    many = {"classes": [{"name": str(n), **scores} for n in range(7)], "confusion": [[0] * 7] * 7}
    assert len(list(class_tables({"report": many}))) == 1
    assert list(class_tables({"report": {}})) == []


def test_classes_are_those_of_a_labelled_test_where_there_is_one() -> None:
    scores = {"precision": 0.5, "recall": 0.25, "f1": 1 / 3}
    reports = {split: {"classes": [{"name": split, "support": 7, **scores}]} for split in ("dev", "test")}
    (table,) = class_tables({"report": reports["dev"], "reports": reports})
    assert render(table)[0] == ["by class, test"]
    assert ["test", "0.500", "0.250", "0.333", "7"] in render(table)


def test_an_account_names_the_parts_of_each_network_and_what_is_not_defined() -> None:
    account = {
        "objective": "causal",
        "vocab_size": 8192,
        "sequence_length": 128,
        "batch_size": 8,
        "parameters": {"model": {"embeddings": 1000, "layers": 200, "head": 30}},
        "forward": {"model": {"attention": 4000, "feed_forward": 5000, "guesses": 600}},
        "other": 0,
        "step_flops": 29491200,
        "paper_step_flops": None,
        "steps": 100,
        "tokens": 102400,
        "flops": 2949120000,
        "paper_flops": None,
        "memory_bytes": 3 * 2**29,
        "total_parameters": 1230,
        "estimated_minutes": 180.0,
    }
    parameters, forward, conventions, run = map(render, flops_tables(account))
    assert parameters[4:8] == [["embeddings", "1,000"], ["layers", "200"], ["head", "30"], ["together", "1,230"]]
    assert [forward[2], forward[5], forward[7]] == [["", "model"], ["feed forward", "5,000"], ["together", "9,600"]]
    assert ["FLOPs, the run", "2.949e+09", "not defined"] in conventions
    assert ["memory, about", "1.5 GB"] in run
    assert ["time here, about", "3.0 hours"] in run
    assert not any("other tasks" in row[0] for row in run)
    assert ["other tasks, FLOPs a token", "77"] in render(list(flops_tables(account | {"other": 77}))[3])


def test_the_papers_runs_stand_beside_what_was_published() -> None:
    run = {"parameters": 14.1e6, "paper_flops": 1.294e18, "published_flops": 1.29e18, "ratio": 1.0031, "flops": 1.15e18}
    rows = render(paper_table({"ELECTRA-Small": run}))
    assert ["ELECTRA-Small", "14.1M", "1.294e+18", "1.29e+18", "1.0031", "1.150e+18"] in rows


def test_glue_is_in_points_with_the_paper_beside_it() -> None:
    spread = {"metric": "accuracy", "median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
    average = {"median": 0.5, "mean": 0.51, "sd": 0.02, "paper": 0.685}
    results = {"tasks": {"rte": spread, "wnli": spread}, "average": average, "paper": {"rte": 0.685, "wnli": None}}
    rows = render(glue_table(results))
    assert ["rte", "accuracy", "50.0", "51.0 ± 2.0", "62.5", "68.5"] in rows
    assert ["wnli", "accuracy", "50.0", "51.0 ± 2.0", "62.5", ""] in rows
    assert ["average", "", "50.0", "51.0 ± 2.0", "", "68.5"] in rows
    alone = {"tasks": {"rte": spread | {"n": 1}}, "average": average | {"n": 1}, "paper": {"rte": 0.685}}
    assert ["rte", "accuracy", "50.0", "51.0", "62.5", "68.5"] in render(glue_table(alone))
    assert ["average", "", "50.0", "51.0", "", "68.5"] in render(glue_table(alone))


def test_glue_says_what_a_submission_lacks_and_shows_the_diagnostic_rows() -> None:
    spread = {"metric": "accuracy", "n": 2, "median": 0.5, "mean": 0.51, "sd": 0.02, "best": 0.625}
    results = {
        "tasks": {"mnli": spread},
        "average": {"median": 0.5, "mean": 0.51, "sd": 0.02, "n": 2, "paper": 0.789},
        "paper": {"mnli": 0.789},
        "diagnostics": {"ax": {"metric": "mcc", "n": 2, "median": 0.1, "mean": 0.12, "sd": 0.01, "best": 0.13}},
        "submissions": {
            "best_seed": {"file": "submission-best-seed.zip", "holds": ["AX.tsv"], "missing": ["CoLA.tsv", "RTE.tsv"]},
            "ensemble": {"file": "submission-ensemble.zip", "holds": ["CoLA.tsv", "RTE.tsv", "AX.tsv"], "missing": []},
        },
    }
    rows = render(glue_table(results), width=140)
    assert ["ax (mnli)", "mcc", "10.0", "12.0 ± 1.0", "13.0", ""] in rows
    told = " ".join(" ".join(cell for row in rows for cell in row).split())
    assert (
        "submission-best-seed.zip: 1 of the 3 files that GLUE's server takes, missing are CoLA.tsv, RTE.tsv "
        "submission-ensemble.zip: 3 of the 3 files that GLUE's server takes"
    ) in told


def test_the_average_of_nothing_is_blank() -> None:
    nothing = dict.fromkeys(("median", "mean", "sd", "paper"))
    rows = render(glue_table({"tasks": {}, "average": nothing, "paper": {}}))
    assert ["average", "", "", "", "", ""] in rows


def test_an_evaluation_is_a_table_of_scores_and_one_for_each_kind_of_group() -> None:
    scores = {"discriminator": 0.5, "discriminator_interval": (0.25, 0.75), "layers": {"best_one": 3}}
    result = {
        "suite": "blimp",
        "model": "runs/[a]",
        "scores": scores,
        "counts": {"bad_rows": 1000, "[bad]": 1},
        "groups": {"field": {"syntax": {"discriminator": 0.625}}, "uid": {str(n): {} for n in range(67)}},
    }
    whole, by_field = evaluation_tables(result)
    rows = render(whole)
    assert rows[0] == ["blimp  runs/[a]"]
    for row in (
        ["discriminator", "0.5000 [0.2500, 0.7500]"],
        ["layers best one", "3"],
        ["bad rows", "1,000"],
        ["[bad]", "1"],
    ):
        assert row in rows
    assert ["syntax", "0.6250"] in render(by_field)


def test_a_study_of_many_arms_is_shown_whole_in_a_narrow_terminal() -> None:
    arms = [f"an-arm-with-a-long-name-{number}" for number in range(6)]
    score = {"n": 2, "mean": 0.5, "sd": 0.1, "low": 0.4, "high": 0.6}
    cost = {"steps": 1e6, "tokens": 3.1e9, "flops": 1.23e17, "parameters": 1.4e7, "pretraining_seconds": 6e4}
    tested = {"score": "blimp", "test": "paired bootstrap", "over": "paradigms", "n": 67, "p": 0.01, "p_holm": 0.02}
    reached = {"flops": None, "share": None, "is_upper_bound": False}
    results = {
        **{"name": "many", "title": "many", "budget": {"flops": 1.23e17}, "seeds": [0, 1], "provenance": {}},
        **{"arms": {}, "cells": [], "curves": {}},
        "baseline": arms[0],
        "x": "flops",
        "scores": {"blimp": "discriminator"},
        "table": [{"arm": arm, "scores": {"blimp": score}, **cost} for arm in arms],
        "comparisons": [{"arm": arm, "versus": arms[0], "mean": 0.1, "low": 0.0, "high": 0.2} | tested for arm in arms],
        "reach": {"blimp": {"target": 0.5, "lines": dict.fromkeys(arms, reached)}},
    }
    shown = [cell for table in study_tables(results) for row in render(table, width=80) for cell in row]
    assert not [cell for cell in shown if "…" in cell]
    assert {*arms[1:], f"{arms[0]} (baseline)", "50.0 ± 10.0", "1.23e+17", "67 paradigms", "0.020"} <= set(shown)
    assert shown.count("not reached") == 6
