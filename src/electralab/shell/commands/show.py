"""`electra show`: any artifact in human form, after its files were compared with their hashes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, as_model, settings_table

if TYPE_CHECKING:
    from pydantic import JsonValue

    from electralab.inspection import MetricsView, RowView, View
    from electralab.records.run import StepRecord
    from electralab.reporting.blocks import Block

SUMMARY = "print what a folder contains"
EXAMPLE = "electra show runs/quickstart"

_PATH = "a data folder, run, study, checkpoint, model folder or metrics.jsonl; without it, all models of the package"
_NAME_WIDTH = 29
_NAMED_FILES = 6


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("path", nargs="?", metavar="PATH", help=_PATH)
    add("--row", type=int, metavar="N", help="for data: print this training row")
    add("--model", metavar="MODEL", help="with --row: mask and corrupt the row with this run")


def show(path: str | Path | None = None, *, row: int | None = None, model: str | Path | None = None) -> "View":
    """Any artifact as a record that says what it is, after its files were compared with their hashes.

    Without a path, the models that come with the package.

    >>> electralab.show("run").kind
    'run'
    """
    from electralab.inspection import view, view_bundled

    return view_bundled() if path is None else view(as_model(path), row=row, model=as_model(model) if model else None)


def run(call: Call) -> None:
    flags = call.flags
    if flags.model is not None:
        call.display.tell_loading(only_live=True)
    view = call.ask(show)
    if flags.dry_run:
        call.print(f"{view.path}: {view.kind}")
    else:
        call.print(*view_blocks(view))
        # Nothing is called sound that no hash was there for.
        if view.verified:
            call.print(_note(f"verified: {len(view.verified):,} files have the hashes of their manifests"))
        if names := view.unverified:
            more = f" and {len(names) - _NAMED_FILES:,} more" if len(names) > _NAMED_FILES else ""
            call.print(_note(f"not verified, because no manifest names them: {', '.join(names[:_NAMED_FILES])}{more}"))
    call.answer(view)


def _note(text: str) -> "Block":
    from electralab.reporting.blocks import Paragraph

    return Paragraph(text, "note")


def view_blocks(view: "View") -> list["Block"]:
    """An artifact in the form that its own verb prints it, where it has one."""
    from electralab import inspection
    from electralab.records.compression import Tradeoff
    from electralab.records.findings import Analysis
    from electralab.records.fitted import FitResults
    from electralab.records.study import StudyResults
    from electralab.records.tuned import GlueResults, SeedResults, TunedResults
    from electralab.reporting.analysis_page import last_layer_tables
    from electralab.reporting.blocks import Heading, Paragraph, Table
    from electralab.reporting.fit_page import fit_blocks
    from electralab.reporting.format import tell
    from electralab.reporting.study_page import glue_blocks, study_tables, tradeoff_blocks
    from electralab.shell.commands import finetune, prepare

    title = Heading(f"{view.kind} {view.path}")
    match view:
        case inspection.TunedView(records=logs, results=results):
            curves = [_curve(f"{name} loss", records, "loss", 10) for name, records in logs.items()]
            scores = finetune.score_blocks(results) if isinstance(results, TunedResults) else []
            return [title, *(Paragraph(curve) for curve in curves if curve), *scores]
        case inspection.SeedView(records=records, results=results):
            blocks: list[Block] = [title, Paragraph(_curve("loss", records, "loss", 10))]
            if isinstance(results, SeedResults):
                splits: dict[str, JsonValue] = {split: {**scores} for split, scores in results.scores.items()}
                blocks.append(settings_table("scores", splits))
            return blocks
        case inspection.FitView(results=FitResults() as results):
            return [title, *fit_blocks(results)]
        case inspection.MetricsView():
            return [title, *_run_blocks(view)]
        case inspection.ResultsView(results=GlueResults() as results):
            return [*glue_blocks(results)]
        case inspection.ResultsView(results=StudyResults() as results):
            return [*study_tables(results)]
        case inspection.ResultsView(results=Analysis() as results):
            return [*last_layer_tables(results)]
        case inspection.ResultsView(results=Tradeoff() as results):
            return [*tradeoff_blocks(results)]
        case inspection.RowView():
            return _row_blocks(view)
        case inspection.DataView(report=report):
            return [Paragraph(line) for line in prepare.format_report(view.path, report)]
        case inspection.ModelView() | inspection.CheckpointView():
            return [*map(Paragraph, tell(view))]
        case inspection.BundledView(models=models):
            head, rows = ["", "read", "FLOPs", "AUC of held-out rows"], []
            for name, trained in models.items():
                auc = trained.heldout.get("auc")
                rows.append([name, f"{trained.tokens:,} tokens", f"{trained.flops:.2g}", f"{auc:.3f}" if auc else ""])
            return [Table("models that come with electralab, given by their names", head, rows)]
        case inspection.CheckpointsView(checkpoints=checkpoints):
            sizes = [f"{Path(checkpoint.path).name}  {checkpoint.num_bytes:,} bytes" for checkpoint in checkpoints]
            return [title, *map(Paragraph, sizes)]
        case inspection.NetworksView(progress=progress):
            form = f" as {view.format}" if view.format else ""
            blocks = [Heading(f"{view.kind} {view.path}{form}")]
            blocks += [settings_table("progress", progress.to_json())] if progress else []
            return [*blocks, *map(Paragraph, tell(view))]
    values = view.to_json()
    return [settings_table(title.text, {key: values[key] for key in values if not key.endswith("verified")})]


def _curve(name: str, records: Sequence["StepRecord"], key: str, width: int) -> str:
    """`loss ▇▅▃▁ 8.1 → 3.2`; nothing without a value."""
    from electralab.reporting.terminal import sparkline

    values = [value for record in records if (value := record.get(key)) is not None]
    return f"{name:>{width}} {sparkline(values)} {values[0]:.4g} → {values[-1]:.4g}" if values else ""


def _run_blocks(view: "MetricsView") -> list["Block"]:
    """What a run has of these: losses, how the two networks stand against each other, and held-out scores."""
    from electralab.inspection import RunView
    from electralab.records.run import PretrainResults
    from electralab.reporting.blocks import Paragraph
    from electralab.shell.commands.pretrain import result_blocks
    from electralab.training.metrics import format_heldout

    records, lines, results = view.records, [], []
    if isinstance(view, RunView):
        lines.append(f"steps {records[-1].step if records else 0:,} of {view.identity.total_steps:,}")
        lines.append(f"checkpoints {', '.join(view.checkpoints) or 'none'}")
        results = result_blocks(view.results) if isinstance(view.results, PretrainResults) else []
    keys = list(dict.fromkeys(key for record in records for key in record.values))
    trained = [key for key in keys if not key.startswith("heldout_")]
    chosen = [
        *(key for key in trained if key.endswith("_loss")),
        *(key for key in ("auc", "recall") if key in trained),
        *(key for key in trained if key.endswith(("_accuracy", "_entropy", "_gradient_norm"))),
        *(key for key in keys if key == "heldout_auc" or (key.startswith("heldout_") and key.endswith("_loss"))),
    ]
    lines += [_curve(key, records, key, _NAME_WIDTH) for key in chosen]
    if scored := [scores for record in records if (scores := record.with_prefix("heldout_"))]:
        lines.append(f"{'held out':>{_NAME_WIDTH}} {format_heldout(scored[-1])}")
    return [*(Paragraph(line) for line in lines if line), *results]


def _row_blocks(view: "RowView") -> list["Block"]:
    from electralab.reporting.blocks import Heading, MarkedText, Paragraph, TokenSpan

    blocks: list[Block] = [Heading(f"row {view.row} of {view.path}"), Paragraph(" ".join(view.pieces))]
    if view.masked is None:
        return blocks
    text, spans = "", []
    for token, is_replaced, p_replaced in zip(view.corrupted, view.is_replaced, view.p_replaced, strict=True):
        start = len(text) + (1 if text else 0)
        text = f"{text} {token}" if text else token
        spans.append(TokenSpan(start, len(text), p_replaced, "replaced" if is_replaced else ""))
    return [
        *blocks,
        Heading("masked, as the generator sees it"),
        Paragraph(" ".join(view.masked)),
        Heading("corrupted, coloured by the discriminator's suspicion; replaced tokens are underlined"),
        MarkedText(text, spans),
    ]
