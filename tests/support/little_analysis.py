"""Models, text and labelled sets so small that an analysis takes a moment."""

from pathlib import Path
from typing import Any

import numpy as np
from little_models import TEXT, TOKENIZER, build_pair, save_pair

from electralab.analysis.data import AnalysisSettings
from electralab.analysis.finding import Resampler
from electralab.analysis.stage import AnalysisRequest, analyze
from electralab.events import Event
from electralab.model.electra import Generator
from electralab.model.folders.folder import save_network
from electralab.model.settings import EncoderConfig
from electralab.model.weights import init_weights
from electralab.records.compression import Tradeoff
from electralab.records.findings import Analysis
from electralab.stopping import StopSignal

WORDS = TEXT.split()
NOUNS, VERBS, PLACES = ("cat", "mat", "dogs", "logs", "birds", "trees"), ("sat", "sit", "sing"), ("on", "near", "under")
SETTINGS = {"rows": 12, "row_length": 16, "vectors": 60, "points": 12, "times": 8}


def draws(seed: int) -> Resampler:
    return Resampler(np.random.default_rng(seed))


def write_sets(folder: Path) -> dict[str, str]:
    """Files in the words that the little vocabulary knows, and the settings that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = [(noun, verb, place) for noun in NOUNS for verb in VERBS for place in PLACES]
    tagged = "".join(f"the DET O\n{n} NOUN B-PER\n{v} VERB O\n{p} ADP B-LOC\n\n" for n, v, p in sentences)
    (folder / "tagged.txt").write_text(tagged)
    # Every word is brought by some change, so that there are many groups of pairs.
    pairs = "".join(
        f"{noun} {verb},{noun} {verb} {word},longer\n"
        for word in WORDS
        for noun, verb in zip(NOUNS, VERBS * 2, strict=True)
        if word not in (noun, verb)
    )
    (folder / "pairs.csv").write_text("source,target,kind\n" + pairs)
    fours = zip(NOUNS, NOUNS[1:], NOUNS[2:], NOUNS[3:], strict=False)
    rows = "".join(f"{','.join(four)},{four[0]}\n" for four in fours)
    (folder / "analogies.csv").write_text("a,b,c,d,family\n" + rows)
    texts = "".join(f"the {n} {v} {p},{v}\n" for n, v, p in sentences)
    (folder / "classes.csv").write_text("text,label\n" + texts)
    senses = "".join(f"{n},{p},the {n} {v} {p} a mat\n" for n, v, p in sentences if n != "mat" and p != "under")
    (folder / "senses.csv").write_text("word,sense,sentence\n" + senses)
    names = ("classes.csv", "tagged.txt", "pairs.csv", "analogies.csv", "senses.csv")
    return {Path(name).stem: str(folder / name) for name in names}


def write_text(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [" ".join(WORDS[(i * k) % len(WORDS)] for k in range(1, 14)) for i in range(1, 40)]
    (folder / "text.txt").write_text("\n\n".join(lines))
    return folder / "text.txt"


def save_one(folder: Path, *, is_causal: bool = False, seed: int = 1) -> Path:
    """A run of one network that guesses, with positions that are relative."""
    changes = {"is_causal": is_causal, "backbone": "modern"}
    network = Generator(EncoderConfig(**build_pair().discriminator.config.model_dump() | changes))
    init_weights(network, seed)
    target = folder / "export" / "model"
    target.mkdir(parents=True)
    objective = "causal" if is_causal else "mlm"
    save_network(target, network, pad_id=TOKENIZER.special.pad, objective=objective)
    TOKENIZER.save(target)
    return folder


def save_two(folder: Path) -> Path:
    saved: Path = save_pair(folder, build_pair())
    return saved


def make_request(
    folder: Path, *models: Path, only: tuple[str, ...] = (), out: str = "out", **settings: object
) -> AnalysisRequest:
    given = SETTINGS | write_sets(folder / "sets") | settings
    config = AnalysisSettings.model_validate(given)
    return AnalysisRequest(models, write_text(folder / "text"), folder / out, config, only)


def run(request: AnalysisRequest, stop: StopSignal | None = None) -> list[Event[Analysis]]:
    return list(analyze(request, stop or StopSignal()))


def write_tradeoff(model: str, variants: dict[str, tuple[int, float, float]], floor: float) -> dict[str, Any]:
    """tradeoff.json of variants by bytes, speed-up and loss; the first is the baseline."""
    kept = {"layers": 2, "heads": 4, "neurons": 64}
    rest = {"parameters": 9, "milliseconds": {"1": 1.0}, "score": 0.9, "kept": kept, "speedups": {"1": 1.0}}
    flags = {"is_floored": False, "efficiency": 1.0, "is_best": True}
    rows = [
        {"name": name, "bytes": size, "speedup": speedup, "loss": loss, **rest, **flags}
        for name, (size, speedup, loss) in variants.items()
    ]
    about = {"model": model, "data": "data", "metric": "auc", "baseline": next(iter(variants)), "examples": 20}
    timed = {"speedup_batch": 1, "tokens": {"1": 16}, "threads": 1, "failed": {}, "picked": None, "notes": []}
    asked = {"asked": {"target_speedup": None, "max_loss": None}}
    floor_record = {"floor": {"points": floor, "origin": "over rows drawn again"}}
    return Tradeoff.model_validate({**about, **timed, **asked, **floor_record, "variants": rows}).to_json()
