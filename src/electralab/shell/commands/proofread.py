"""`electra proofread`, `electralab.proofread`: the words of documents that look wrong, and what may have been meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, settle
from electralab.shell.commands.detect import read_source
from electralab.shell.parser import Parser, count, positive_int

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.records.answers import ProofreadMeasure, ProofreadResult

SUMMARY = "name the words of documents that look wrong, and what may have been meant"
EXAMPLE = "electra proofread letter.txt notes.md --model runs/mine --html proofs.html"
SETTINGS = "electralab.serving.proofreader:ProofreadConfig"

_DAMAGE = {"typo": "typos", "swap": "swapped words", "ocr": "scanner's errors"}
# Scores of a kind of damage -> heads of their columns: "worst" is the precision among as many words as were damaged,
# "first" and "among" say how often the original is the first suggestion, or one of them.
_COLUMNS = {
    **{"precision": "precision", "recall": "recall", "auc": "AUC"},
    **{"precision_at_damaged": "worst", "corrected": "first", "among_suggestions": "among"},
}


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="text files, or - (or none) for standard input")
    add("--model", metavar="MODEL", help="a run or pair")
    add("--threshold", dest=".threshold", type=float, metavar="P", help="how suspicious a word must be")
    add("--limit", dest=".limit", type=count, metavar="N", help="the most words to name in a document, 0 for all")
    add("--suggestions", dest=".suggestions", type=count, metavar="N", help="for each word")
    add("--html", metavar="FILE", help="write a page with the marked texts instead of lines")
    add("--measure", action="store_true", help="plant damage in the texts and say how much is found")
    add("--seed", type=int, metavar="S", help="of the damage that --measure plants")
    add("--threads", type=positive_int, metavar="N", help="default: the cores there are")


def proofread(
    texts: Mapping[str, str],
    *,
    model: str | Path = "runs/quickstart",
    measure: bool = False,
    damage_share: float = 0.05,
    seed: int = 0,
    html: str | Path | None = None,
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
) -> ProofreadResult | ProofreadMeasure:
    """Documents by name -> the words that look wrong, with suggestions; or how much of planted damage is found.

    >>> electralab.proofread({"letter": "we the people of the states"}, model="run", threads=1).proofs[0].words
    6
    """
    from electralab.artifacts import write_file
    from electralab.errors import UsageError
    from electralab.records.answers import ProofreadMeasure, ProofreadResult
    from electralab.runtime import use_threads
    from electralab.serving.model import Model
    from electralab.serving.proofreader import ProofreadConfig, render_proofs, score_proofreading

    if measure and html:
        raise UsageError("proofread: --measure has scores and no page; leave out --html or --measure")
    resolved = settle(ProofreadConfig, config, settings)
    use_threads(threads)
    proofreader = Model(Path(model), resolved.windows).make_proofreader(resolved)
    if measure:
        scores = score_proofreading(proofreader, list(texts.values()), share=damage_share, seed=seed)
        return ProofreadMeasure(model=str(model), threshold=resolved.threshold, scores=dict(scores))
    proofs = tuple(proofreader.proofread(text, source) for source, text in texts.items())
    heldout = proofreader.detector.heldout
    warning = heldout.warning if heldout else None
    if html:
        write_file(Path(html), render_proofs(proofs, warning))
    return ProofreadResult(model=str(model), threshold=resolved.threshold, warning=warning, proofs=proofs)


def run(call: Call) -> None:
    from electralab.records.answers import ProofreadMeasure
    from electralab.reporting.blocks import Table
    from electralab.reporting.format import format_names, format_number_of, format_percent

    flags = call.flags
    # Everything is read before the model is loaded: a file that is not there costs no seconds.
    texts = {source: read_source(call, source) for source in flags.files or ["-"]}
    if flags.dry_run:
        characters = format_number_of(sum(map(len, texts.values())), "character")
        documents = f"{format_number_of(len(texts), 'document')} ({format_names(list(texts))})"
        call.print_plan(f"would read {documents}, {characters}, with {flags.model}")
        call.answer(model=flags.model, documents={source: len(text) for source, text in texts.items()})
        return
    call.say_loading(flags.model)
    result = proofread(
        texts,
        model=flags.model,
        measure=flags.measure,
        seed=flags.seed,
        html=flags.html,
        config=flags.config,
        settings=call.settings,
        threads=flags.threads,
    )
    if isinstance(result, ProofreadMeasure):
        rows = []
        for kind, scores in result.scores.items():
            call.print(
                f"{_DAMAGE.get(kind, kind)}: {format_percent(scores.recall)} of {scores.damaged:,} planted are marked; "
                f"{format_percent(scores.precision)} of what is marked was planted; the first suggestion is the "
                f"original in {format_percent(scores.corrected)} of the planted ones that are marked"
            )
            rows.append([kind, scores.damaged, *(f"{getattr(scores, name):.3f}" for name in _COLUMNS)])
        title = f"planted damage, threshold {result.threshold:g}"
        call.print(Table(title, ["", "damaged", *_COLUMNS.values()], rows))
    else:
        if result.warning:
            call.console.print(f"warning: {result.warning}", style="yellow")
        if flags.html:
            call.print(f"page  {flags.html}")
        else:
            print_proofs(call, result)
    call.answer(result)


def print_proofs(call: Call, result: ProofreadResult) -> None:
    """A line for each word: where, how suspicious, in its context, and what may be meant."""
    from rich.text import Text

    from electralab.reporting.terminal import suspicion_style
    from electralab.terminal import tame

    for proof in result.proofs:
        named = proof.findings or proof.most_suspicious
        title = f"{proof.source}: {len(proof.findings):,} of {proof.words:,} words look wrong"
        if not proof.findings and named:
            title += f" at {result.threshold:g}; the {len(named)} most suspicious of this text"
        call.console.print(Text(tame(title), style="bold"))
        for finding in named:
            word = finding.word
            perhaps = ", ".join(suggestion.text for suggestion in finding.suggestions)
            before, written, after, meant = map(tame, (finding.before, word.text, finding.after, perhaps))
            line = Text(f"{finding.line:>5}:{finding.column:<4} {word.suspicion:.2f}  {before}")
            line.append(written, style=suspicion_style(word.suspicion))
            line.append(after)
            call.console.print(line.append(f"   → {meant}", style="dim") if perhaps else line)
