"""`electra proofread`, `electralab.proofread`: the words of documents that look wrong, and what may have been meant."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, count, positive_int, settle
from electralab.shell.commands.detect import read_source

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.records.answers import ProofreadResult
    from electralab.records.measurement import MeasuringResult

SUMMARY = "find words that look wrong in documents and suggest corrections"
EXAMPLE = "electra proofread letter.txt notes.md --model runs/mine --html proofs.html"
SETTINGS = "electralab.serving.proofreader:ProofreadConfig"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("files", nargs="*", metavar="FILE", help="text files, or - (or none) for standard input")
    add("--model", metavar="MODEL", help="a run or pair")
    add("--threshold", dest=".threshold", type=float, metavar="P", help="mark words above this probability")
    rate = "the share of words that are wrong, if not that of the calibration"
    add("--error-rate", dest=".windows.error_rate", type=float, metavar="P", help=rate)
    add("--limit", dest=".limit", type=count, metavar="N", help="maximum number of words in a document, 0 for all")
    add("--suggestions", dest=".suggestions", type=count, metavar="N", help="suggestions for each word")
    add("--html", metavar="FILE", help="write an HTML page with the marked texts")
    add("--measure", action="store_true", help="put errors into the texts and measure how many are found")
    add("--seed", type=int, metavar="S", help="random seed of the damage that --measure plants")
    add("--threads", type=positive_int, metavar="N", help="CPU threads; default: all cores")


def proofread(
    texts: Mapping[str, str],
    *,
    model: str | Path = "hour-en",
    measure: bool = False,
    damage_share: float = 0.05,
    seed: int = 0,
    html: str | Path | None = None,
    config: str | None = None,
    settings: GivenSettings | None = None,
    threads: int = 0,
) -> ProofreadResult | MeasuringResult:
    """Documents by name -> the words that look wrong, with suggestions; or, as `electralab.measure`, how much of
    planted damage is found.

    >>> electralab.proofread({"letter": "we the people of the states"}, model="run", threads=1).proofs[0].words
    6
    """
    from electralab.artifacts import write_file
    from electralab.errors import UsageError
    from electralab.measuring.items import MeasuringConfig
    from electralab.measuring.stage import measure_texts
    from electralab.records.answers import ProofreadResult
    from electralab.runtime import use_threads
    from electralab.serving.model import Model
    from electralab.serving.proofreader import ProofreadConfig, render_proofs

    if measure and html:
        raise UsageError("proofread: --measure has scores and no page; leave out --html or --measure")
    resolved = settle(ProofreadConfig, config, settings)
    use_threads(threads)
    loaded = Model(Path(model), resolved.windows)
    if measure:
        planting = MeasuringConfig(
            windows=resolved.windows,
            threshold=resolved.threshold,
            error_rate=resolved.windows.error_rate or damage_share,
            seed=seed,
        )
        return measure_texts(loaded, list(texts.values()), planting)
    proofreader = loaded.make_proofreader(resolved)
    proofs = tuple(proofreader.proofread(text, source) for source, text in texts.items())
    heldout = proofreader.detector.heldout
    # What is calibrated says itself how sure it is.
    warning = heldout.warning if heldout and proofreader.detector.scorer is None else None
    if html:
        write_file(Path(html), render_proofs(proofs, warning))
    return ProofreadResult(model=str(model), threshold=resolved.threshold, warning=warning, proofs=proofs)


def run(call: Call) -> None:
    from electralab.records.measurement import MeasuringResult
    from electralab.reporting.format import format_names, format_number_of
    from electralab.shell.commands.measure import print_measures

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
    result = call.ask(proofread, texts=texts)
    if isinstance(result, MeasuringResult):
        print_measures(call, result)
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
            line.append(f"   → {meant}" if perhaps else "", style="dim")
            why = tame("; ".join(word.reasons))
            call.console.print(line.append(f"   ({why})" if why else "", style="dim"))
