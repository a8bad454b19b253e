"""From a folder of trained models to a verdict on every claim.

study folder -> models to analyze -> analysis -> claims.json, claims.md
"""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import mean

from electralab.analysis.claims.evidence import (
    CAUSAL,
    MLM,
    Evidence,
    Results,
    find_arrangements,
    keep_evidence,
    read_evidence,
    restore_evidence,
)
from electralab.analysis.claims.rules import Judged
from electralab.analysis.claims.table import CLAIMS, INSIDE, Claim, judge_claim
from electralab.analysis.finding import Estimate
from electralab.analysis.naming import name_models
from electralab.artifacts import read_json, sha256_file, write_file, write_json
from electralab.config import read_toml
from electralab.errors import DamagedArtifact, InputError
from electralab.experiments.report import read_results

ANALYSIS = "analysis"
TUNED = "analysis-tuned"
_VERSION = 2
"""2: both arrangements of ELECTRA have columns, and what verdicts rest on is kept with them."""
_BOUNDS = {
    **dict.fromkeys(("accuracy", "share of tokens", "smoothness"), (0.0, 1.0)),
    "rho": (-1.0, 1.0),
}
"""Of units."""


def read_runs(runs: Path) -> Results:
    """What the study in this folder found so far."""
    results = read_results(runs) if (runs / "study.toml").is_file() else {}
    if not results:
        raise InputError(f"{runs}: holds no trained models; give --corpus and --data, and they are trained first")
    lacking = [] if find_arrangements(results["arms"]) else ["electra"]
    lacking += [] if MLM in results["arms"] else [MLM]
    if lacking:
        raise InputError(f"{runs}: the study {results['name']!r} has no arm {lacking[0]!r}; give the folder of another")
    return results


def list_models(runs: Path, study: Results) -> dict[Path, str]:
    """The runs whose insides are looked at -> their arms, seed by seed; of the other arms scores are enough."""
    electras = list(find_arrangements(study["arms"]).values())
    found = {
        runs / "cells" / arm / f"seed-{seed}" / "run": arm
        for arm in (*electras, MLM, CAUSAL)
        for seed in study["seeds"]
        if arm in study["arms"]
    }
    trained = {path: arm for path, arm in found.items() if (path / "export").is_dir()}
    for arms in (electras, [MLM]):
        if not set(arms) & set(trained.values()):
            raise InputError(f"{runs}: no run of {arms[0]!r} has finished; give --corpus and --data, and it is trained")
    return trained


@dataclass(frozen=True, slots=True)
class Tuned:
    """Models of one task, and the data that they were tuned on."""

    models: dict[Path, str]
    """-> arms."""
    data: Path


def list_tuned(runs: Path, study: Results) -> Tuned | None:
    """Of the task that the models are furthest above chance at: where nothing was learned, noise takes nothing away."""
    tasks = [name for name, metric in study["scores"].items() if metric == "accuracy"]
    arms = (*find_arrangements(study["arms"]).values(), MLM)
    folders = {
        name: {runs / "cells" / arm / f"seed-{seed}" / name: arm for arm in arms for seed in study["seeds"]}
        for name in tasks
    }
    finished = {name: [path for path in of if (path / "export").is_dir()] for name, of in folders.items()}
    gains = {name: mean(_find_gain(path) for path in of) for name, of in finished.items() if of}
    if not gains:
        return None
    best = max(gains, key=lambda name: gains[name])
    scores = read_toml(runs / "study.toml").values.get("scores", [])
    place = next((score["data"] for score in scores if best in (score.get("name"), score.get("task"))), ".")
    models = {path: folders[best][path] for path in finished[best]}
    return Tuned(models, Path(study["provenance"].get("data", "")) / place)


def _find_gain(tuned: Path) -> float:
    """Accuracy above always answering the most frequent class."""
    results = read_json(tuned / "results.json", "run 'electra study' again")
    counts = [one["support"] for one in (results.get("report") or {}).get("classes", ())]
    return float(results["dev"]["accuracy"]) - (max(counts) / sum(counts) if counts else 0.0)


def find_corpus(runs: Path) -> Path:
    """What the models were trained on, whose held-out rows they are asked about."""
    stored = read_json(runs / "environment.json", "give --corpus")
    corpus = Path(stored.get("corpus", {}).get("path", ""))
    if not (corpus / "manifest.json").is_file():
        raise InputError(f"{runs}: the text that its models were trained on is not at {corpus}; give --corpus")
    return corpus


def list_measures(claims: Iterable[Claim]) -> list[str]:
    """What an analysis of the models has to measure for these claims."""
    return list(dict.fromkeys(measure for claim in claims for measure in INSIDE.get(claim.number, ())))


def join_analyses(analyses: Sequence[Results]) -> Results:
    return {name: [one for of in analyses for one in of[name]] for name in ("models", "findings", "missing")}


def name_arms(models: Mapping[Path, str]) -> dict[str, str]:
    """As the analysis names them."""
    return dict(zip(name_models(list(models)), models.values(), strict=True))


@dataclass(frozen=True, slots=True)
class Sources:
    """Files beside the study's folder that claims are judged by."""

    domains: tuple[str, ...] = ()
    tradeoff: Path | None = None

    def describe(self) -> list[Results]:
        """So that whoever has the same files can know it."""
        return [{"file": name, "sha256": sha256_file(Path(name))} for name in self.domains if Path(name).is_file()]


_NO_SOURCES = Sources()


