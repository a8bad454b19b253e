"""Model cards and Markdown reports: README.md, report.md and claims.md, filled in from what the work wrote down itself.

run folder, tuned run folder, export folder, study, trade-off, analysis, claims -> README.md, report.md, claims.md

A card is a template in `page/`; what stands in it comes from records.
"""

from pathlib import Path
from typing import ClassVar, NamedTuple

from pydantic import Field

from electralab.artifacts import write_file
from electralab.records.compression import Tradeoff
from electralab.records.export import ExportRecord
from electralab.records.findings import Analysis, ClaimsResult
from electralab.records.fitted import FitResults
from electralab.records.record import FileRecord
from electralab.records.run import PretrainResults, RunFingerprint
from electralab.records.study import StudyResults
from electralab.records.tuned import TunedResults, TunedRun, read_rows
from electralab.reporting.analysis_page import claims_table, finding_tables, format_verdicts
from electralab.reporting.fit_page import ENTRY_NAMES, leaderboard
from electralab.reporting.format import escape_cell, read_texts, render_text
from electralab.reporting.plots import plot_study, plot_tradeoff
from electralab.reporting.run_pages import tuned_score_table
from electralab.reporting.study_page import compute_tables, explain_tradeoff, tradeoff_table, tuning_table

README = "README.md"


class CardConfig(FileRecord):
    """What a card says of config.json."""

    FILE: ClassVar[str] = "config.json"
    architectures: tuple[str, ...] | None = None
    """The class of transformers that loads the folder, where there is one."""
    auto_map: dict[str, str] = Field(default_factory=dict)
    """Where the folder brings classes of its own along: which to take for which of transformers' Auto classes."""
    id2label: dict[str, str] = Field(default_factory=dict)
    problem_type: str | None = None
    num_hidden_layers: int = 0
    hidden_size: int = 0
    num_attention_heads: int = 0
    vocab_size: int = 0
    max_position_embeddings: int = 0
    electralab_network: object = None
    """Of a network of our own, which no class of transformers expresses."""


class TaskTexts(FileRecord):
    FILE: ClassVar[str] = "task.json"
    num_texts: int


class ScoreLine(NamedTuple):
    """A held-out score beside what knowing only frequencies achieves."""

    name: str
    value: str
    baseline: str
    meaning: str
    """What the baseline is."""


def describe_scores(results: PretrainResults) -> list[ScoreLine]:
    """What a run of any objective is judged by: its losses with their accuracies, then its verdicts."""
    heldout = {key: value for key, value in results.heldout.items() if value is not None}
    baselines = {key: value for key, value in results.baselines.items() if value is not None}
    lines = []
    for name in [key.removesuffix("_loss") for key in heldout if key.endswith("_loss")]:
        is_verdict = name == "discriminator"
        loss, accuracy, digits = f"{name}_loss", f"{name}_accuracy", 4 if is_verdict else 3
        meaning = "knowing only how many are replaced" if is_verdict else "token frequencies"
        known = f"{baselines[loss]:.{digits}f}" if loss in baselines else ""
        lines.append(ScoreLine(f"{name} loss", f"{heldout[loss]:.{digits}f}", known, meaning if known else ""))
        if accuracy in heldout:
            known = f"{baselines[accuracy]:.1%}" if accuracy in baselines else ""
            meaning = "always the most frequent token" if known else ""
            lines.append(ScoreLine(f"{name} accuracy", f"{heldout[accuracy]:.1%}", known, meaning))
    if "auc" in heldout:
        for key, name in (("auc", "discriminator AUC"), *((f"auc_{w}", f"AUC, generator {w}") for w in _CONFIDENCE)):
            if key in heldout:
                lines.append(ScoreLine(name, f"{heldout[key]:.3f}", "0.500", "guessing"))
        for key, name, trivial, meaning in (
            ("recall", "recall on replaced", "called_replaced", "calling as many replaced, at random"),
            ("precision", "precision", "replaced_share", "calling at random"),
        ):
            lines.append(ScoreLine(name, f"{heldout[key]:.3f}", f"{heldout[trivial]:.3f}", meaning))
    return lines


_CONFIDENCE = ("unsure", "middling", "sure")


def write_run_card(run_dir: Path) -> None:
    """README.md of a finished pre-training run."""
    networks = {
        path.parent.name: next(iter(CardConfig.read(path.parent).architectures or ()), "")
        for path in sorted((run_dir / "export").glob("*/config.json"))
    }
    run, results = RunFingerprint.read(run_dir), PretrainResults.read(run_dir)
    write_file(run_dir / README, render_run_card(run_dir.resolve().name, run, results, networks))


def render_run_card(name: str, run: RunFingerprint, results: PretrainResults, networks: dict[str, str]) -> str:
    """`networks`: for each folder of the export the class of transformers that loads it, or ""."""
    objective = run.objective
    return render_text(
        "card_run.md",
        name=name,
        run=run,
        settings=run.settings,
        results=results,
        objective=objective,
        learned=read_texts().objectives[objective].learned,
        networks=networks,
        classes={role: kind for role, kind in networks.items() if kind},
        is_pair="discriminator" in networks,
        # Energies are no verdicts.
        gives_verdicts="discriminator" in networks and objective != "electric",
        scores=describe_scores(results),
    )


