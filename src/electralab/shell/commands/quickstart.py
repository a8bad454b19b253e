"""`electra quickstart`: the whole path in a few minutes, from a text to the suspicion of swapped words.

inputs -> data, run -> scores, sentences
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab import api
from electralab.shell.parser import Parser, positive

if TYPE_CHECKING:
    from rich.console import Console

    from electralab.config import SettingsTree
    from electralab.display import Display
    from electralab.records.answers import Detection
    from electralab.shell.call import Call

SUMMARY = "prepare, pre-train and try a tiny ELECTRA on a text that comes along"
EXAMPLE = "electra quickstart --minutes 5"
CONFIG_HELP = "a preset or a TOML file for pre-training"

_SENTENCES = 8
_WORDS = (10, 24)


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("inputs", nargs="*", metavar="INPUT", help="your own text instead")
    add("--out", metavar="RUN", help="the run folder")
    add("--minutes", type=positive, metavar="M", help="of pre-training")
    add("--seed", type=int, metavar="S", help="of all that is random")


def run(call: "Call") -> dict[str, Any]:
    flags = call.flags
    return quickstart(
        flags.inputs,
        flags.out,
        minutes=flags.minutes,
        seed=flags.seed,
        config=flags.config,
        settings=call.settings,
        dry_run=flags.dry_run,
        console=call.console,
        display=call.display,
    )


@dataclass(frozen=True, slots=True)
class SwappedWord:
    """A held-out sentence in which one word was exchanged for one of another sentence."""

    text: str
    original: str
    start: int
    end: int


def quickstart(
    inputs: Sequence[str | Path] = (),
    out: str | Path = "runs/quickstart",
    *,
    minutes: float = 5.0,
    seed: int = 0,
    config: str | None = None,
    settings: "SettingsTree | None" = None,
    dry_run: bool = False,
    console: "Console | None" = None,
    display: "Display | None" = None,
) -> dict[str, Any]:
    """Prepare, pre-train, detect; each part that is already finished is only shown again."""
    from electralab.corpus.samples import write_bundled_text
    from electralab.display import TameConsole
    from electralab.records.prepared import PreparedReport
    from electralab.records.run import PretrainResults
    from electralab.reporting.terminal import print_blocks
    from electralab.shell.commands.prepare import format_report
    from electralab.shell.commands.pretrain import format_folder, result_blocks

    console = console or TameConsole(highlight=False, soft_wrap=True, markup=False, emoji=False)
    run_dir, data_dir = Path(out), Path(out) / "data"
    if dry_run:
        text = ", ".join(map(str, inputs)) or "the text that comes along"
        console.print(
            f"would prepare {text} into {data_dir}, then pre-train {run_dir} for {minutes:g} minutes and try it"
        )
        return {"text": [*map(str, inputs)] or ["bundled"], "data": str(data_dir), "run": str(out), "minutes": minutes}
    console.print("1. Text → rows", style="bold")
    texts = [str(path) for path in inputs] or [str(path) for path in write_bundled_text(run_dir / "text")]
    report = api.prepare(texts, data_dir, settings={"seed": seed}, display=display)
    assert isinstance(report, PreparedReport)
    for line in format_report(str(data_dir), report):
        console.print(line)

    console.print("2. Rows → generator and discriminator", style="bold")
    results = api.pretrain(
        data_dir,
        run_dir,
        config=config or "tiny",
        settings={"seed": seed, **(settings or {})},
        minutes=minutes,
        display=display,
    )
    assert isinstance(results, PretrainResults)
    print_blocks(console, result_blocks(results))
    for line in format_folder(str(run_dir), results.verdict.text if results.verdict else ""):
        console.print(line)

    console.print("3. Verdicts on held-out sentences in which one word was swapped", style="bold")
    swaps = draw_swapped_words(data_dir, seed)
    hits = _print_swaps(swaps, api.detect(run_dir, [swap.text for swap in swaps]), console)
    _print_next(run_dir, data_dir, console)
    return {"run": str(run_dir), "data": str(data_dir), "swaps": len(swaps), "hits": hits, **results.to_json()}


FUNCTION = quickstart


def draw_swapped_words(data_dir: Path, seed: int) -> list[SwappedWord]:
    """Sentences of held-out rows, chosen by the seed, each with a word from another in place of one of its own."""
    import numpy as np

    from electralab.randomness import mix
    from electralab.tokens.shards import open_data

    data = open_data(data_dir)
    rows = data.heldout.take(np.arange(min(len(data.heldout), 2000)))
    sentences = [sentence for ids in rows for sentence in _split_sentences(data.tokenizer.decode(ids))]
    order = sorted(range(len(sentences)), key=lambda i: int(mix(seed, i)))
    words = [word for i in order[_SENTENCES:] for word in sentences[i].split() if len(word) > 3 and word.isalpha()]
    swaps = []
    for number, index in enumerate(order[:_SENTENCES]):
        tokens = sentences[index].split()
        candidates = [i for i, word in enumerate(tokens) if len(word) > 3 and word.isalpha()] or [0]
        place = candidates[int(mix(seed, number, 1)) % len(candidates)]
        original = tokens[place]
        others = [word for word in words if word != original] or ["elephant"]
        tokens[place] = others[int(mix(seed, number, 2)) % len(others)]
        start = len(" ".join([*tokens[:place], ""]))
        swaps.append(SwappedWord(" ".join(tokens), original, start, start + len(tokens[place])))
    return swaps


def _split_sentences(text: str) -> list[str]:
    """Whole sentences inside a row, without its first and last, which the row may have cut."""
    inner = text.split(". ")[1:-1]
    low, high = _WORDS
    return [f"{sentence.strip()}." for sentence in inner if low <= len(sentence.split()) <= high]


def _print_swaps(swaps: Sequence[SwappedWord], detections: Sequence["Detection"], console: "Console") -> int:
    from rich.text import Text

    from electralab.reporting.terminal import color_tokens
    from electralab.shell.commands.detect import mark_tokens

    if not swaps:
        low, high = _WORDS
        console.print(f"no whole sentence of {low} to {high} words is held out, so there is none to try", style="dim")
        return 0
    hits = 0
    for swap, detection in zip(swaps, detections, strict=True):
        ranked = sorted(detection.tokens, key=lambda token: -token.p_replaced)
        is_hit = bool(ranked) and ranked[0].start < swap.end and ranked[0].end > swap.start
        hits += is_hit
        mark = Text("hit   ", style="bold green") if is_hit else Text("miss  ", style="bold red")
        line = mark + color_tokens(mark_tokens(detection))
        console.print(line.append(f"   [{swap.text[swap.start : swap.end]} ← {swap.original}]", style="dim"))
    by_chance = sum(1 / max(len(detection.tokens), 1) for detection in detections)
    console.print(
        f"the swapped word is the most suspicious token in {hits} of {len(swaps)} sentences; "
        f"by chance about {by_chance:.1f}",
        style="dim",
    )
    return hits


def _print_next(run_dir: Path, data_dir: Path, console: "Console") -> None:
    from electralab.runtime import name_command

    electra = name_command()
    table = "examples/messages.csv" if Path("examples/messages.csv").is_file() else "my_table.csv"
    console.print("Where everything is", style="bold")
    for line in (
        f"  {data_dir}  tokenizer and rows",
        f"  {run_dir}/export/discriminator, {run_dir}/export/generator  load with transformers",
        f"  {run_dir}/metrics.jsonl, {run_dir}/tb  the curves",
        f"  {run_dir}/report.html  the page about the run: open it in a browser",
        f"  {run_dir}/README.md  the model card",
    ):
        console.print(line)
    console.print("What to try next", style="bold")
    for line in (
        f"  {electra} detect {run_dir} 'We thank the congress for its elephant.'",
        f"  {electra} show {run_dir}",
        f"  {electra} finetune {run_dir} --task classify --data {table} --out runs/messages",
        f"  {electra} prepare my_texts/ --out data/mine",
        f"  {electra} pretrain --data data/mine --out runs/mine --minutes 30",
    ):
        console.print(line)
