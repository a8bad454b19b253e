"""From a folder of trained models to a verdict on every claim.

study folder -> models to analyze -> Analysis -> claims.json, claims.md
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from pathlib import Path
from statistics import mean

from electralab.analysis.claims.evidence import CAUSAL, MLM, Evidence, find_arrangements
from electralab.analysis.claims.rules import Claim, decide_claim, list_claims
from electralab.analysis.data import name_models
from electralab.analysis.finding import write_ends
from electralab.artifacts import read_json, sha256_file, write_file
from electralab.config import read_toml
from electralab.errors import DamagedArtifact, InputError
from electralab.experiments.settings import ScoreConfig
from electralab.records import findings as records
from electralab.records.findings import ClaimsResult, StudyEvidence
from electralab.records.study import StudyEnvironment, StudyResults
from electralab.records.tuned import TunedResults
from electralab.reporting.cards import render_claims_report

ANALYSIS = "analysis"
TUNED = "analysis-tuned"
# The values that there can be, by unit.
_BOUNDS = {**dict.fromkeys(("accuracy", "share of tokens", "smoothness"), (0.0, 1.0)), "rho": (-1.0, 1.0)}


def read_runs(runs: Path) -> StudyResults:
    """What the study in this folder found so far."""
    if not (runs / "study.toml").is_file() or not (runs / StudyResults.FILE).is_file():
        raise InputError(f"{runs}: holds no trained models; give --corpus and --data, and they are trained first")
    study = StudyResults.read(runs)
    for arm, is_there in {"electra": bool(find_arrangements(study.arms)), MLM: MLM in study.arms}.items():
        if not is_there:
            raise InputError(f"{runs}: the study {study.name!r} has no arm {arm!r}; give the folder of another")
    return study


def _finished(runs: Path, study: StudyResults, arms: Sequence[str], what: str) -> dict[Path, str]:
    """The folders of a kind of work that is finished -> their arms, seed by seed."""
    folders = {runs / "cells" / arm / f"seed-{seed}" / what: arm for arm in arms for seed in study.seeds}
    return {path: arm for path, arm in folders.items() if (path / "export").is_dir()}


def list_models(runs: Path, study: StudyResults) -> dict[Path, str]:
    """The runs whose insides are looked at -> their arms, seed by seed; for the other arms scores are enough."""
    electras = list(find_arrangements(study.arms).values())
    trained = _finished(runs, study, [arm for arm in (*electras, MLM, CAUSAL) if arm in study.arms], "run")
    for needed in (electras, [MLM]):
        if not set(needed) & set(trained.values()):
            raise InputError(
                f"{runs}: no run of {needed[0]!r} has finished; give --corpus and --data, and it is trained"
            )
    return trained


def list_tuned(runs: Path, study: StudyResults) -> tuple[dict[Path, str], Path] | None:
    """Tuned models -> their arms, and the data of their task: the one that they are furthest above chance at.

    Where nothing was learned, noise takes nothing away.
    """
    arms = (*find_arrangements(study.arms).values(), MLM)
    tasks = [name for name, metric in study.scores.items() if metric == "accuracy"]
    models = {task: finished for task in tasks if (finished := _finished(runs, study, arms, task))}
    if not models:
        return None

    def gain_over_chance(tuned: Path) -> float:
        results = TunedResults.read(tuned)
        counts = [row.support for row in results.report.classes]
        # Chance is the most frequent class, not one over the number of classes.
        return results.dev["accuracy"] - (max(counts) / sum(counts) if counts else 0.0)

    best = max(models, key=lambda task: mean(map(gain_over_chance, models[task])))
    rows = read_toml(runs / "study.toml").values.get("scores")
    scores = [ScoreConfig.model_validate(row) for row in (rows if isinstance(rows, list) else ())]
    folder = next((score.data for score in scores if best in (score.name, score.task)), ".")
    return models[best], Path(study.provenance.data) / folder


def find_corpus(runs: Path) -> Path:
    """What the models were trained on, whose held-out rows they are asked about."""
    corpus = StudyEnvironment.read(runs).corpus
    path = Path(corpus.path if corpus else "")
    if not (path / "manifest.json").is_file():
        raise InputError(f"{runs}: the text that its models were trained on is not at {path}; give --corpus")
    return path


def name_arms(models: Mapping[Path, str]) -> dict[str, str]:
    """Arms by the names that the analysis gives their models."""
    return dict(zip(name_models(list(models)), models.values(), strict=True))


def decide_claims(
    claims: Sequence[Claim],
    runs: Path,
    study: StudyResults,
    models: Mapping[Path, str],
    named: Mapping[str, str],
    analyses: Sequence[records.Analysis],
    domains: Sequence[str] = (),
    tradeoff: Path | None = None,
) -> ClaimsResult:
    """`models`: pre-trained runs -> their arms; `named`: the same by names in the analyses, tuned ones among them.

    `domains` and `tradeoff` are files and a folder beside the study's that claims are decided by.
    """
    # A part of the study's results, with the keys that they have there.
    kept = study.model_dump(mode="json", include={*StudyEvidence.model_fields, "seeds", "budget"}, exclude_unset=True)
    table = read_json(tradeoff / "tradeoff.json", "run 'electra compress' again") if tradeoff else {}
    evidence = Evidence.collect(analyses, named, StudyEvidence.model_validate(kept), table)
    command = ["electra", "claims", "--runs", str(runs)]
    command += ["--domains", ",".join(domains)] if domains else []
    command += ["--tradeoff", str(tradeoff)] if tradeoff else []
    numbers = dict.fromkeys(claim.number for claim in claims)
    command += ["--only", ",".join(numbers)] if set(numbers) != {claim.number for claim in list_claims()} else []
    files = [name for name in domains if Path(name).is_file()]
    rows, arms = {row.arm: row.pretraining_seconds for row in study.table}, list(models.values())
    about = ClaimsResult(
        runs=str(runs),
        study=study.name,
        budget=study.budget.to_json(),
        command=shlex.join(command),
        study_command=study.provenance.command,
        # So that whoever has the same files can know it.
        domains=tuple(records.DomainFile(file=name, sha256=sha256_file(Path(name))) for name in files),
        minutes={arm: round((rows[arm] or 0.0) / 60, 1) for arm in dict.fromkeys(arms) if arm in rows},
        seeds={arm: arms.count(arm) for arm in dict.fromkeys(arms)},
        claims=(),
    )
    result = _decide_all(claims, evidence, about)
    # The answer is short; the file also keeps what it rests on, for `electra claims --runs claims.json`.
    result.model_copy(update={"evidence": evidence.to_record()}).write(runs)
    write_file(runs / "claims.md", render_claims_report(result))
    return result


def decide_again(path: Path, claims: Sequence[Claim]) -> ClaimsResult:
    """By the rules of now, from what an earlier claims.json kept of its models; nothing is written."""
    stored = ClaimsResult.parse(read_json(path, "run 'electra claims' again"), path)
    if stored.evidence is None:
        raise DamagedArtifact(
            f"{path}: does not keep what its verdicts rest on; give the folder of the study, or a claims.json of it"
        )
    given = {name: getattr(stored, name) for name in stored.model_fields_set if name != "evidence"}
    return _decide_all(claims, Evidence.restore(stored.evidence), ClaimsResult(**given))


def _decide_all(claims: Iterable[Claim], evidence: Evidence, about: ClaimsResult) -> ClaimsResult:
    decided = []
    for claim in claims:
        result = decide_claim(claim, evidence)
        bounds = _BOUNDS.get(claim.unit, (-inf, inf))
        values = {
            column: records.EstimateRecord(**write_ends(estimate, *bounds))
            for column, estimate in result.values.items()
        }
        decided.append(
            records.ClaimVerdictRecord(
                number=claim.number,
                sentence=claim.sentence,
                measure=claim.measure,
                unit=claim.unit,
                verdict=result.verdict,
                verdicts=dict(result.verdicts),
                values=values,
                why=result.why,
            )
        )
    version = ClaimsResult.newest_version()
    return about.model_copy(update={"version": version, "columns": evidence.columns, "claims": tuple(decided)})
