"""A pre-training run: what it was, how good it became, and rows of text at work.

Artifact of a run -> sentence..., Block...
"""

from collections.abc import Iterator, Sequence

from electralab.records.run import ExampleRow, GuessedToken
from electralab.reporting import blocks as b
from electralab.reporting.artifact import Artifact
from electralab.reporting.format import (
    format_count,
    format_flops,
    format_key,
    format_number_of,
    format_percent,
    format_seconds,
)

_OBJECTIVES = {
    "electra": ("an ELECTRA pair", "a generator guesses hidden tokens, a discriminator says which were replaced"),
    "electra-15": ("an ELECTRA pair", "a discriminator says which of the hidden tokens a generator replaced"),
    "electric": (
        "an Electric pair",
        "a discriminator gives each token an energy, learned against a generator's noise",
    ),
    "replace-mlm": ("a model that mends", "a generator replaces hidden tokens, the model says what stood there"),
    "all-tokens-mlm": (
        "a model that mends",
        "a generator replaces hidden tokens, the model says what stood where",
    ),
    "mlm": ("a masked language model", "it guesses hidden tokens"),
    "bert": ("a masked language model", "it guesses hidden tokens"),
    "permutation": ("a permutation language model", "it guesses hidden tokens one after the other, in any order"),
    "causal": ("a causal language model", "it guesses the next token"),
}
# By the first word of the names of scores.
_GUESSERS = {
    "generator": ("The generator restores", "hidden tokens", "guesses right"),
    "masked": ("The model restores", "hidden tokens", "guesses right"),
    "permuted": ("The model restores", "hidden tokens", "guesses right"),
    "next": ("The model foresees", "next tokens", "next tokens right"),
}
_ROWS_COMPARED = 2
# What comes below the first rows should not be out of sight.
_ROWS_SHOWN = 3


def run_tiles(artifact: Artifact) -> Iterator[b.Tile]:
    scores, baselines = artifact.heldout_scores, artifact.baselines
    if "auc" in scores:
        yield b.Tile("replacements told apart", format_percent(scores["auc"]), "AUC; chance 50 %")
    for who, (_, _, name) in _GUESSERS.items():
        if (key := f"{who}_accuracy") in scores:
            beside = f"trivial {format_percent(baselines[key])}" if key in baselines else ""
            yield b.Tile(name, format_percent(scores[key]), beside)
    taken, total = artifact.steps
    yield b.Tile("steps", f"{taken:,}", f"of {total:,}" if total > taken else "finished" if total else "")
    tokens, flops, seconds = run_amounts(artifact)
    if tokens is not None:
        yield b.Tile("tokens", format_count(tokens), f"{format_flops(flops or 0)} FLOPs")
    if seconds:
        yield b.Tile("time", format_seconds(seconds), f"{format_count((tokens or 0) / seconds)} tokens/s")


def run_amounts(artifact: Artifact) -> tuple[float | None, float | None, float | None]:
    """Tokens, FLOPs and seconds so far; None where nobody logged them."""
    if end := artifact.pretrained:
        return end.tokens, end.flops, end.seconds
    last = artifact.last_records[0] if artifact.last_records else None
    return (last.get("tokens"), last.get("flops"), last.get("seconds")) if last else (None, None, None)


def tell_run(artifact: Artifact) -> Iterator[str]:
    if artifact.pretrained and artifact.pretrained.verdict:
        yield f"Verdict: {artifact.pretrained.verdict.text}."
    settings, objective, model = artifact.settings, artifact.objective, artifact.settings.get("model")
    other = (f"a model with the objective {objective}" if objective else "a model", "")
    what, how = _OBJECTIVES.get(objective, other)
    size = f" of size {settings['size']}" if settings.get("size") else ""
    backbone = model.get("backbone") if isinstance(model, dict) else None
    yield f"{artifact.name} is {what}{size}{f' on the {backbone} backbone' if backbone else ''}{how and f': {how}'}."
    taken, total = artifact.steps
    tokens, flops, seconds = run_amounts(artifact)
    text = f"It was trained for {taken:,} steps"
    if total and taken < total:
        text = f"It is at step {taken:,} of {total:,} ({format_percent(taken / total)})"
    if tokens is not None:
        text += f" on {format_count(tokens)} tokens" + (f" of {artifact.data_path}" if artifact.data_path else "")
    text += "" if seconds is None else f" in {format_seconds(seconds)}"
    text += "" if flops is None else f", {format_flops(flops)} FLOPs"
    yield f"{text}."
    yield from _tell_guesses(artifact)
    yield from _tell_verdicts(artifact)


