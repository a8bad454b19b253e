"""What long work looks like: a live line in a terminal, plain lines in a pipe; always on standard error.

PrepareProgress..., Event... -> the eye
"""

import sys
from collections.abc import Iterator, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from electralab.terminal import tame, tame_line

if TYPE_CHECKING:  # the stages are loaded by whoever runs them: a display costs no torch
    from electralab.analysis.stage import AnalysisEvent
    from electralab.compression.stage import CompressEvent
    from electralab.evaluation.outcome import Evaluation
    from electralab.evaluation.outcome import Progress as EvaluationProgress
    from electralab.experiments.stage import StudyEvent
    from electralab.exporting.export import Exported
    from electralab.finetuning.examples import Split
    from electralab.finetuning.predicting import Chunk
    from electralab.finetuning.stage import TuneEvent
    from electralab.finetuning.suite import SuiteEvent
    from electralab.tokens.prepare import PrepareProgress
    from electralab.training.session import Event


Record = dict[str, Any]

_SHOWN_BAD_ROWS = 5
_PHASES = {
    "hashing": "checking the files",
    "sampling": "sampling text for the tokenizer",
    "learning": "learning the tokenizer",
    "encoding": "encoding documents",
}


class TameConsole(Console):
    """A console on which no string, whoever wrote it, gives orders to the terminal; only styles of our own do."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(tame(text), **options)


class _DescriptionColumn(TextColumn):
    """What is being done, which may name a file or a model."""

    def render(self, task: Task) -> Text:
        text = super().render(task)
        text.plain = tame_line(text.plain)
        return text


class Display:
    def __init__(self, *, quiet: bool = False) -> None:
        self.console = TameConsole(stderr=True, quiet=quiet, highlight=False, emoji=False)

    @property
    def is_live(self) -> bool:
        return self.console.is_terminal

    def say(self, text: str, style: str = "") -> None:
        self.console.print(tame_line(text), style=style, markup=False, soft_wrap=True)

    def tell_loading(self, *, only_live: bool = False) -> None:
        """Before a verb imports PyTorch, which takes seconds; nothing where that is done already.

        `only_live`: of verbs that answer at once, often in a pipe, where nobody waits before a silent terminal.
        """
        if "torch" not in sys.modules and (self.is_live or not only_live):
            self.say("loading PyTorch", style="dim")

    def _bar(self) -> Progress:
        return Progress(
            SpinnerColumn(),
            _DescriptionColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("eta"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            transient=True,
            disable=not self.is_live,
        )

    def follow_prepare(self, steps: "Iterator[PrepareProgress]") -> None:
        """Draw each phase with its own clock; in a pipe one line when it begins and one for every further fifth."""
        shown = ("", -1)
        with self._bar() as bar:
            task = bar.add_task("preparing", total=None)
            for step in steps:
                total = max(step.total_bytes, 1)
                counts = [f"{step.documents:,} documents"] if step.documents else []
                counts += [f"{step.tokens:,} tokens"] if step.tokens else []
                text = _PHASES.get(step.phase, step.phase) + (f": {', '.join(counts)}" if counts else "")
                if step.phase != shown[0]:
                    bar.reset(task, total=total)
                bar.update(task, description=text, completed=step.done_bytes, total=total)
                if step.note:
                    self.say(step.note, style="yellow")
                now = (step.phase, 5 * step.done_bytes // total)
                if not self.is_live and now != shown:
                    self.say(f"{text} ({step.done_bytes / total:.0%})")
                shown = now

    def follow_pretrain(self, events: "Iterator[Event]") -> Record:
        """Draw a run to its end and return its results."""
        with self._bar() as bar:
            return self._follow_run(events, bar)

    def follow_finetune(self, events: "Iterator[TuneEvent]", *, most_lines: int = 0) -> Record:
        """Draw every seed of a run to the end and return the results of all.

        In a pipe at most so many lines a seed, beside those with scores; 0: one for every step that is logged.
        """
        with self._bar() as bar:
            return self._follow_run(self._tell_seeds(events), bar, most_lines=most_lines)

    def follow_glue(self, events: "Iterator[SuiteEvent]", *, most_lines: int = 0) -> Record:
        """Draw every task to its end and return the table."""
        from electralab.finetuning import suite

        results: Record = {}

        def of_tasks() -> "Iterator[TuneEvent]":
            for event in events:
                match event:
                    case suite.TaskStarted(task, number, count):
                        self.say(f"{task.display} ({number} of {count})", style="bold underline")
                    case suite.TaskFinished(task, of):
                        self.say(f"{task.display}: median {describe_scores(of['dev'])}", style="bold green")
                    case suite.SuiteFinished():
                        results.update(event.results)
                    case _:
                        yield event

        with self._bar() as bar:
            self._follow_run(self._tell_seeds(of_tasks()), bar, most_lines=most_lines)
        return results

    def _tell_seeds(self, events: "Iterator[TuneEvent]") -> "Iterator[Event]":
        from electralab.finetuning import stage

        for event in events:
            match event:
                case stage.DataRead():
                    self._announce_data(event)
                case stage.BaselineScored(baseline):
                    for split, scores in baseline.scores.items():
                        self.say(f"baseline ({baseline.what}): {split} {describe_scores(scores)}", style="dim")
                case stage.SeedStarted(seed, number, count):
                    if count > 1:
                        self.say(f"seed {seed} ({number} of {count})", style="bold")
                case stage.SeedFinished(seed, dev):
                    self.say(f"seed {seed}: dev {describe_scores(dev)}", style="green")
                case _:
                    yield event

    def follow_evaluate(self, steps: "Iterator[EvaluationProgress | Evaluation]") -> "Evaluation":
        """Draw each phase; in a pipe one line when it begins."""
        from electralab.evaluation.outcome import Evaluation

        phase = ""
        found: Evaluation | None = None
        with self._bar() as bar:
            task = bar.add_task("evaluating", total=None)
            for step in steps:
                if isinstance(step, Evaluation):
                    found = step
                    continue
                if step.phase != phase:
                    bar.reset(task, total=step.total or None)
                    if not self.is_live:
                        self.say(step.phase)
                phase = step.phase
                bar.update(task, description=escape(step.phase), completed=step.done, total=step.total or None)
        assert found is not None, "an evaluation ends with its result"
        for note in found.notes:
            self.say(note, style="yellow")
        for bad in found.bad_rows:
            self.say(f"warning: {bad}", style="yellow")
        return found

    def follow_predict(self, chunks: "Iterator[Chunk]", total: int) -> "list[Chunk]":
        done = []
        with self._bar() as bar:
            task = bar.add_task("predicting", total=total)
            for chunk in chunks:
                done.append(chunk)
                bar.advance(task, len(chunk.rows))
        if cut := sum(chunk.cut for chunk in done):
            self.say(f"warning: {cut:,} of {total:,} texts are longer than the model's rows and were cut", "yellow")
        return done

    def follow_export(self, steps: "Iterator[Exported]") -> "list[Exported]":
        done = []
        self.say("tracing and trying the networks")
        for step in steps:
            done.append(step)
            off = step.fidelity.largest_difference
            self.say(f"{step.role}: {step.bytes / 1e6:.1f} MB, answers within {off:.2g} of the model's")
            if step.note:
                self.say(step.note)
        return done

    def follow_study(self, events: "Iterator[StudyEvent]") -> Record:
        """A line for every step that ends or fails, with what is left; in a terminal a bar below them."""
        from electralab.experiments import running, stage

        results: Record = {}
        with self._bar() as bar:
            task = bar.add_task("studying", total=None)
            for event in events:
                match event:
                    case stage.StudyPlanned(plan, rest):
                        self.say(
                            f"{plan.study.name}: {len(plan.arms)} arms x {len(plan.study.seeds)} seeds, "
                            f"{rest.steps} commands in {rest.cells} cells left, {plan.jobs} at a time, "
                            f"about {describe_minutes(rest.minutes)}",
                            style="bold",
                        )
                        bar.reset(task, total=rest.steps)
                    case stage.StudyAdvanced(rest):
                        bar.update(task, completed=(bar.tasks[task].total or 0) - rest.steps)
                        left = f"{rest.steps} commands in {rest.cells} cells left, eta {describe_minutes(rest.minutes)}"
                        bar.update(task, description=left)
                        if not self.is_live:
                            self.say(f"  {left}", style="dim")
                    case running.StepStarted(cell, step):
                        self.say(f"{cell.name}: {step.name} begins", style="dim")
                    case running.StepFinished(cell, step, record):
                        self.say(f"{cell.name}: {step.name} took {describe_minutes(record.seconds / 60)}")
                    case running.StepFailed(cell, step, reason):
                        self.say(f"{cell.name}: {step.name} failed: {reason}", style="red")
                    case stage.StudyFinished():
                        results = event.results
        return results

    def follow_analyze(self, events: "Iterator[AnalysisEvent]") -> Record:
        """A line for every measure of a model that ends, with what is left; in a terminal a bar below them."""
        from electralab.analysis import stage

        results: Record = {}
        started, measured = monotonic(), 0
        with self._bar() as bar:
            task = bar.add_task("analyzing", total=None)
            for event in events:
                match event:
                    case stage.PartStarted(model, claim, title, done, total):
                        bar.update(task, description=escape(f"{claim} {title}: {model}"), completed=done, total=total)
                    case stage.PartFinished():
                        measured += not event.is_reused
                        left = (monotonic() - started) / max(measured, 1) * (event.total - event.done)
                        self._tell_part(event, "" if self.is_live else f"  eta {describe_minutes(left / 60)}")
                        bar.update(task, completed=event.done)
                    case stage.AnalysisFinished():
                        results = event.results
        return results

    def _tell_part(self, event: Any, eta: str) -> None:
        how = "kept from before" if event.is_reused else f"{event.findings} figures"
        self.say(f"{event.claim} {event.model}: {how} ({event.done} of {event.total}){eta}")
        for reason in event.missing:
            self.say(f"  missing: {reason}", style="yellow")

    def follow_compress(self, events: "Iterator[CompressEvent]") -> Record:
        """A line for every variant with its score; in a terminal a bar for what takes long."""
        from electralab.compression import stage

        results: Record = {}

        def of_training(bar: Progress) -> "Iterator[Event]":
            task = bar.add_task("compressing", total=None)
            for event in events:
                match event:
                    case stage.VariantStarted(name, number, count):
                        bar.reset(task, total=None, description=f"{name} ({number} of {count})")
                        self.say(f"{name} ({number} of {count})", style="bold")
                    case stage.Advanced(phase, done, total):
                        bar.update(task, description=phase, completed=done, total=total)
                        if not self.is_live and done in (0, total):
                            self.say(phase)
                    case stage.VariantScored(name, metric, score):
                        self.say(f"{name}: {metric.replace('_', ' ')} {score:.4f}", style="green")
                    case stage.VariantFailed(name, reason):
                        self.say(f"{name} failed: {reason}", style="red")
                    case stage.CompressFinished():
                        results.update(event.results)
                    case _:
                        yield event

        with self._bar() as bar:
            self._follow_run(of_training(bar), bar)
        return results

    def tell_bad_rows(self, split: "Split") -> None:
        """How many rows could not be used, and why the first of them."""
        if not split.bad_rows:
            return
        self.say(f"warning: {split.path}: {len(split.bad_rows):,} of {split.rows:,} rows are bad", style="yellow")
        for bad in split.bad_rows[:_SHOWN_BAD_ROWS]:
            self.say(f"         row {bad.row}: {bad.reason}", style="yellow")
        if len(split.bad_rows) > _SHOWN_BAD_ROWS:
            self.say(f"         and {len(split.bad_rows) - _SHOWN_BAD_ROWS:,} more", style="yellow")

    def _announce_data(self, event: Any) -> None:
        """What was read from where, every bad row counted and the first of them told."""
        data = event.data
        for split in (data.train, *data.devs, *data.tests):
            columns = ", ".join(f"{part} from {name!r}" for part, name in split.columns.items())
            label = "" if split.is_labelled else ", no labels"
            self.say(f"{split.name}: {len(split.examples):,} examples{label}" + (f" ({columns})" if columns else ""))
            self.tell_bad_rows(split)
            self._tell_long(split, event.too_long.get(split.name, []), is_cut=data.task.kind in ("classify", "regress"))
        for note in event.notes:
            self.say(note, style="yellow")

    def _tell_long(self, split: "Split", places: Sequence[int], *, is_cut: bool) -> None:
        if not places:
            return
        fate = "are cut to fit a row" if is_cut else "go on in another row"
        first = ", ".join(split.examples[place].id for place in places[:_SHOWN_BAD_ROWS])
        more = ", …" if len(places) > _SHOWN_BAD_ROWS else ""
        self.say(f"         {len(places):,} of them are long and {fate} ({first}{more})", style="dim")

    def _follow_run(self, events: "Iterator[Event]", bar: Progress, *, most_lines: int = 0) -> Record:
        from electralab.training import session

        results: Record = {}
        task = bar.add_task("training", total=None)
        total = shown = 0
        for event in events:
            match event:
                case session.RunStarted():
                    total, shown = event.total_steps, event.first_step - 1
                    self._announce(event)
                    bar.reset(task, total=total, completed=event.first_step - 1)
                case session.StepLogged(record):
                    is_told = not most_lines or most_lines * record["step"] // total > most_lines * shown // total
                    shown = record["step"] if is_told else shown
                    self._draw_step(bar, task, record, total, is_told=is_told)
                case session.Warned(text):
                    self.say(f"warning: {text}", style="yellow")
                case session.Announced(text):
                    self.say(text, style="dim")
                case session.Saved(path):
                    if self.is_live:
                        bar.update(task, refresh=True)
                    else:
                        self.say(f"saved {path}")
                case session.RunFinished():
                    results = event.results
        return results

    def _announce(self, event: Any) -> None:
        if event.first_step > event.total_steps:
            self.say(f"already finished: {event.total_steps:,} steps")
            return
        verb = "resuming at" if event.first_step > 1 else "starting at"
        self.say(
            f"{verb} step {event.first_step:,} of {event.total_steps:,}, {event.parameters:,} parameters, "
            f"{event.threads} thread{'s' if event.threads > 1 else ''}"
        )

    def _draw_step(self, bar: Progress, task: TaskID, record: Record, total: int, *, is_told: bool) -> None:
        bar.update(task, completed=record["step"], description=escape(describe_step(record)))
        is_heldout = any(name.startswith("heldout_") for name in record)
        dev = {name.removeprefix("dev_"): value for name, value in record.items() if name.startswith("dev_")}
        if is_heldout or dev or (is_told and not self.is_live):
            left = record["seconds"] / record["step"] * (total - record["step"])
            eta = "" if self.is_live else f"  eta {int(left // 60)}:{int(left % 60):02d}"
            self.say(f"step {record['step']:>6}/{total}  {describe_step(record)}{eta}")
        if is_heldout:
            self.say(f"       held out  {describe_heldout(record)}", style="cyan")
        if dev:
            self.say(f"       dev  {describe_scores(dev)}", style="cyan")


def describe_scores(scores: Record) -> str:
    return "  ".join(f"{name} {value:.4f}" for name, value in scores.items())


def describe_minutes(minutes: float) -> str:
    if minutes < 1.5:
        return f"{60 * minutes:.0f} s"
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def describe_step(record: Record) -> str:
    """Losses by their names, two of them by their letters; then how well the discriminator does, and how fast."""
    losses = {name.removesuffix("_loss"): value for name, value in record.items() if name.endswith("_loss")}
    named = losses or {"loss": record["loss"]}
    words = [f"{_SHORT.get(name, name)} {_number(value)}" for name, value in named.items() if "heldout" not in name]
    words += [f"{_SHORT.get(name, name)} {record[name]:.3f}" for name in ("auc", "recall") if name in record]
    return "  ".join([*words, f"{record['tokens_per_second']:,.0f} tok/s"])


def describe_heldout(record: Record) -> str:
    scores = {name.removeprefix("heldout_"): value for name, value in record.items() if name.startswith("heldout_")}
    words = []
    for name in (name.removesuffix("_loss") for name in scores if name.endswith("_loss")):
        right = scores.get(f"{name}_accuracy")
        words.append(f"{_SHORT.get(name, name)} {_number(scores[f'{name}_loss'])}")
        words += [f"({right:.1%} right)"] if right is not None else []
    line = " ".join(words).replace(") ", ")  ")
    shown = [name for name in ("auc", "recall", "precision") if name in scores]
    return "  ".join([line, *(f"{_SHORT.get(name, name)} {scores[name]:.3f}" for name in shown)])


_SHORT = {"generator": "G", "discriminator": "D", "auc": "AUC"}


def _number(value: float | None) -> str:
    """A loss as logged: null where it was not finite."""
    return "n/a" if value is None else f"{value:.4g}"
