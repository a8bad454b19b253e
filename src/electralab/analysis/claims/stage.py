"""From a folder of trained models to a verdict on every claim.

study folder -> models to analyze -> analysis -> claims.json, claims.md
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from statistics import mean

from electralab.analysis.claims.evidence import Results, read_evidence
from electralab.analysis.claims.rules import CAUSAL, COLUMNS, ELECTRA, MLM, Judged
from electralab.analysis.claims.table import INSIDE, Claim, judge_claim
from electralab.analysis.finding import Estimate
from electralab.analysis.naming import name_models
from electralab.artifacts import read_json, write_file, write_json
from electralab.config import read_toml
from electralab.errors import InputError
from electralab.study.report import read_results

ANALYSIS = "analysis"
TUNED = "analysis-tuned"
_VERSION = 1
_BOUNDS = {
    **dict.fromkeys(("accuracy", "share of tokens", "smoothness"), (0.0, 1.0)),
    "tokens": (0.0, inf),
    "rho": (-1.0, 1.0),
}
"""Of units."""


def read_runs(runs: Path) -> Results:
    """What the study in this folder found so far."""
    results = read_results(runs) if (runs / "study.toml").is_file() else {}
    if not results:
        raise InputError(f"{runs}: holds no trained models; give --corpus and --data, and they are trained first")
    lacking = [arm for arm in (ELECTRA, MLM) if arm not in results["arms"]]
    if lacking:
        raise InputError(f"{runs}: the study {results['name']!r} has no arm {lacking[0]!r}; give the folder of another")
    return results


def list_models(runs: Path, study: Results) -> dict[Path, str]:
    """The runs whose insides are looked at -> their arms, seed by seed; of the other arms scores are enough."""
    found = {
        runs / "cells" / arm / f"seed-{seed}" / "run": arm
        for arm in (ELECTRA, MLM, CAUSAL)
        for seed in study["seeds"]
        if arm in study["arms"]
    }
    trained = {path: arm for path, arm in found.items() if (path / "export").is_dir()}
    for arm in (ELECTRA, MLM):
        if arm not in trained.values():
            raise InputError(f"{runs}: no run of {arm!r} has finished; give --corpus and --data, and it is trained")
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
    folders = {
        name: {runs / "cells" / arm / f"seed-{seed}" / name: arm for arm in (ELECTRA, MLM) for seed in study["seeds"]}
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


def judge_claims(
    claims: Sequence[Claim],
    runs: Path,
    study: Results,
    models: Mapping[Path, str],
    named: Mapping[str, str],
    analysis: Results,
    tradeoff: Path | None = None,
) -> Results:
    """`models`: pre-trained runs -> their arms; `named`: the same by names in the analysis, tuned ones among them."""
    table = read_json(tradeoff / "tradeoff.json", "run 'electra compress' again") if tradeoff else {}
    evidence = read_evidence(analysis, named, study, table)
    judged = [(claim, judge_claim(claim, evidence)) for claim in claims]
    results = {
        "version": _VERSION,
        "runs": str(runs),
        "study": study["name"],
        "budget": study["budget"],
        "minutes": _tell_minutes(study, models.values()),
        "seeds": {arm: list(models.values()).count(arm) for arm in dict.fromkeys(models.values())},
        "claims": [_describe(claim, found) for claim, found in judged],
    }
    write_json(runs / "claims.json", results)
    write_file(runs / "claims.md", "\n".join(_lines(results)) + "\n")
    return results


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
    told = (f"{column} {tell_value(claim['values'].get(column))}" for column in COLUMNS if column in claim["values"])
    return f"{claim['measure']}, {claim['unit']}: {', '.join(told) or 'no figures'}"


def claim_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    head = ["claim", "measured by", *COLUMNS, "verdict"]
    rows = [
        [
            f"{of['number']} {of['sentence']}",
            f"{of['measure']} ({of['unit']})",
            *(tell_value(of["values"].get(column)) for column in COLUMNS),
            of["verdict"],
        ]
        for of in results["claims"]
    ]
    return head, rows


def _lines(results: Results) -> Iterator[str]:
    minutes = ", ".join(f"{arm} {took:g}" for arm, took in results["minutes"].items())
    seeds = ", ".join(f"{arm} {count}" for arm, count in results["seeds"].items())
    yield "# What holds of the claims about ELECTRA\n"
    yield f"Models of the study `{results['study']}`; minutes of pre-training: {minutes}; seeds: {seeds}.\n"
    yield (
        "Intervals are 95 %, of seeds and of examples together. A claim holds or does not where "
        "its interval leaves no other answer; otherwise it is undecided at this scale.\n"
    )
    head, rows = claim_rows(results)
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
    yield ""
    for of in results["claims"]:
        yield f"- **{of['number']}: {of['verdict']}.** {of['why']}"
