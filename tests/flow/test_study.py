"""A study from the shell: objectives side by side, gone on with, refused before anything is run; and snapshots."""

import hashlib
import json
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import SMALL, exports_of, little_study, write_scores

pytestmark = pytest.mark.flow

STUDY = little_study()


@pytest.fixture
def studious(shell: Shell) -> Shell:
    """With a study and the data of its scores."""
    (shell.folder / "little.toml").write_text(STUDY)
    write_scores(shell.folder / "scores")
    return shell


def study(name: str = "little.toml", *more: str | int) -> tuple[str | int, ...]:
    return ("study", name, "--corpus", "data", "--data", "scores", "--out", "out", *more)


def test_objectives_are_compared_and_a_finished_study_is_only_told_again(studious: Shell) -> None:
    results = studious.must(*study("little.toml", "--json")).json
    assert [cell["status"] for cell in results["cells"]] == ["finished", "finished"]
    assert [set(cell["scores"]) for cell in results["cells"]] == [{"blimp", "cola", "blimp@0.5"}] * 2
    assert [len(points) for points in results["curves"]["blimp"].values()] == [2, 2]
    out = studious.folder / "out"
    assert json.loads((out / "results.json").read_text())["table"] == results["table"]
    assert {"report.md", "report.html", "README.md", "study.toml", "curves.png", "curves.svg"} <= {
        path.name for path in out.iterdir()
    }
    again = studious.must(*study())
    assert "0 commands in 0 cells left" in again.err
    assert "little" in again.out
    assert "electra – mlm" in studious.must("show", "out").out
    studious.folder.joinpath("changed.toml").write_text(STUDY.replace("steps = 2", "steps = 3"))
    said = studious.refuse(*study("changed.toml"))
    assert "cola.json: settings.steps was 2, now 3; give the same study, or choose another --out" in said
    studious.folder.joinpath("another.toml").write_text(STUDY.replace('"little"', '"another"'))
    said = studious.refuse(*study("another.toml"), status=2)
    assert said == "out: holds the study 'little', not 'another'; choose another --out"


