"""The whole path in a few minutes: a text that comes along -> rows -> a tiny ELECTRA -> its verdicts on swapped words.

inputs -> data, run -> Result
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from electralab import verbs
from electralab.config import SettingsTree
from electralab.display import Display
from electralab.randomness import mix
from electralab.runtime import name_command
from electralab.summaries import describe_data, describe_folder
from electralab.tables import colour_tokens, results_table

_SENTENCES = 8
_WORDS = (10, 24)


@dataclass(frozen=True, slots=True)
class Swap:
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
    settings: SettingsTree | None = None,
    dry_run: bool = False,
    console: Console | None = None,
    display: Display | None = None,
) -> dict[str, Any]:
    """Prepare, pre-train, detect; each part that is already finished is only shown again."""
    from electralab.corpus.samples import write_bundled_text

    console, display = console or Console(), display or Display()
    run_dir = Path(out)
    data_dir = run_dir / "data"
    if dry_run:
        plan = {"text": list(map(str, inputs)) or ["bundled"], "data": str(data_dir), "run": out, "minutes": minutes}
        told = f"would prepare {', '.join(map(str, inputs)) or 'the text that comes along'} into {data_dir}, then "
        console.print(f"{told}pre-train {run_dir} for {minutes:g} minutes and try it", markup=False)
        return plan
    console.print("[bold]1. Text → rows[/]")
    texts = [str(path) for path in inputs] or [str(path) for path in write_bundled_text(run_dir / "text")]
    report = verbs.prepare(texts, data_dir, settings={"seed": seed}, display=display)
    for line in describe_data(str(data_dir), report):
        console.print(line, markup=False)

    console.print("[bold]2. Rows → generator and discriminator[/]")
    results = verbs.pretrain(
        data_dir,
        run_dir,
        config=config or "tiny",
        settings={"seed": seed, **(settings or {})},
        minutes=minutes,
        display=display,
    )
    console.print(results_table(results))
    for line in describe_folder(str(run_dir), results):
        console.print(line, markup=False)

    console.print("[bold]3. Verdicts on held-out sentences in which one word was swapped[/]")
    swaps = draw_swaps(data_dir, seed)
    found = verbs.detect(run_dir, [swap.text for swap in swaps])
    hits = _print_swaps(swaps, found, console)
    console.print(_describe_next(run_dir, data_dir))
    return {"run": str(run_dir), "data": str(data_dir), "swaps": len(swaps), "hits": hits, **results}


def draw_swaps(data_dir: Path, seed: int) -> list[Swap]:
    """Sentences of held-out rows, chosen by the seed, each with a word from another in place of one of its own."""
    import numpy as np

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
        swaps.append(Swap(" ".join(tokens), original, start, start + len(tokens[place])))
    return swaps


def _split_sentences(text: str) -> list[str]:
    """Whole sentences inside a row, without its first and last, which the row may have cut."""
    inner = text.split(". ")[1:-1]
    low, high = _WORDS
    return [f"{sentence.strip()}." for sentence in inner if low <= len(sentence.split()) <= high]


def _print_swaps(swaps: Sequence[Swap], found: Sequence[dict[str, Any]], console: Console) -> int:
    hits = 0
    for swap, result in zip(swaps, found, strict=True):
        ranked = sorted(result["tokens"], key=lambda token: -token["p_replaced"])
        is_hit = bool(ranked) and ranked[0]["start"] < swap.end and ranked[0]["end"] > swap.start
        hits += is_hit
        mark = Text("hit   ", style="bold green") if is_hit else Text("miss  ", style="bold red")
        line = mark + colour_tokens(result)
        line.append(f"   [{swap.text[swap.start : swap.end]} ← {swap.original}]", style="dim")
        console.print(line)
    if not swaps:
        low, high = _WORDS
        console.print(f"no whole sentence of {low} to {high} words is held out, so there is none to try", style="dim")
        return 0
    average = sum(1 / max(len(result["tokens"]), 1) for result in found)
    console.print(
        f"the swapped word is the most suspicious token in {hits} of {len(swaps)} sentences; "
        f"by chance about {average:.1f}",
        style="dim",
    )
    return hits


def _describe_next(run_dir: Path, data_dir: Path) -> str:
    electra = name_command()
    table = "examples/messages.csv" if Path("examples/messages.csv").is_file() else "my_table.csv"
    return "\n".join(
        [
            "[bold]Where everything is[/]",
            f"  {data_dir}  tokenizer and rows",
            f"  {run_dir}/export/discriminator, {run_dir}/export/generator  load with transformers",
            f"  {run_dir}/metrics.jsonl, {run_dir}/tb  the curves",
            f"  {run_dir}/report.html  the page about the run: open it in a browser",
            f"  {run_dir}/README.md  the model card",
            "[bold]What to try next[/]",
            f"  {electra} detect {run_dir} 'We thank the congress for its elephant.'",
            f"  {electra} show {run_dir}",
            f"  {electra} finetune {run_dir} --task classify --data {table} --out runs/messages",
            f"  {electra} prepare my_texts/ --out data/mine",
            f"  {electra} pretrain --data data/mine --out runs/mine --minutes 30",
        ]
    )
