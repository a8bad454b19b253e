"""`electra fit`, `electralab.fit`: a labelled table -> the best of a tuned encoder, TF-IDF and both together."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, as_model, count, open_display, positive, positive_int
from electralab.shell.commands.finetune import add_column_flags
from electralab.shell.commands.prepare import prepare
from electralab.shell.commands.pretrain import format_folder, pretrain

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.fitted import FitPlan, FitResults

SUMMARY = "fit a classifier to a labelled table: encoder, TF-IDF or both, whichever is best"
EXAMPLE = "electra fit reviews.csv --text-folder archive/ --minutes 60 --out runs/reviews"
SETTINGS = "electralab.finetuning.settings:FinetuneConfig"

BOXED = "hour-en"
"""The model that the package brings along."""
MINUTES = 10.0
"""Of pre-training, where nobody says how long."""
_MODEL = "start from this model's encoder; default: hour-en, or one learned from the rows' own text"
_TASK = "classify, regress or an official task; default: by what the label column holds"
_TEXT_FOLDER = "learn an encoder from the text of this folder, and of the rows, before"
_FOLDS = "parts for cross-validation, 1: hold rows out; 0: by the number of rows"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("source", metavar="FILE", help="a labelled table, or a folder with train.*, dev.*, test.*")
    add("--out", required=True, metavar="RUN", help="the run folder")
    add("--model", metavar="MODEL", help=_MODEL)
    add("--text-folder", metavar="DIR", help=_TEXT_FOLDER)
    add("--minutes", type=positive, metavar="M", help=f"how long to learn an encoder from text ({MINUTES:g})")
    add("--task", metavar="NAME", help=_TASK)
    add_column_flags(parser)
    add("--label", dest=".data.label", metavar="COLUMN", help="the column of the class or the number")
    add("--folds", type=count, metavar="N", help=_FOLDS)
    add("--seed", dest=".seed", type=int, metavar="S", help="random seed of the heads")
    add("--epochs", dest=".epochs", type=positive, metavar="X", help="of a tuning; default: more for few rows")
    add("--steps", dest=".steps", type=positive_int, metavar="N", help="of a tuning, instead of epochs (none)")
    add("--learning-rate", dest=".optimizer.learning_rate", type=positive, metavar="X", help="default: by size")
    add("--workers", type=positive_int, metavar="N", help="processes that share a step; default: one for each core")
    add("--threads", type=positive_int, metavar="N", help="threads of a worker; default: 1")


def fit(
    source: str | Path,
    out: str | Path,
    *,
    model: str | Path | None = None,
    text_folder: str | Path | None = None,
    minutes: float | None = None,
    task: str = "",
    config: str | None = None,
    settings: GivenSettings | None = None,
    folds: int = 0,
    workers: int = 0,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> FitResults | FitPlan:
    """A labelled table -> a run folder with a classifier, or what predicts a number; the same call again resumes.

    >>> electralab.fit("messages.csv", "fitted", model="run", folds=2, settings={"steps": 2}, threads=1).best
    'linear'
    """
    display = open_display(display)
    from electralab.config import config_layers
    from electralab.errors import UsageError
    from electralab.fitting import stage
    from electralab.records.kinds import list_models

    run_dir = Path(out)
    if model and text_folder:
        raise UsageError("--text-folder: an encoder is learned from it, and --model names one; give one of them")
    if model is None and text_folder is None:
        if BOXED in list_models():
            model = BOXED
        else:
            display.say("no --model and no --text-folder: an encoder is learned from the rows' own text alone")
    if model and minutes is not None:
        raise UsageError(
            f"--minutes: is how long an encoder is learned from text, and {model} is one already; give --text-folder, "
            "or leave --minutes out"
        )
    learned, minutes = run_dir / "pretrained", minutes or MINUTES
    request = stage.FitRequest(
        source=Path(source),
        task=task,
        model=as_model(model) if model else learned,
        run_dir=run_dir,
        layers=config_layers(config, settings),
        folds=folds,
        workers=workers,
        threads=threads,
    )
    if text_folder:
        # What cannot be read is refused before anything is written.
        prepare([text_folder], run_dir / "data", dry_run=True)
    if dry_run:
        return stage.plan_fit(request, 0.0 if model else minutes)
    if not model:
        stage.write_own_text(request)
        texts = [*([str(text_folder)] if text_folder else []), str(run_dir / stage.OWN_TEXT)]
        with stage.same_command(run_dir):
            prepare(texts, run_dir / "data", display=display)
            pretrain(
                run_dir / "data",
                learned,
                config="tiny",
                minutes=minutes,
                workers=workers,
                threads=threads,
                display=display,
            )
    return display.run(lambda stop: stage.fit(request, stop))


def run(call: Call) -> None:
    from electralab.reporting.fit_page import fit_blocks

    result, flags = call.ask(fit, task=call.flags.task or ""), call.flags
    if not call.prints_plan(result):
        call.print(*fit_blocks(result), *format_folder(flags.out))
        call.print(f"model  {flags.out}/export/model")
    call.answer(result, run=flags.out)