def write_tuned_card(run_dir: Path) -> None:
    """README.md of a finished fine-tuning run."""
    folder, results = run_dir / "export" / "model", TunedResults.read(run_dir)
    predictions = run_dir / f"seed-{results.best_seed}" / "predictions" / "dev.jsonl"
    first = next(read_rows(predictions), None) if predictions.is_file() else None
    card = render_tuned_card(
        run_dir.resolve().name,
        TunedRun.read(run_dir),
        results,
        CardConfig.read(folder),
        TaskTexts.read(folder).num_texts,
        asks_questions=first is not None and bool(first.question),
    )
    write_file(run_dir / README, card)


def render_tuned_card(
    name: str, run: TunedRun, results: TunedResults, config: CardConfig, num_texts: int, *, asks_questions: bool = False
) -> str:
    example = '[("a text", "another")]' if num_texts == 2 else '["a text"]'
    if asks_questions:
        example = '[("Who wrote it?", "It was written by Ada.")]'
    names = {"linear": "linear model"}
    baselines = (results.baselines or {}).items()
    notes = [f"{names.get(key, key)}: {escape_cell(baseline.what)}" for key, baseline in baselines]
    notes += map(escape_cell, results.notes)
    if len(results.seeds) > 1:
        notes.append("the best of several seeds, chosen by its dev scores, is flattered by them: compare medians")
    return render_text(
        "card_tuned.md",
        name=name,
        run=run,
        settings=run.settings,
        results=results,
        config=config,
        # The one output of a regression has a name in config.json too, which says nothing.
        labels=[] if config.problem_type == "regression" else list(config.id2label.values()),
        report=results.class_report,
        scores=tuned_score_table(results, in_points=False).markdown(),
        notes=notes,
        example=example,
    )


def write_fit_card(run_dir: Path) -> None:
    """README.md of a finished run of fit."""
    results = FitResults.read(run_dir)
    card = render_text(
        "card_fit.md",
        name=run_dir.resolve().name,
        results=results,
        leaderboard=leaderboard(results).markdown(),
        names=ENTRY_NAMES,
        entry_name=ENTRY_NAMES[results.best],
        notes=[*map(escape_cell, results.notes)],
        example='[("a text", "another")]' if results.num_texts == 2 else '["a text"]',
    )
    write_file(run_dir / README, card)


def write_export_card(folder: Path, license_name: str) -> None:
    """README.md of an exported or compressed network, from the export.json and config.json beside it."""
    card = render_export_card(ExportRecord.read(folder), CardConfig.read(folder), license_name)
    write_file(folder / README, card)


def render_export_card(export: ExportRecord, config: CardConfig, license_name: str) -> str:
    return render_text(
        "card_export.md",
        export=export,
        config=config,
        license=license_name,
        is_graph=export.format.startswith("onnx"),
        # The one output of a number or an energy has a name in config.json too, which says nothing.
        labels=[] if export.subject in ("numbers", "energies") else list(config.id2label.values()),
        subject=read_texts().outputs[export.subject],
        form=read_texts().forms[export.format],
    )


def write_study_report(out: Path, study: StudyResults) -> None:
    """report.md, README.md and the picture of a study."""
    plot_study(out, study)
    tables = compute_tables(study) | {"tuning": tuning_table(study)}
    facts = {
        "has_curves": any(points for lines in study.curves.values() for points in lines.values()),
        "is_mixed": len({study.scores.get(name) for name in study.averaged_scores}) > 1,
    }
    write_file(out / README, render_text("study_readme.md", study=study))
    write_file(out / "report.md", render_text("study_report.md", study=study, tables=tables, **facts))


def write_tradeoff_report(out: Path, tradeoff: Tradeoff) -> None:
    """report.md and the picture of a trade-off."""
    plot_tradeoff(out, tradeoff)
    table, meaning = tradeoff_table(tradeoff), explain_tradeoff(tradeoff)
    write_file(out / "report.md", render_text("tradeoff_report.md", tradeoff=tradeoff, table=table, meaning=meaning))


def render_analysis_report(analysis: Analysis) -> str:
    """README.md of an analysis."""
    pairs = analysis.pair_with_control()
    # Of several figures of one name the last explains it.
    findings = {claim: {row.name: row for row, _ in rows}.values() for claim, rows in pairs.items()}
    tables = finding_tables(analysis)
    return render_text("analysis_report.md", analysis=analysis, tables=tables, findings=findings)


def render_claims_report(claims: ClaimsResult) -> str:
    """claims.md of a study."""
    verdicts = {claim.number: format_verdicts(claim) for claim in claims.claims}
    table = claims_table(claims)
    return render_text("claims_report.md", claims=claims, table=table, verdicts=verdicts)
