"""Verbs that use a model: what it says of texts, in Python, in the shell and over HTTP."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab.config import SettingsTree, config_layers, resolve
from electralab.display import Display
from electralab.errors import UsageError
from electralab.stopping import handle_signals

if TYPE_CHECKING:
    from electralab.serving.model import Model

Result = dict[str, Any]


def load(path: str | Path) -> "Model":
    """A model to ask from Python: `.detect`, `.fill`, `.play`, `.embed`, `.predict`, whatever its `.can` names."""
    from electralab.serving.model import Model

    return Model(Path(path))


def detect(
    model: str | Path,
    texts: Iterable[str],
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
) -> list[Result]:
    """For each text its tokens with character spans and p_replaced, and which of them are the most suspicious.

    A model of symbols takes JSON lists. `warning` says where the model's held-out scores speak against its verdicts.
    """
    from electralab.serving.inputs import WindowConfig
    from electralab.serving.model import Model

    loaded = Model(Path(model), resolve(WindowConfig, config_layers(config, settings)))
    return [detection.to_json() for detection in loaded.detector.detect_many(list(texts))]


def predict(
    model: str | Path,
    source: str | Path,
    out: str | Path | None = None,
    *,
    ensemble: bool = False,
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    display: Display | None = None,
) -> Result:
    """A tuned model's answer for every row of a file, in order; a bad row has none, and says why."""
    from electralab.artifacts import write_file
    from electralab.runtime import use_threads
    from electralab.serving.model import Model
    from electralab.serving.predictor import PredictConfig, check_output_path, format_rows, merge_bad_rows
    from electralab.tasks.kind import format_bad_rows

    resolved = resolve(PredictConfig, config_layers(config, settings))
    if out:
        check_output_path(Path(out))
    use_threads(threads)
    predictor = Model(Path(model)).make_predictor(resolved, is_ensemble=ensemble)
    split = predictor.read(str(source))
    if dry_run:
        counts = {"rows": split.rows, "bad_rows": len(split.bad_rows), "columns": split.columns}
        return {"model": str(model), "task": predictor.kind, **counts, "settings": resolved.model_dump(mode="json")}
    display = display or Display()
    for note in split.notes:
        display.say(note, style="yellow")
    for text in format_bad_rows(split):
        display.say(text, style="yellow")
    with handle_signals() as stop:
        answered = display.follow(predictor.predict_examples(split.examples, stop))
    rows = merge_bad_rows(answered, split)
    if out:
        write_file(Path(out), format_rows(rows, Path(out).suffix))
    return {
        "predictions": [row.to_json() for row in rows],
        "bad_rows": len(split.bad_rows),
        "cut": sum(bool(row.cut) for row in answered),
    }


def proofread(
    texts: Mapping[str, str],
    *,
    model: str | Path = "runs/quickstart",
    measure: bool = False,
    damage_share: float = 0.05,
    seed: int = 0,
    html: str | Path | None = None,
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
) -> Result:
    """Documents by name -> the words that look wrong, with suggestions; or how much of planted damage is found."""
    from electralab.artifacts import write_file
    from electralab.records.answers import ProofreadMeasure, ProofreadResult
    from electralab.runtime import use_threads
    from electralab.serving.model import Model
    from electralab.serving.pages import render_proofs
    from electralab.serving.proofreader import ProofreadConfig, score_proofreading

    if measure and html:
        raise UsageError("proofread: --measure has scores and no page; leave out --html or --measure")
    resolved = resolve(ProofreadConfig, config_layers(config, settings))
    use_threads(threads)
    proofreader = Model(Path(model), resolved.windows).make_proofreader(resolved)
    if measure:
        scores = score_proofreading(proofreader, list(texts.values()), share=damage_share, seed=seed)
        return ProofreadMeasure(model=str(model), threshold=resolved.threshold, scores=dict(scores)).to_json()
    proofs = tuple(proofreader.proofread(text, source) for source, text in texts.items())
    heldout = proofreader.detector.heldout
    warning = heldout.warning if heldout else None
    if html:
        write_file(Path(html), render_proofs(proofs, warning))
    return ProofreadResult(model=str(model), threshold=resolved.threshold, warning=warning, proofs=proofs).to_json()


def serve(
    models: Sequence[str | Path],
    *,
    config: str | None = None,
    settings: SettingsTree | None = None,
    threads: int = 0,
    dry_run: bool = False,
    on_ready: Callable[[str], None] = print,
) -> Result:
    """Answers over HTTP until a signal to stop; `on_ready` is told the address. A model is a path or NAME=PATH."""
    from electralab.runtime import use_threads
    from electralab.serving.server import ServeConfig, plan_serve
    from electralab.serving.server import serve as run_server

    resolved = resolve(ServeConfig, config_layers(config, settings))
    words = [str(model) for model in models]
    if dry_run:
        return plan_serve(words, resolved).to_json()
    use_threads(threads)
    return run_server(words, resolved, on_ready).to_json()
