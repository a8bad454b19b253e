"""A run as a person sees it: the curves that its objective has, and no others."""

import io
from typing import Any

from rich.console import Console

from electralab.showing import print_artifact, print_proofs


def show(records: list[dict[str, Any]]) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=120, markup=False, emoji=False)
    print_artifact({"kind": "metrics", "path": "run/metrics.jsonl", "records": records}, console)
    return out.getvalue().splitlines()


def test_a_pair_shows_how_its_networks_stand_against_each_other() -> None:
    common = {"loss": 9.0, "tokens": 10, "gradient_norm": 3.0}
    records = [
        {
            "step": step,
            **common,
            "generator_loss": 8.0 - step,
            "discriminator_loss": 0.5,
            "generator_accuracy": step / 10,
            "generator_entropy": 4.0,
            "auc": 0.5 + step / 10,
            "discriminator_gradient_norm": 2.0,
            "generator_gradient_norm": float(step),
        }
        for step in (1, 2)
    ]
    records[1] |= {"heldout_generator_loss": 6.5, "heldout_auc": 0.75, "heldout_generator_accuracy": 0.25}
    assert show(records) == [
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


def test_one_network_shows_its_own_loss_and_no_verdicts() -> None:
    lines = show([{"step": 1, "loss": 5.0, "masked_loss": 5.0, "masked_accuracy": 0.1, "gradient_norm": 1.0}])
    assert lines[1:] == ["                  masked_loss ▁ 5 → 5", "              masked_accuracy ▁ 0.1 → 0.1"]


def test_a_value_that_was_not_finite_is_left_out_of_its_curve() -> None:
    assert show([{"step": 1, "masked_loss": None}, {"step": 2, "masked_loss": 4.0}])[1:] == [
        "                  masked_loss ▁ 4 → 4"
    ]


def test_words_that_look_wrong_give_no_orders_to_the_terminal() -> None:
    order = "\x1b[2J"
    finding = {
        "word": {"text": f"ca{order}t", "start": 4, "end": 11, "suspicion": 0.9},
        **{"line": 1, "column": 5, "before": f"the{order} ", "after": f" sat{order}"},
        "suggestions": [{"text": f"dog{order}", "p": 0.5, "distance": 3}],
    }
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True, color_system=None, markup=False)
    proof = {"source": f"[red]{order}.txt", "words": 3, "findings": [finding], "most_suspicious": []}
    print_proofs({"proofs": [proof], "threshold": 0.5, "warning": None}, console)
    assert out.getvalue().splitlines() == [
        "[red]�[2J.txt: 1 of 3 words look wrong",
        "    1:5    0.90  the�[2J ca�[2Jt sat�[2J   → dog�[2J",
    ]
