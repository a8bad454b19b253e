"""Artifacts in human form on a console: curves of a run, the scores of a tuned one, a row with its verdicts.

what `show` returns -> the eye
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from electralab.summaries import describe_checkpoint, describe_data, describe_model
from electralab.tables import (
    analysis_tables,
    class_tables,
    glue_table,
    results_table,
    sparkline,
    study_tables,
    suspicion,
    tame,
    tradeoff_tables,
    tree_table,
    tuned_tables,
)
from electralab.training.metrics import format_heldout

Result = dict[str, Any]

_NAME_WIDTH = 29
_IN_WORDS: dict[str, Callable[[Result], list[str]]] = {
    "data": lambda result: describe_data(result["path"], result["report"]),
    "model": describe_model,
    "checkpoint": describe_checkpoint,
}
_NAMED_FILES = 6


def print_artifact(result: Result, console: Console) -> None:
    if result["kind"] in ("run", "metrics"):
        _print_run(result, console)
    elif result["kind"] == "fine-tuning run":
        _print_tuning(result, console)
    elif result["kind"] == "GLUE run":
        console.print(glue_table(result["results"]))
    elif result["kind"] == "study" and result["results"]:
        for table in study_tables(result["results"]):
            console.print(table)
    elif result["kind"] == "analysis":
        for table in analysis_tables(result["results"]):
            console.print(table)
    elif result["kind"] == "trade-off":
        for table in tradeoff_tables(result["results"]):
            console.print(table)
    elif result["kind"] == "row":
        _print_row(result, console)
    elif result["kind"] in _IN_WORDS:
        for line in _IN_WORDS[result["kind"]](result):
            console.print(tame(line))
    elif "networks" in result:
        _print_networks(result, console)
    elif result["kind"] == "seed":
        _print_seed(result, console)
    elif result["kind"] == "checkpoints":
        console.print(f"{result['kind']} {result['path']}", style="bold")
        for checkpoint in result["checkpoints"]:
            size = sum(file["bytes"] for file in checkpoint["files"].values())
            console.print(f"{Path(checkpoint['path']).name}  {size:,} bytes")
    else:
        told = {name: value for name, value in result.items() if name not in ("verified", "unverified")}
        console.print(tree_table(f"{result['kind']} {result['path']}", result.get("report", told)))
    _print_verification(result, console)


def _print_verification(result: Result, console: Console) -> None:
    """Nothing is called sound that no hash was there for."""
    verified, unverified = result.get("verified", []), result.get("unverified", [])
    if verified:
        console.print(f"verified: {len(verified):,} files have the hashes of their manifests", style="dim")
    if unverified:
        names = ", ".join(map(tame, unverified[:_NAMED_FILES]))
        more = f" and {len(unverified) - _NAMED_FILES:,} more" if len(unverified) > _NAMED_FILES else ""
        console.print(f"not verified, because no manifest names them: {names}{more}", style="dim", markup=False)


def _print_networks(result: Result, console: Console) -> None:
    form = f" as {result['format']}" if "format" in result else ""
    console.print(f"{result['kind']} {result['path']}{form}", style="bold")
    if "progress" in result:
        console.print(tree_table("progress", result["progress"]))
    for role, network in result["networks"].items():
        encoder, is_graph = network["encoder"], "graph_bytes" in network
        size = f"graph of {network['graph_bytes']:,} bytes" if is_graph else f"{network['parameters']:,} parameters"
        layers = f"{encoder['num_layers']} layer{'s' if encoder['num_layers'] > 1 else ''}"
        told = f"{layers}, hidden size {encoder['hidden_size']}, {encoder['vocab_size']:,} tokens, {size}"
        console.print(f"{role:>14}  {network['network'].removeprefix('graph')}, {told}")


def _print_seed(result: Result, console: Console) -> None:
    console.print(f"{result['kind']} {result['path']}", style="bold")
    losses = [record["loss"] for record in result["records"] if record.get("loss") is not None]
    if losses:
        console.print(f"{'loss':>10} {sparkline(losses)} {losses[0]:.4g} → {losses[-1]:.4g}")
    scores = {split: result["results"][split] for split in ("dev", "test") if split in result["results"]}
    if scores:
        console.print(tree_table("scores", scores))


def _print_run(result: Result, console: Console) -> None:
    records = result["records"]
    console.print(f"{result['kind']} {result['path']}", style="bold")
    if "identity" in result:
        console.print(f"steps {records[-1]['step'] if records else 0:,} of {result['identity']['total_steps']:,}")
        console.print(f"checkpoints {', '.join(result['checkpoints']) or 'none'}")
    for key in _choose_curves(records):
        values = [record[key] for record in records if record.get(key) is not None]
        if values:
            console.print(f"{key:>{_NAME_WIDTH}} {sparkline(values)} {values[0]:.4g} → {values[-1]:.4g}")
    judged = [record for record in records if any(key.startswith("heldout_") for key in record)]
    if judged:
        console.print(f"{'held out':>{_NAME_WIDTH}} {format_heldout(judged[-1])}")
    if result.get("results"):
        console.print(results_table(result["results"]))


def _choose_curves(records: list[Result]) -> list[str]:
    """What the run has of these: losses, how the two networks stand against each other, and held-out scores."""
    keys = list(dict.fromkeys(key for record in records for key in record))
    trained = [key for key in keys if not key.startswith("heldout_")]
    return [
        *(key for key in trained if key.endswith("_loss")),
        *(key for key in ("auc", "recall") if key in trained),
        *(key for key in trained if key.endswith(("_accuracy", "_entropy", "_gradient_norm"))),
        *(key for key in keys if key == "heldout_auc" or (key.startswith("heldout_") and key.endswith("_loss"))),
    ]


def _print_tuning(result: Result, console: Console) -> None:
    console.print(f"{result['kind']} {result['path']}", style="bold")
    for name, records in result["records"].items():
        losses = [record["loss"] for record in records if record.get("loss") is not None]
        if losses:
            console.print(f"{name:>10} loss {sparkline(losses)} {losses[0]:.4g} → {losses[-1]:.4g}")
    if result["results"]:
        print_scores(result["results"], console)


def print_scores(results: Result, console: Console) -> None:
    for table in (*tuned_tables(results), *class_tables(results)):
        console.print(table)
    for note in results.get("notes", ()):
        console.print(Text(tame(note), style="yellow"))


def _print_row(result: Result, console: Console) -> None:
    console.print(f"row {result['row']} of {result['path']}", style="bold")
    console.print(tame(" ".join(result["pieces"])), markup=False)
    if "masked" not in result:
        return
    console.print("masked, as the generator sees it", style="bold")
    console.print(tame(" ".join(result["masked"])), markup=False)
    console.print("corrupted, coloured by the discriminator's suspicion; replaced tokens are underlined", style="bold")
    line = Text(" ").join(
        Text(tame(piece), style=suspicion(chance) + (" underline" if is_replaced else ""))
        for piece, is_replaced, chance in zip(
            result["corrupted"], result["is_replaced"], result["p_replaced"], strict=True
        )
    )
    console.print(line)


def print_proofs(result: Result, console: Console) -> None:
    """A line for each word: where, how suspicious, in its context, and what may be meant."""
    if result["warning"]:
        console.print(Text(f"warning: {result['warning']}", style="yellow"))
    for proof in result["proofs"]:
        named = proof["findings"] or proof["most_suspicious"]
        told = f"{tame(proof['source'])}: {len(proof['findings']):,} of {proof['words']:,} words look wrong"
        if not proof["findings"] and named:
            told += f" at {result['threshold']:g}; the {len(named)} most suspicious of this text"
        console.print(Text(told, style="bold"))
        for finding in named:
            word = finding["word"]
            perhaps = ", ".join(one["text"] for one in finding["suggestions"])
            before, written, after, meant = map(tame, (finding["before"], word["text"], finding["after"], perhaps))
            line = Text(f"{finding['line']:>5}:{finding['column']:<4} {word['suspicion']:.2f}  {before}")
            line.append(written, style=suspicion(word["suspicion"]))
            line.append(after)
            console.print(line.append(f"   → {meant}", style="dim") if perhaps else line)
