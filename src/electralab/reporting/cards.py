"""Model cards and Markdown reports: README.md and report.md, filled in from what the work wrote down itself.

run folder, tuned run folder, export folder, study, trade-off -> README.md, report.md; Block... -> Markdown

A card is a template in `page/`; what stands in it comes from records.
"""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import ClassVar, NamedTuple, assert_never

from jinja2 import Environment, FunctionLoader, StrictUndefined
from pydantic import Field

from electralab.artifacts import write_file
from electralab.records.compression import Tradeoff
from electralab.records.export import ExportRecord
from electralab.records.record import FileRecord
from electralab.records.run import PretrainResults, RunFingerprint
from electralab.records.study import StudyResults
from electralab.records.tuned import TunedResults, TunedRun, read_rows
from electralab.reporting import blocks as b
from electralab.reporting.format import read_asset, read_texts
from electralab.reporting.plots import plot_study, plot_tradeoff
from electralab.reporting.run_pages import tuned_score_table
from electralab.reporting.study_page import study_readme, study_report, tradeoff_report

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


@cache
def _templates() -> Environment:
    # Markdown is no HTML: cells are escaped where a name could leave them.
    environment = Environment(
        loader=FunctionLoader(read_asset),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"cell": escape_cell, "thousands": lambda number: f"{number:,}"}
    return environment


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
    card = _templates().get_template("card_run.md")
    return card.render(
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
    card = _templates().get_template("card_tuned.md")
    return card.render(
        name=name,
        run=run,
        settings=run.settings,
        results=results,
        config=config,
        # The one output of a regression has a name in config.json too, which says nothing.
        labels=[] if config.problem_type == "regression" else list(config.id2label.values()),
        report=results.class_report,
        scores=render_table(tuned_score_table(results, in_points=False)),
        notes=notes,
        example=example,
    )


def write_export_card(folder: Path, license_name: str) -> None:
    """README.md of an exported or compressed network, from the export.json and config.json beside it."""
    card = render_export_card(ExportRecord.read(folder), CardConfig.read(folder), license_name)
    write_file(folder / README, card)


def render_export_card(export: ExportRecord, config: CardConfig, license_name: str) -> str:
    card = _templates().get_template("card_export.md")
    return card.render(
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
    write_file(out / README, render_markdown(study_readme(study)))
    write_file(out / "report.md", render_markdown(study_report(study)))


def write_tradeoff_report(out: Path, tradeoff: Tradeoff) -> None:
    """report.md and the picture of a trade-off."""
    plot_tradeoff(out, tradeoff)
    write_file(out / "report.md", render_markdown(tradeoff_report(tradeoff)))


def render_markdown(blocks: Iterable[b.Block]) -> str:
    """One blank line between blocks, and a line end behind the last."""
    return "\n\n".join(text for block in blocks for text in _render(block) if text) + "\n"


def _render(block: b.Block) -> Iterator[str]:
    match block:
        case b.Paragraph(text=text, style=style):
            yield f"**{text}**" if style == "strong" else text
        case b.Bullets(items=items):
            yield "\n".join(f"- {item}" for item in items)
        case b.Heading(text=text, level=level):
            yield f"{'#' * level} {text}"
        case b.Table(title=title):
            yield title and f"{title}:"
            yield render_table(block)
        case b.Matrix(title=title, names=names, counts=counts):
            # Its corner says how to read it, and its title says the same at length.
            rows = [[name, *map(str, row)] for name, row in zip(names, counts, strict=True)]
            yield render_table(b.Table("", ["true, predicted as", *names], rows))
        case b.Code(text=text, language=language):
            yield f"```{language}\n{text}\n```"
        case b.Picture(title=title, address=address, meaning=meaning):
            yield f"![{title}]({address})"
            yield meaning
        case b.Absent(what=what, needed=needed):
            yield f"**{what}.** {needed}"
        case b.MarkedText(text=text):
            yield text
        case b.Tiles(tiles=tiles):
            yield "\n".join(f"- {tile.name}: {tile.value}{f' ({tile.beside})' * bool(tile.beside)}" for tile in tiles)
        case b.Definitions(words=words):
            yield "\n".join(f"- *{word}*: {text}" for word, text in words.items())
        case b.Fold(blocks=inner) | b.Group(blocks=inner):
            for part in inner:
                yield from _render(part)
        case b.ClaimCard():
            yield f"**{block.number}: {block.verdict}.** {block.sentence}"
            yield "\n".join(f"- {note}" for note in block.notes)
        case b.Chart() | b.Scatter() | b.CloudFigure() | b.Links() | b.StepsTaken():
            # What moves, or is drawn, has a picture of its own in a folder of Markdown.
            pass
        case _:
            assert_never(block)


def render_table(table: b.Table) -> str:
    lines = [
        " | ".join(map(escape_cell, table.head)),
        "|".join("---:" if is_number else "---" for is_number in table.is_number_column()),
        *(" | ".join(map(escape_cell, row)) for row in table.texts()),
    ]
    return "\n".join(f"| {line} |" if number != 1 else f"|{line}|" for number, line in enumerate(lines))


def escape_cell(text: str) -> str:
    """A bar would end the cell, also behind a backslash, and a line break the row."""
    return " ".join(text.replace("|", "&#124;").split())
