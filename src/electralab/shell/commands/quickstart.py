"""`electra quickstart`, `electralab.quickstart`: the whole path in a few minutes, from a text to suspicious words.

inputs -> data, run -> scores, sentences
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from electralab.shell.call import Call, Parser, positive, positive_int
from electralab.shell.commands.detect import detect, mark_tokens
from electralab.shell.commands.prepare import format_report, prepare
from electralab.shell.commands.pretrain import format_folder, pretrain, result_blocks

if TYPE_CHECKING:
    from rich.console import Console

    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.run import QuickstartPlan, QuickstartResult

SUMMARY = "prepare, pre-train and try a tiny ELECTRA on a bundled text"
EXAMPLE = "electra quickstart --minutes 5"
CONFIG_HELP = "a preset or a TOML file for pre-training"

# So many sentences are tried, and the first of them shown.
_SENTENCES, _SHOWN = 200, 8
# A model of the package, if it has one, is shown at these before another is trained.
_MODEL = "hour-en"
_EXAMPLES = (
    "The committee will present its report to the elephant next week.",
    "She opened the window because the room was too hot and sang.",
    "Water boils at one hundred degrees and freezes at zero.",
)
_LEAST_WORDS, _MOST_WORDS = 10, 24


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("inputs", nargs="*", metavar="INPUT", help="text files of your own, instead of the bundled text")
    add("--out", metavar="RUN", help="the run folder")
    add("--minutes", type=positive, metavar="M", help="how long to pre-train")
    add("--min-steps", type=positive_int, metavar="N", help="train for at least N steps, however long they take")
    add("--seed", type=int, metavar="S", help="random seed")


def run(call: Call) -> None:
    call.answer(call.ask(quickstart, console=call.console))


def quickstart(
    inputs: Sequence[str | Path] = (),
    out: str | Path = "runs/quickstart",
    *,
    minutes: float = 5.0,
    min_steps: int = 1200,
    seed: int = 0,
    config: str | None = None,
    settings: GivenSettings | None = None,
    dry_run: bool = False,
    console: Console | None = None,
    display: Display | None = None,
) -> QuickstartResult | QuickstartPlan:
    """Prepare, pre-train, detect; each part that is already finished is only shown again. It prints as it goes.

    >>> planned = electralab.quickstart(["speeches.txt"], "first", minutes=2, dry_run=True)
    would prepare speeches.txt into first/data, then pre-train first for 2 minutes and try it
    """
    from electralab.corpus.samples import write_bundled_text
    from electralab.display import TameConsole
    from electralab.records.kinds import list_models
    from electralab.records.prepared import PreparedReport
    from electralab.records.run import PretrainResults, QuickstartPlan, QuickstartResult
    from electralab.reporting.terminal import color_tokens, print_blocks
    from electralab.statistics import share_interval

    console = console or TameConsole(highlight=False, soft_wrap=True, markup=False, emoji=False)
    run_dir, data_dir = Path(out), Path(out) / "data"
    if dry_run:
        text = ", ".join(map(str, inputs)) or "the bundled text"
        steps = f"would prepare {text} into {data_dir}, then pre-train {run_dir} for {minutes:g} minutes and try it"
        console.print(steps)
        texts = tuple(map(str, inputs)) or ("bundled",)
        return QuickstartPlan(text=texts, data=str(data_dir), run=str(out), minutes=minutes)

    if (box := list_models().get(_MODEL)) is not None:
        console.print(f"A model that is trained already: {_MODEL}", style="bold")
        for detection in detect(box, _EXAMPLES):
            console.print(color_tokens(mark_tokens(detection)))
    console.print("1. Text → rows", style="bold")
    files = [str(path) for path in inputs or write_bundled_text(run_dir / "text")]
    report = prepare(files, data_dir, settings={"seed": seed}, display=display)
    assert isinstance(report, PreparedReport)
    for line in format_report(str(data_dir), report):
        console.print(line)

    console.print("2. Rows → generator and discriminator", style="bold")
    # The same command again finds both parts finished and only shows them.
    given = {"seed": seed, **(settings or {})}
    results = pretrain(
        data_dir,
        run_dir,
        config=config or "tiny",
        settings=given,
        minutes=minutes,
        min_steps=min_steps,
        display=display,
    )
    assert isinstance(results, PretrainResults)
    print_blocks(console, result_blocks(results))
    for line in format_folder(str(run_dir), results.verdict.text if results.verdict else ""):
        console.print(line)

    console.print("3. Verdicts on held-out sentences in which one word was swapped", style="bold")
    tried = _try_swapped_words(run_dir, data_dir, seed, console)
    interval = share_interval(tried.hits, tried.swaps) if tried.swaps else None
    is_useful = results.verdict is None or results.verdict.is_useful
    if interval is None:
        length = f"{_LEAST_WORDS} to {_MOST_WORDS} words"
        console.print(f"no whole sentence of {length} is held out, so there is none to try", style="dim")
    else:
        is_useful &= interval.low > tried.by_chance
        share = f"in {tried.hits} of {tried.swaps} sentences, {interval.value:.1%}"
        shown = f"; {_SHOWN} are shown" if tried.swaps > _SHOWN else ""
        console.print(
            f"the swapped word is the most suspicious token {share} (95 % interval {interval.low:.1%} to "
            f"{interval.high:.1%}); by chance {tried.by_chance:.1%}{shown}"
        )
        if not is_useful:
            console.print(
                "too short to be useful: the model finds swapped words hardly more often than chance, or tells "
                "replaced tokens from original ones hardly better than a guess; give it more --minutes"
            )
    _print_next_steps(run_dir, data_dir, console)
    facts = {"run": str(run_dir), "data": str(data_dir), "is_useful": is_useful}
    facts |= {"swaps": tried.swaps, "hits": tried.hits}
    if interval is not None:
        facts |= {"hit_interval": (interval.low, interval.high), "by_chance": tried.by_chance}
    return QuickstartResult.model_validate(facts | results.to_json())


class TriedSwaps(NamedTuple):
    """In how many sentences the swapped word is the most suspicious, and what chance would find of each."""

    swaps: int
    hits: int
    by_chance: float


def _try_swapped_words(run_dir: Path, data_dir: Path, seed: int, console: Console) -> TriedSwaps:
    from rich.text import Text

    from electralab.reporting.terminal import color_tokens

    swaps, hits, by_chance = draw_swapped_words(data_dir, seed), 0, 0.0
    detections = detect(run_dir, [swap.text for swap in swaps])
    for number, (swap, detection) in enumerate(zip(swaps, detections, strict=True)):
        suspect = max(detection.tokens, key=lambda token: token.p_replaced, default=None)
        is_hit = suspect is not None and suspect.start < swap.end and suspect.end > swap.start
        hits += is_hit
        by_chance += 1 / max(len(detection.tokens), 1) / len(swaps)
        if number >= _SHOWN:
            continue
        mark = Text("hit   ", style="bold green") if is_hit else Text("miss  ", style="bold red")
        marked = mark + color_tokens(mark_tokens(detection))
        console.print(marked.append(f"   [{swap.text[swap.start : swap.end]} ← {swap.original}]", style="dim"))
    return TriedSwaps(len(swaps), hits, by_chance)


def _print_next_steps(run_dir: Path, data_dir: Path, console: Console) -> None:
    from electralab.runtime import name_command

    electra = name_command()
    table = "examples/messages.csv" if Path("examples/messages.csv").is_file() else "my_table.csv"
    console.print("Where everything is", style="bold")
    console.print(f"  {data_dir}  tokenizer and rows")
    console.print(f"  {run_dir}/export/discriminator, {run_dir}/export/generator  load with transformers")
    console.print(f"  {run_dir}/metrics.jsonl, {run_dir}/tb  the curves")
    console.print(f"  {run_dir}/report.html  the page about the run: open it in a browser")
    console.print(f"  {run_dir}/README.md  the model card")
    console.print("What to try next", style="bold")
    console.print(f"  {electra} detect {run_dir} 'We thank the congress for its elephant.'")
    console.print(f"  {electra} show {run_dir}")
    console.print(f"  {electra} finetune {run_dir} --task classify --data {table} --out runs/messages")
    console.print(f"  {electra} prepare my_texts/ --out data/mine")
    console.print(f"  {electra} pretrain --data data/mine --out runs/mine --minutes 30")


class SwappedWord(NamedTuple):
    """A held-out sentence in which one word was exchanged for one of another sentence."""

    text: str
    original: str
    start: int
    end: int


def draw_swapped_words(data_dir: Path, seed: int) -> list[SwappedWord]:
    """Sentences of held-out rows, chosen by the seed, each with a word from another in place of one of its own."""
    import numpy as np

    from electralab.randomness import mix
    from electralab.tokens.shards import open_data

    data = open_data(data_dir)
    sentences: list[str] = []
    for ids in data.heldout.take(np.arange(min(len(data.heldout), 2000))):
        # Without its first and last, which the row may have cut.
        inner = data.tokenizer.decode(ids).split(". ")[1:-1]
        sentences += [f"{text.strip()}." for text in inner if _LEAST_WORDS <= len(text.split()) <= _MOST_WORDS]
    # By hash and not by a generator: which sentences are shown depends on the seed alone.
    order = sorted(range(len(sentences)), key=lambda i: int(mix(seed, i)))
    words = [word for i in order[_SHOWN:] for word in sentences[i].split() if len(word) > 3 and word.isalpha()]
    swaps = []
    for number, index in enumerate(order[:_SENTENCES]):
        tokens = sentences[index].split()
        candidates = [i for i, word in enumerate(tokens) if len(word) > 3 and word.isalpha()] or [0]
        place = candidates[int(mix(seed, number, 1)) % len(candidates)]
        original = tokens[place]
        others = [word for word in words if word != original] or ["elephant"]
        tokens[place] = others[int(mix(seed, number, 2)) % len(others)]
        # In characters, as the spans of a detection are.
        start = len(" ".join([*tokens[:place], ""]))
        swaps.append(SwappedWord(" ".join(tokens), original, start, start + len(tokens[place])))
    return swaps
