"""`electra proofread`: the words of documents that look wrong, and what may have been meant."""

from typing import TYPE_CHECKING, Any

from electralab import api
from electralab.shell.commands.detect import read_source
from electralab.shell.parser import Parser, count, positive_int

if TYPE_CHECKING:
    from electralab.records.answers import ProofreadMeasure, ProofreadResult
    from electralab.reporting.blocks import Block
    from electralab.shell.call import Call

SUMMARY = "name the words of documents that look wrong, and what may have been meant"
EXAMPLE = "electra proofread letter.txt notes.md --model runs/mine --html proofs.html"
FUNCTION = api.proofread
SETTINGS = "electralab.serving.proofreader:ProofreadConfig"
CONFIG_HELP = "a TOML file of settings"

_DAMAGE = {"typo": "typos", "swap": "swapped words", "ocr": "scanner's errors"}
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


def run(call: "Call") -> "ProofreadResult | ProofreadMeasure | dict[str, Any]":
    from electralab.records.answers import ProofreadMeasure
    from electralab.reporting.format import format_names, format_number_of

    flags = call.flags
    texts = {source: read_source(call, source) for source in flags.files or ["-"]}
    if flags.dry_run:
        characters = format_number_of(sum(map(len, texts.values())), "character")
        documents = f"{format_number_of(len(texts), 'document')} ({format_names(list(texts))})"
        call.print_plan([f"would read {documents}, {characters}, with {flags.model}"])
        return {"model": flags.model, "documents": {source: len(text) for source, text in texts.items()}}
    call.say_loading(flags.model)
    result = api.proofread(
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
        call.print(*damage_blocks(result))
        return result
    if result.warning:
        call.console.print(f"warning: {result.warning}", style="yellow")
    if flags.html:
        call.print_lines([f"page  {flags.html}"])
    else:
        print_proofs(call, result)
    return result


def damage_blocks(result: "ProofreadMeasure") -> list["Block"]:
    """How much of each kind of planted error is found, and how often something is marked that was not planted."""
    from electralab.reporting.blocks import Paragraph, Table
    from electralab.reporting.format import format_percent

    lines = [
        f"{_DAMAGE.get(kind, kind)}: {format_percent(scores.recall)} of {scores.damaged:,} planted are marked; "
        f"{format_percent(scores.precision)} of what is marked was planted; the first suggestion is the original in "
        f"{format_percent(scores.corrected)} of the planted ones that are marked"
        for kind, scores in result.scores.items()
    ]
    rows = [
        [kind, scores.damaged, *(f"{getattr(scores, name):.3f}" for name in _COLUMNS)]
        for kind, scores in result.scores.items()
    ]
    table = Table(f"planted damage, threshold {result.threshold:g}", ["", "damaged", *_COLUMNS.values()], rows)
    return [*map(Paragraph, lines), table]


def print_proofs(call: "Call", result: "ProofreadResult") -> None:
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
