"""Any artifact -> a plain dictionary that says what it is: what `electra show` prints, and `--json` gives as it is.

path -> view
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab.artifacts import MANIFEST, read_json
from electralab.errors import DamagedArtifact, InputError
from electralab.training.checkpoint import list_checkpoints
from electralab.training.metrics import read_metrics

if TYPE_CHECKING:  # a folder is told apart without torch
    import numpy as np

    from electralab.objective.electra import Trial
    from electralab.tokens.shards import PreparedData

    Ids = np.ndarray[Any, np.dtype[np.int64]]

View = dict[str, Any]

_EXHIBITED_ROWS = 8


def view(path: Path, *, row: int | None, model: Path | None) -> View:
    if not path.exists():
        raise InputError(
            f"{path}: no such file or folder; give a data folder, run, study, checkpoint, model or metrics.jsonl"
        )
    if row is not None or model is not None:
        return _view_row(path, row or 0, model)
    if path.name.endswith(".jsonl"):
        return {"kind": "metrics", "path": str(path), "records": read_metrics(path)}
    if (path / "run.json").is_file():
        return _view_run(path)
    if table := _read_suite(path):
        return {"kind": "GLUE run", "path": str(path), "results": table}
    if (path / "study.toml").is_file():
        from electralab.study.report import read_results

        return {"kind": "study", "path": str(path), "results": read_results(path)}
    if (path / "tradeoff.json").is_file():
        from electralab.compression.report import read_results as read_tradeoff

        return {"kind": "trade-off", "path": str(path), "results": read_tradeoff(path)}
    if (path / "analysis.json").is_file():
        from electralab.analysis.record import read_results as read_analysis

        return {"kind": "analysis", "path": str(path), "results": read_analysis(path)}
    if (path / "state.json").is_file():
        return _view_checkpoint(path)
    if (path / "shards").is_dir() and (path / MANIFEST).is_file():
        from electralab.tokens.prepare import read_report

        return {"kind": "data", "path": str(path), "report": read_report(path)}
    if (path / "config.json").is_file():
        return _view_model(path)
    raise InputError(
        f"{path}: not an artifact of electralab; give a data folder, run, study, checkpoint, model or metrics.jsonl"
    )


def _view_run(path: Path) -> View:
    results = path / "results.json"
    identity = read_json(path / "run.json")
    if not isinstance(identity, dict):
        raise DamagedArtifact(f"{path / 'run.json'}: not the identity of a run; restore the file")
    if identity.get("kind") == "finetune":
        from electralab.finetuning.summary import list_seeds

        return {
            "kind": "fine-tuning run",
            "path": str(path),
            "identity": identity,
            "records": {folder.name: read_metrics(folder / "metrics.jsonl") for folder in list_seeds(path)},
            "results": read_json(results) if results.is_file() else {},
        }
    return {
        "kind": "run",
        "path": str(path),
        "identity": identity,
        "checkpoints": [str(checkpoint) for checkpoint in list_checkpoints(path / "checkpoints")],
        "records": read_metrics(path / "metrics.jsonl"),
        "results": read_json(results) if results.is_file() else {},
    }


def _read_suite(path: Path) -> View:
    """The table of a run of many tasks; empty where there is none."""
    results = read_json(path / "results.json") if (path / "results.json").is_file() else {}
    return results if isinstance(results, dict) and results.get("suite") == "glue" else {}


def _view_checkpoint(path: Path) -> View:
    run = path.parent.parent / "run.json"
    return {
        "kind": "checkpoint",
        "path": str(path),
        "state": read_json(path / "state.json"),
        "files": read_json(path / MANIFEST)["files"] if (path / MANIFEST).is_file() else {},
        "settings": read_json(run)["settings"] if run.is_file() else {},
    }


def _view_model(path: Path) -> View:
    from electralab.model.encoder import EncoderConfig
    from electralab.model.folder import load_any
    from electralab.model.tuned import Tuned

    network = load_any(path)
    assert isinstance(network.config, EncoderConfig)
    tuned = {"head": network.head_config.model_dump(mode="json")} if isinstance(network, Tuned) else {}
    return {
        "kind": "model",
        "path": str(path),
        "network": type(network).__name__.lower(),
        **tuned,
        "parameters": sum(parameter.numel() for parameter in network.parameters()),
        "encoder": network.config.model_dump(mode="json"),
    }


def _view_row(path: Path, row: int, model: Path | None) -> View:
    import numpy as np

    from electralab.tokens.shards import open_data

    data = open_data(path)
    if not 0 <= row < len(data.train):
        raise InputError(f"{path}: has no row {row}; its {len(data.train)} training rows are numbered from 0")
    ids = data.train.take(np.array([row]))
    shown: View = {
        "kind": "row",
        "path": str(path),
        "row": row,
        "pieces": _spell_out(data, ids[0]),
        "text": data.tokenizer.decode(ids[0]),
    }
    return shown if model is None else {**shown, **_try_row(data, ids, model)}


def _try_row(data: "PreparedData", ids: "Ids", model: Path) -> View:
    trial = _hold_trial(data, ids, model)
    return {
        "masked": _spell_out(data, trial.masked.input_ids[0].numpy()),
        "corrupted": _spell_out(data, trial.corrupted.input_ids[0].numpy()),
        "is_replaced": trial.corrupted.is_replaced[0].tolist(),
        "p_replaced": trial.verdicts[0].sigmoid().tolist(),
    }


def _spell_out(data: "PreparedData", ids: "Ids") -> list[str]:
    return [data.tokenizer.piece(int(index)) for index in ids]


def exhibit_rows(path: Path, model: Path) -> list[View]:
    """A few rows that training does not see, where the data has such, hidden, guessed and judged."""
    import numpy as np

    from electralab.objective.electra import exhibit_trial
    from electralab.objective.exhibit import describe_rows
    from electralab.tokens.shards import open_data

    data = open_data(path)
    rows = data.heldout if len(data.heldout) else data.train
    places = np.linspace(0, len(rows) - 1, min(_EXHIBITED_ROWS, len(rows))).astype(np.int64)
    return list(describe_rows(exhibit_trial(_hold_trial(data, rows.take(places), model)), data.tokenizer))


def _hold_trial(data: "PreparedData", ids: "Ids", model: Path) -> "Trial":
    """Mask and corrupt rows as training does, and let the run's discriminator judge them."""
    import torch

    from electralab.model.electra import Discriminator, Electra, Generator
    from electralab.model.folder import load_any, locate_model
    from electralab.model.towers import TwoTower
    from electralab.objective.corruption import SamplingConfig, sampling_prohibition
    from electralab.objective.electra import hold_trial
    from electralab.objective.masking import MaskingConfig, mask_tokens, mask_vocabulary
    from electralab.randomness import Rng
    from electralab.tokens.batches import make_batch

    generator = load_any(locate_model(model, "generator"))
    discriminator = load_any(locate_model(model, "discriminator"))
    if not isinstance(generator, Generator | TwoTower) or not isinstance(discriminator, Discriminator):
        raise InputError(f"{model}: holds one network, and judging a masked row takes both; give a run folder")
    pair = Electra(generator, discriminator, "none").eval()
    if pair.discriminator.config.vocab_size != data.tokenizer.vocab_size:
        raise InputError(f"{model}: was trained with another vocabulary than that of {data.path}; give its own data")
    if pair.discriminator.config.sequence_length < data.sequence_length:
        raise InputError(f"{model}: was trained on shorter rows than those of {data.path}; give its own data")
    batch = make_batch(ids, data.tokenizer, is_pairs=data.packing == "pairs")
    config = MaskingConfig()
    masked = mask_tokens(batch, mask_vocabulary(data.tokenizer), config, config.mask_share, Rng(0, 0))
    with torch.no_grad():
        return hold_trial(pair, masked, sampling_prohibition(data.tokenizer, torch.device("cpu")), SamplingConfig())