def _tell_guesses(artifact: Artifact) -> Iterator[str]:
    scores, baselines = artifact.heldout_scores, artifact.baselines
    for who, (does, what, _) in _GUESSERS.items():
        accuracy, trivial = scores.get(f"{who}_accuracy"), baselines.get(f"{who}_accuracy")
        if accuracy is None:
            continue
        text = f"{does} {format_percent(accuracy)} of the {what} of text it has not seen"
        if trivial is not None:
            text += f"; always saying the most frequent one gets {format_percent(trivial)}"
            text += "" if accuracy > trivial else ", which is no worse"
        loss, frequency = scores.get(f"{who}_loss"), baselines.get(f"{who}_loss")
        if loss is not None and frequency is not None:
            better = "better" if loss < frequency else "no better"
            text += f". Its loss there is {loss:.2f} nats, {better} than {frequency:.2f} of knowing only how frequent "
            text += "tokens are"
        yield f"{text}."


def _tell_verdicts(artifact: Artifact) -> Iterator[str]:
    scores, baselines = artifact.heldout_scores, artifact.baselines
    if "auc" not in scores:
        return
    other = "noise" if artifact.objective == "electric" else "a replaced token"
    text = f"The discriminator ranks {other} above an original token {format_percent(scores['auc'])} of the time"
    text += " (chance: 50.0 %)"
    if "recall" in scores and "called_replaced" in scores:
        text += (
            f"; it finds {format_percent(scores['recall'])} of the replaced tokens, where as many calls at random "
            f"would find {format_percent(scores['called_replaced'])}"
        )
    loss, trivial = scores.get("discriminator_loss"), baselines.get("discriminator_loss")
    if loss is not None and trivial is not None:
        better = "better" if loss < trivial else "no better"
        text += f". Its loss is {loss:.3f}, {better} than {trivial:.3f} of knowing only their share"
    yield f"{text}."


def heldout_table(artifact: Artifact) -> Iterator[b.Block]:
    scores = artifact.heldout_scores
    if not scores:
        if artifact.logs:
            yield b.Absent("No held-out scores", "They come with the first evaluation of the run.")
        return
    # As many calls at random would find that share of the replaced tokens, and be right as often as one is replaced.
    baselines = {"auc": 0.5} | artifact.baselines
    for key, trivial in (("recall", "called_replaced"), ("precision", "replaced_share")):
        if trivial in scores:
            baselines[key] = scores[trivial]
    rows = [(format_key(key), value, baselines.get(key)) for key, value in scores.items()]
    yield b.Table("On rows that training does not see", ["score", "model", "trivial baseline"], rows)


def example_blocks(artifacts: Sequence[Artifact]) -> Iterator[b.Block]:
    """Of several runs the first rows of each, under its name; where none has any, why, each reason once."""
    if len(artifacts) == 1:
        yield from _run_examples(artifacts[0])
    elif not any(artifact.examples for artifact in artifacts):
        yield from dict.fromkeys(block for artifact in artifacts for block in _run_examples(artifact))
    else:
        for artifact in artifacts:
            if blocks := list(_run_examples(artifact, _ROWS_COMPARED)):
                yield b.Heading(artifact.name)
                yield from blocks