MISSING = [
    f"nowhere/{place}: no such file or folder (needed by {score})"
    for place, score in (("blimp", "blimp"), ("glue", "cola"))
]
REFUSED = {
    "--only elektra": (2, "--only: no arm named 'elektra'; did you mean 'electra'?"),
    "--data nowhere": (
        1,
        f"study little: {'; '.join(MISSING)}; see --data, and docs/studies.md for where to get",
    ),
    "--corpus scores": (1, "scores: holds no prepared text; give --corpus a folder that 'electra prepare' wrote"),
    "--out data": (2, "data: holds prepared data, not a study; choose another --out"),
    "--budget.flops 3 --budget.steps 2": (2, "command line: budget: needs exactly one of flops, tokens and steps"),
    "--pretrain.masking.mask-shares 0.1": (2, "no setting named 'mask_shares'; did you mean 'mask_share'?"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_study_that_cannot_be_run_is_refused_before_it_begins(studious: Shell, words: str) -> None:
    status, sentence = REFUSED[words]
    assert sentence in studious.refuse(*study("little.toml", *words.split()), status=status)
    assert not (studious.folder / "out" / "cells").exists()


def test_replaced_tokens_are_those_of_one_generator_for_all_arms(studious: Shell) -> None:
    """The arm that lends it is trained last, and waited for."""
    scores = '[[scores]]\nsuite = "rtd"\ndata = "../data"\ngenerator = "lender"\narms = ["judge", "lender"]\n'
    arms = '[arms.mlm]\nobjective = "mlm"\n[arms.judge]\nobjective = "electra-15"\n[arms.lender]\n'
    head = STUDY[: STUDY.index("[arms.electra]")]
    studious.folder.joinpath("lent.toml").write_text(head + arms + scores)
    results = studious.must(*study("lent.toml", "--jobs", 1, "--json")).json
    assert [cell["status"] for cell in results["cells"]] == ["finished"] * 3
    asked = {cell["arm"]: set(cell["scores"]) for cell in results["cells"]}
    assert asked == {"mlm": set(), "judge": {"rtd"}, "lender": {"rtd"}}
    record = json.loads((studious.folder / "out" / "cells" / "judge" / "seed-0" / "rtd.json").read_text())
    assert "arms" not in record["identity"], "who else is scored changes no result"
    assert results["notes"] == [], "nobody was asked anything else, and nobody by its own generator"
    assert results["provenance"]["command"].startswith("electra study lent.toml --corpus data --out out --data scores")
    assert results["provenance"]["command"] in (studious.folder / "out" / "README.md").read_text()
    refused = studious.run(*study("lent.toml", "--threads", 2, "--dry-run"))
    assert "give --threads 1, or choose another --out" in refused.err


def test_a_dry_run_says_how_long_it_would_take_and_leaves_nothing(studious: Shell) -> None:
    plan = studious.must(*study("little.toml", "--dry-run", "--json", "--tokens", "1e4", "--seeds", "3,4")).json
    assert plan["seeds"] == [3, 4]
    assert plan["arms"]["mlm"]["steps"] == 39  # 10,000 tokens in batches of 8 rows of 32
    assert plan["estimated_minutes"] > 0
    assert not (studious.folder / "out").exists()


def test_a_dry_run_without_the_data_shows_the_plan_and_lists_all_that_is_missing(studious: Shell) -> None:
    ended = studious.run(*study("little.toml", "--data", "nowhere", "--dry-run", "--json"))
    assert ended.status == 1, "the run itself would be refused"
    assert json.loads(ended.out)["missing"] == MISSING
    assert all(text in ended.err for text in MISSING)
    assert json.loads(ended.out)["arms"]["mlm"]["steps"] == 4


def test_claims_are_judged_by_the_models_of_a_study(studious: Shell) -> None:
    brief = ("--only", "M30,M39,M44,M45", "--rows", 8, "--times", 5)
    words = ("claims", "--runs", "out", "--study", "little.toml", "--corpus", "data", "--data", "scores", *brief)
    assert studious.must(*words, "--dry-run", "--json").json["estimated_minutes"] > 0
    assert not (studious.folder / "out").exists()
    judged = studious.must(*words, "--json").json
    claims = {claim["number"]: claim for claim in judged["claims"]}
    assert list(claims) == ["M30", "M39", "M44", "M45"]
    assert claims["M39"]["verdict"] == "does not hold", "a masked model computes all tokens of a row"
    assert set(claims["M30"]["values"]) == {"electra (one encoder)", "mlm", "untrained"}
    assert "--domains" in claims["M44"]["why"]
    assert claims["M45"]["verdict"] == "undecided"
    assert claims["M45"]["why"] == "not measured: no run of 'electra-half' has finished its pre-training"
    told = (studious.folder / "out" / "claims.md").read_text()
    assert "| M39 BERT costs 0.15 n d². |" in told
    assert "What holds of the claims" in (studious.folder / "out" / "report.html").read_text()
    again = studious.must("claims", "--runs", "out", *brief)
    assert "kept from before" in again.err
    assert (studious.folder / "out" / "claims.md").read_text() == told
    kept = studious.must("claims", "--runs", "out/claims.json", *brief[:2], "--json").json
    assert kept["claims"] == judged["claims"], "what the verdicts rest on is in the file"
    assert kept["command"] == "electra claims --runs out --only M30,M39,M44,M45"
    assert "electra study little.toml --corpus data" in told
    said = studious.refuse("claims", "--runs", "nowhere")
    assert "nowhere: holds no trained models; give --corpus and --data" in said


def test_a_snapshot_is_what_a_shorter_run_on_the_same_schedule_would_be(shell: Shell) -> None:
    """It must be the same whether the run was stopped before it or not."""
    words = ("pretrain", "--data", "data", *SMALL, "--steps", 8, "--save-every", 1, "--log-every", 1)
    shell.must(*words, "--out", "whole", "--snapshots", "0.5")
    running = shell.start(*words, "--out", "stopped", "--snapshots", "0.5")
    running.wait_for_step("stopped", 2)
    running.send(15)
    running.wait()
    shell.must(*words, "--out", "stopped", "--snapshots", "0.5")
    assert _hashes(shell.folder / "whole") == _hashes(shell.folder / "stopped") != {}
    plain = shell.must(*words, "--out", "plain", "--json").json
    assert "snapshots" not in plain
    assert exports_of(shell.folder / "plain") == exports_of(shell.folder / "whole")
    progress = json.loads((shell.folder / "whole" / "snapshots" / "step-4" / "progress.json").read_text())
    assert progress["step"] == 4
    shell.must("detect", "whole/snapshots/step-4", "Anna sees the old house.")


def _hashes(run: Path) -> dict[str, str]:
    files = (run / "snapshots" / "step-4").rglob("*.safetensors")
    return {str(path.relative_to(run)): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(files)}
