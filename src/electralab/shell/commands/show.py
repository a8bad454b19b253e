"""`electra show`: any artifact in human form, after its files were compared with their hashes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab.shell.call import Call, as_path, settings_table
from electralab.shell.parser import Parser

if TYPE_CHECKING:
    from electralab.reporting.blocks import Block

SUMMARY = "print any artifact in human form"
EXAMPLE = "electra show runs/quickstart"

_NAME_WIDTH = 29
_NAMED_FILES = 6


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("path", metavar="PATH", help="a data folder, run, study, checkpoint, model folder or metrics.jsonl")
    add("--row", type=int, metavar="N", help="of data: this training row with its pieces")
    add("--model", metavar="MODEL", help="with --row: mask and corrupt the row and judge it by this run")


def show(path: str | Path, *, row: int | None = None, model: str | Path | None = None) -> dict[str, Any]:
    """Any artifact as a plain dictionary that says what it is, after its files were compared with their hashes.

    >>> electralab.show("run")["kind"]
    'run'
    """
    from electralab.inspection import view

    return view(Path(path), row=row, model=as_path(model))


def run(call: Call) -> None:
    flags = call.flags
    if flags.model is not None:
        call.display.tell_loading(only_live=True)
    view = show(flags.path, row=flags.row, model=flags.model)
    if flags.dry_run:
        call.print(*[f"{flags.path}: {view['kind']}"])
    else:
        call.print(*view_blocks(view), *_verification_blocks(view))
    call.answer(**view)


def view_blocks(view: dict[str, Any]) -> list["Block"]:
    """An artifact in the form that its own verb prints it, where it has one."""
    from electralab.records.compression import Tradeoff
    from electralab.records.findings import Analysis
    from electralab.records.prepared import PreparedReport
    from electralab.records.study import StudyResults
    from electralab.records.tuned import GlueResults, TunedResults
    from electralab.reporting.analysis_blocks import last_layer_tables
    from electralab.reporting.blocks import Heading, Paragraph
    from electralab.reporting.study_page import glue_blocks, study_tables, tradeoff_blocks
    from electralab.shell.commands import finetune, prepare

    title = Heading(f"{view['kind']} {view['path']}")
    match view["kind"]:
        case "run" | "metrics":
            return [title, *_run_blocks(view)]
        case "fine-tuning run":
            curves = [_curve(f"{name} loss", records, "loss") for name, records in view["records"].items()]
            results = finetune.score_blocks(TunedResults.model_validate(view["results"])) if view["results"] else []
            return [title, *(Paragraph(curve) for curve in curves if curve), *results]
        case "GLUE run":
            return [*glue_blocks(GlueResults.model_validate(view["results"]))]
        case "study" if view["results"]:
            return [*study_tables(StudyResults.model_validate(view["results"]))]
        case "analysis":
            return [*last_layer_tables(Analysis.model_validate(view["results"]))]
        case "trade-off":
            return [*tradeoff_blocks(Tradeoff.model_validate(view["results"]))]
        case "row":
            return _row_blocks(view)
        case "data":
            report = PreparedReport.model_validate(view["report"])
            return [Paragraph(line) for line in prepare.format_report(view["path"], report)]
        case "model":
            return [Paragraph(line) for line in format_model(view)]
        case "checkpoint":
            return [Paragraph(line) for line in format_checkpoint(view)]
        case "seed":
            scores = {split: view["results"][split] for split in ("dev", "test") if split in view["results"]}
            curve = _curve("loss", view["records"], "loss")
            return [title, Paragraph(curve), *([settings_table("scores", scores)] if scores else [])]
        case "checkpoints":
            sizes = [
                (Path(checkpoint["path"]).name, sum(file["bytes"] for file in checkpoint["files"].values()))
                for checkpoint in view["checkpoints"]
            ]
            return [title, *(Paragraph(f"{name}  {size:,} bytes") for name, size in sizes)]
        case _ if "networks" in view:
            return _network_blocks(view)
    shown = {name: value for name, value in view.items() if name not in ("verified", "unverified")}
    return [settings_table(f"{view['kind']} {view['path']}", shown)]


def _verification_blocks(view: dict[str, Any]) -> list["Block"]:
    """Nothing is called sound that no hash was there for."""
    from electralab.reporting.blocks import Paragraph

    blocks: list[Block] = []
    if verified := view.get("verified"):
        blocks.append(Paragraph(f"verified: {len(verified):,} files have the hashes of their manifests", "note"))
    if unverified := view.get("unverified"):
        names = ", ".join(unverified[:_NAMED_FILES])
        more = f" and {len(unverified) - _NAMED_FILES:,} more" if len(unverified) > _NAMED_FILES else ""
        blocks.append(Paragraph(f"not verified, because no manifest names them: {names}{more}", "note"))
    return blocks


def _curve(name: str, records: Sequence[Any], key: str, width: int = 0) -> str:
    """`loss ▇▅▃▁ 8.1 → 3.2`; nothing without a value."""
    from electralab.reporting.terminal import sparkline

    values = [record[key] for record in records if record.get(key) is not None]
    return f"{name:>{width or 10}} {sparkline(values)} {values[0]:.4g} → {values[-1]:.4g}" if values else ""


def _run_blocks(view: dict[str, Any]) -> list["Block"]:
    """What a run has of these: losses, how the two networks stand against each other, and held-out scores."""
    from electralab.records.run import PretrainResults, StepRecord
    from electralab.reporting.blocks import Paragraph
    from electralab.shell.commands.pretrain import result_blocks
    from electralab.training.metrics import format_heldout

    records, lines = view["records"], []
    if "identity" in view:
        lines.append(f"steps {records[-1]['step'] if records else 0:,} of {view['identity']['total_steps']:,}")
        lines.append(f"checkpoints {', '.join(view['checkpoints']) or 'none'}")
    keys = list(dict.fromkeys(key for record in records for key in record))
    trained = [key for key in keys if not key.startswith("heldout_")]
    chosen = [
        *(key for key in trained if key.endswith("_loss")),
        *(key for key in ("auc", "recall") if key in trained),
        *(key for key in trained if key.endswith(("_accuracy", "_entropy", "_gradient_norm"))),
        *(key for key in keys if key == "heldout_auc" or (key.startswith("heldout_") and key.endswith("_loss"))),
    ]
    lines += [_curve(key, records, key, _NAME_WIDTH) for key in chosen]
    if scored := [record for record in records if any(key.startswith("heldout_") for key in record)]:
        scores = StepRecord.model_validate(scored[-1]).with_prefix("heldout_")
        lines.append(f"{'held out':>{_NAME_WIDTH}} {format_heldout(scores)}")
    results = result_blocks(PretrainResults.model_validate(view["results"])) if view.get("results") else []
    return [*(Paragraph(line) for line in lines if line), *results]


def _network_blocks(view: dict[str, Any]) -> list["Block"]:
    from electralab.reporting.blocks import Heading, Paragraph

    form = f" as {view['format']}" if "format" in view else ""
    blocks: list[Block] = [Heading(f"{view['kind']} {view['path']}{form}")]
    if "progress" in view:
        blocks.append(settings_table("progress", view["progress"]))
    for role, network in view["networks"].items():
        encoder, is_graph = network["encoder"], "graph_bytes" in network
        size = f"graph of {network['graph_bytes']:,} bytes" if is_graph else f"{network['parameters']:,} parameters"
        layers = f"{encoder['num_layers']} layer{'s' if encoder['num_layers'] > 1 else ''}"
        shape = f"{layers}, hidden size {encoder['hidden_size']}, {encoder['vocab_size']:,} tokens, {size}"
        blocks.append(Paragraph(f"{role:>14}  {network['network'].removeprefix('graph')}, {shape}"))
    return blocks


def _row_blocks(view: dict[str, Any]) -> list["Block"]:
    from electralab.reporting.blocks import Heading, MarkedText, Paragraph, TokenSpan

    blocks: list[Block] = [Heading(f"row {view['row']} of {view['path']}"), Paragraph(" ".join(view["pieces"]))]
    if "masked" not in view:
        return blocks
    text, spans = "", []
    for token, is_replaced, p_replaced in zip(view["corrupted"], view["is_replaced"], view["p_replaced"], strict=True):
        start = len(text) + (1 if text else 0)
        text = f"{text} {token}" if text else token
        spans.append(TokenSpan(start, len(text), p_replaced, "replaced" if is_replaced else ""))
    return [
        *blocks,
        Heading("masked, as the generator sees it"),
        Paragraph(" ".join(view["masked"])),
        Heading("corrupted, coloured by the discriminator's suspicion; replaced tokens are underlined"),
        MarkedText(text, spans),
    ]


def format_model(view: dict[str, Any]) -> list[str]:
    from electralab.reporting.format import format_bytes, format_count, format_names, format_number_of

    encoder, name = view["encoder"], "tuned model" if view["network"] == "tuned" else view["network"]
    if "graph_bytes" in view:
        size = f"a graph of {format_bytes(view['graph_bytes'])}"
    else:
        size = f"{format_count(view['parameters'])} parameters"
    lines = [
        f"{view['path']}: {name}, {size}",
        f"{encoder['backbone']} encoder: {format_number_of(encoder['num_layers'], 'layer')} of width "
        f"{encoder['hidden_size']:,} with {format_number_of(encoder['num_heads'], 'head')}, vocabulary of "
        f"{encoder['vocab_size']:,}, rows of up to {encoder['sequence_length']:,} tokens",
    ]
    if head := view.get("head"):
        labels = f": {format_names(head['labels'], 8)}" if head.get("labels") else ""
        lines.append(f"tuned to {head['kind']}{labels}")
    return lines


def format_checkpoint(view: dict[str, Any]) -> list[str]:
    from electralab.reporting.format import format_bytes, format_count, format_number_of, format_seconds

    progress = view["state"]["progress"]
    size = sum(file["bytes"] for file in view["files"].values())
    number = progress.get("skipped_steps")
    skipped = f"; {format_number_of(number, 'step')} skipped" if number else ""
    return [
        f"{view['path']}: after {format_number_of(progress['step'], 'step')}, {format_count(progress['tokens'])} "
        f"tokens and {format_seconds(progress['seconds'])} of training{skipped}",
        f"{format_number_of(len(view['files']), 'file')}, {format_bytes(size)}",
    ]