def _run_examples(artifact: Artifact, most: int | None = None) -> Iterator[b.Block]:
    scores, rows = artifact.heldout_scores, artifact.examples[:most]
    if artifact.kind != "run" or not (scores or rows):
        return
    if not rows:
        if any(key.startswith("next_") for key in scores):
            why = "A causal model guesses each token from those before it; nothing of a text is hidden from it."
            yield b.Absent("Nothing is hidden", why)
        else:
            how = "'electra pretrain' writes examples.json with its evaluations"
            yield b.Absent("No examples", f"{how}; with prepared data, --data shows some now.")
        return
    if any(row.corrupted for row in rows):
        put, where = "what the generator put there", "it is not the original, dotted where it is"
    else:
        put = "the text as the model would have it: its likeliest guesses"
        where = "they are not the original, dotted where they are"
    yield b.Paragraph(
        f"The text with hidden tokens struck through, and below it {put}, underlined where {where}.", "note"
    )
    if any(row.p_replaced for row in rows):
        yield _suspicion_scale()
    shown = [b.Group("example", list(_example(row))) for row in rows]
    yield from shown[:_ROWS_SHOWN]
    if rest := shown[_ROWS_SHOWN:]:
        yield b.Fold(f"{len(rest)} more", rest)


def _suspicion_scale() -> b.MarkedText:
    text, spans = "Shaded by the discriminator's suspicion: original", []
    for p_replaced in (0.1, 0.3, 0.5, 0.7, 0.9):
        text += " "
        spans.append(b.TokenSpan(len(text), len(text) + 4, p_replaced))
        text += f"{100 * p_replaced:.0f} %"
    return b.MarkedText(f"{text} replaced", spans, "note")


def _example(row: ExampleRow) -> Iterator[b.Block]:
    count = len(row.pieces)
    guesses = row.guesses or [[]] * count
    best = [_spell(tokens[0]) if tokens else piece for piece, tokens in zip(row.pieces, guesses, strict=True)]
    corrupted, p_replaced = row.corrupted or best, row.p_replaced or [None] * count
    is_other = row.is_replaced or [token != piece for token, piece in zip(corrupted, row.pieces, strict=True)]
    yield b.join_tokens(row.pieces, [(None, "hidden" if is_hidden else "") for is_hidden in row.is_masked])
    yield b.join_tokens(
        corrupted,
        [
            (p, "replaced" if is_new else "restored" if is_hidden else "")
            for p, is_new, is_hidden in zip(p_replaced, is_other, row.is_masked, strict=True)
        ],
    )
    hidden, other = sum(row.is_masked), sum(is_other)
    text = f"{hidden} hidden, {hidden - other} restored"
    # A token counts as found at p > 0.5.
    calls = [(is_new, p > 0.5) for is_new, p in zip(is_other, p_replaced, strict=True) if p is not None]
    if calls:
        hits = sum(is_new and is_called for is_new, is_called in calls)
        alarms = sum(is_called and not is_new for is_new, is_called in calls)
        text += f", {other} replaced; {hits} of them found, {format_number_of(alarms, 'false alarm')}"
    yield b.Paragraph(f"{text}.", "note")
    if row.guesses:
        columns: dict[str, Sequence[b.Cell]] = {
            "hidden": row.pieces,
            "likeliest guesses": [
                " · ".join(f"“{_spell(guess)}” {format_percent(guess.p)}" for guess in candidates)
                for candidates in guesses
            ],
        }
        if row.corrupted:
            columns["put there"] = row.corrupted
        if row.p_replaced:
            columns["looks replaced"] = [None if p is None else format_percent(p) for p in p_replaced]
        lines = [
            cells
            for cells, is_hidden in zip(zip(*columns.values(), strict=True), row.is_masked, strict=True)
            if is_hidden
        ]
        if lines:
            yield b.Fold("Guesses", [b.Table("Hidden tokens and what was guessed", list(columns), lines)])


def _spell(guess: GuessedToken) -> str:
    return f"{'##' * guess.continues_word}{guess.text}"