def judge_claims(
    claims: Sequence[Claim],
    runs: Path,
    study: Results,
    models: Mapping[Path, str],
    named: Mapping[str, str],
    analysis: Results,
    sources: Sources = _NO_SOURCES,
) -> Results:
    """`models`: pre-trained runs -> their arms; `named`: the same by names in the analysis, tuned ones among them."""
    tradeoff = sources.tradeoff
    table = read_json(tradeoff / "tradeoff.json", "run 'electra compress' again") if tradeoff else {}
    evidence = read_evidence(analysis, named, study, table)
    about = {
        "runs": str(runs),
        "study": study["name"],
        "budget": study["budget"],
        "command": _write_command(runs, claims, sources),
        "study_command": study.get("provenance", {}).get("command", ""),
        "domains": sources.describe(),
        "minutes": _tell_minutes(study, models.values()),
        "seeds": {arm: list(models.values()).count(arm) for arm in dict.fromkeys(models.values())},
    }
    results = _judge_all(claims, evidence, about)
    write_json(runs / "claims.json", {**results, "evidence": keep_evidence(evidence)})
    write_file(runs / "claims.md", "\n".join(_lines(results)) + "\n")
    return results


def judge_again(path: Path, claims: Sequence[Claim]) -> Results:
    """By the rules of now, from what an earlier claims.json kept of its models; nothing is written."""
    stored = read_json(path, "run 'electra claims' again")
    try:
        evidence = restore_evidence(stored["evidence"])
        about = {name: value for name, value in stored.items() if name not in ("version", "claims", "evidence")}
        return _judge_all(claims, evidence, about)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedArtifact(
            f"{path}: does not keep what its verdicts rest on; give the folder of the study, or a claims.json of it"
        ) from None


def _judge_all(claims: Sequence[Claim], evidence: Evidence, about: Results) -> Results:
    judged = [_describe(claim, judge_claim(claim, evidence)) for claim in claims]
    return {"version": _VERSION, **about, "columns": evidence.columns, "claims": judged}


def _write_command(runs: Path, claims: Sequence[Claim], sources: Sources) -> str:
    words = ["electra", "claims", "--runs", str(runs)]
    words += ["--domains", ",".join(sources.domains)] if sources.domains else []
    words += ["--tradeoff", str(sources.tradeoff)] if sources.tradeoff else []
    numbers = dict.fromkeys(claim.number for claim in claims)
    words += ["--only", ",".join(numbers)] if set(numbers) != {claim.number for claim in CLAIMS} else []
    return shlex.join(words)


def _tell_minutes(study: Results, arms: Iterable[str]) -> dict[str, float]:
    """Of pre-training, in the mean over the seeds."""
    rows = {row["arm"]: row for row in study["table"]}
    return {arm: round(rows[arm]["pretraining_seconds"] / 60, 1) for arm in dict.fromkeys(arms) if arm in rows}


def _describe(claim: Claim, found: Judged) -> Results:
    return {
        "number": claim.number,
        "sentence": claim.sentence,
        "measure": claim.measure,
        "unit": claim.unit,
        "verdict": found.verdict,
        "verdicts": dict(found.verdicts),
        "values": {column: _plain(one, *_BOUNDS.get(claim.unit, (-inf, inf))) for column, one in found.values.items()},
        "why": found.why,
    }


def _plain(estimate: Estimate, least: float, most: float) -> dict[str, float | None]:
    """What an interval has beyond the values that there can be is cut off."""
    return {name: min(max(value, least), most) if isfinite(value) else None for name, value in asdict(estimate).items()}


def tell_value(value: Mapping[str, float | None] | None) -> str:
    if value is None or value["value"] is None:
        return ""
    said = f"{value['value']:.3g}"
    return said if value["low"] is None else f"{said} [{value['low']:.3g}, {value['high']:.3g}]"


def tell_values(claim: Results) -> str:
    told = (f"{column} {said}" for column, value in claim["values"].items() if (said := tell_value(value)))
    return f"{claim['measure']}, {claim['unit']}: {', '.join(told) or 'no figures'}"


def tell_verdicts(claim: Results) -> str:
    """One for both arrangements, or each with its own."""
    verdicts = claim["verdicts"]
    if len(set(verdicts.values())) < 2:
        return str(claim["verdict"])
    return "; ".join(f"{column}: {verdict}" for column, verdict in verdicts.items())


def claim_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    columns = [column for column in results["columns"] if any(column in of["values"] for of in results["claims"])]
    rows = [
        [
            f"{of['number']} {of['sentence']}",
            f"{of['measure']} ({of['unit']})",
            *(tell_value(of["values"].get(column)) for column in columns),
            tell_verdicts(of),
        ]
        for of in results["claims"]
    ]
    return ["claim", "measured by", *columns, "verdict"], rows


def _lines(results: Results) -> Iterator[str]:
    minutes = ", ".join(f"{arm} {took:g}" for arm, took in results["minutes"].items())
    seeds = ", ".join(f"{arm} {count}" for arm, count in results["seeds"].items())
    yield "# What holds of the claims about ELECTRA\n"
    yield f"Models of the study `{results['study']}`; minutes of pre-training: {minutes}; seeds: {seeds}.\n"
    yield (
        "Intervals are 95 %, of seeds and of examples together. A claim holds or does not where "
        "its interval leaves no other answer; otherwise it is undecided at this scale. ELECTRA is judged in each "
        "arrangement that the study has: as in the paper, with a generator of its own, and with one encoder for both "
        "heads.\n"
    )
    head, rows = claim_rows(results)
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""
    for of in results["claims"]:
        yield f"- **{of['number']}: {tell_verdicts(of)}.** {of['why']}"
    yield ""
    yield "What the verdicts rest on, seed by seed, stands in `claims.json`; made by\n"
    yield from (f"    {command}" for command in (results["study_command"], results["command"]) if command)
    if results["domains"]:
        yield ""
        yield "Texts of other domains (SHA-256):\n"
        yield from (f"- {domain['file']} {domain['sha256']}" for domain in results["domains"])
