"""Any artifact -> a plain dictionary that says what it is: what `electra show` prints, and `--json` gives as it is.

path -> view
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab.artifacts import MANIFEST, read_json, verify_below, verify_folder
from electralab.errors import DamagedArtifact, InputError
from electralab.records.kinds import ROLES, explain_unknown
from electralab.records.run import read_metrics
from electralab.training.checkpoint import list_checkpoints

if TYPE_CHECKING:  # a folder is told apart without torch
    import numpy as np

    from electralab.objective.electra import ElectraOutput
    from electralab.tokens.shards import PreparedData

    Ids = np.ndarray[Any, np.dtype[np.int64]]

View = dict[str, Any]

_EXHIBITED_ROWS = 8
_KNOWN = "a data folder, run, study, trade-off, analysis, checkpoint, model, export or metrics.jsonl"


def view(path: Path, *, row: int | None, model: Path | None) -> View:
    """What is at the path, after every file that has a hash was compared with it."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder; give {_KNOWN}")
    if row is not None or model is not None:
        return _view_row(path, row or 0, model)
    if path.name.endswith(".jsonl"):
        return {
            "kind": "metrics",
            "path": str(path),
            "records": [record.to_json() for record in read_metrics(path)],
            "unverified": [path.name],
        }
    if not path.is_dir():
        raise InputError(f"{path}: is a file, and not a metrics.jsonl; give {_KNOWN}")
    verification = verify_below(path, "restore the file, or make its folder again")
    seen: View = {"path": str(path)} | _view_folder(path)
    return seen | {"verified": list(verification.verified), "unverified": list(verification.unverified)}


def _view_folder(path: Path) -> View:
    """By the file that only this kind of folder has."""
    if (path / "run.json").is_file():
        return _view_run(path)
    if table := _read_suite(path):
        return {"kind": "GLUE run", "results": table}
    if (path / "study.toml").is_file():
        from electralab.records.study import StudyResults

        has_results = (path / StudyResults.FILE).is_file()
        return {"kind": "study", "results": StudyResults.read(path).to_json() if has_results else {}}
    if (path / "tradeoff.json").is_file():
        from electralab.records.compression import Tradeoff

        return {"kind": "trade-off", "results": Tradeoff.read(path).to_json()}
    if (path / "analysis.json").is_file():
        from electralab.records.findings import Analysis

        return {"kind": "analysis", "results": Analysis.read(path).to_json()}
    if (path / "state.json").is_file():
        return _view_checkpoint(path)
    if (path / "shards").is_dir() and (path / MANIFEST).is_file():
        from electralab.records.prepared import PreparedReport

        return {"kind": "data", "report": PreparedReport.read(path).to_json()}
    if (path / "config.json").is_file():
        return {"kind": "model"} | _view_model(path)
    if path.name.startswith("seed-") and (path / "metrics.jsonl").is_file():
        results = read_json(path / "results.json") if (path / "results.json").is_file() else {}
        return {
            "kind": "seed",
            "records": [record.to_json() for record in read_metrics(path / "metrics.jsonl")],
            "results": results,
        }
    if roles := [role for role in ROLES if (path / role / "config.json").is_file()]:
        return _view_networks(path, roles)
    if snapshots := sorted(path.glob("step-*/progress.json")):
        return {"kind": "snapshots", "snapshots": {file.parent.name: read_json(file) for file in snapshots}}
    if checkpoints := list_checkpoints(path):
        return {"kind": "checkpoints", "checkpoints": [_view_checkpoint(folder) for folder in checkpoints]}
    if (path / "tokenizer.json").is_file():
        return _view_tokenizer(path)
    raise InputError(f"{path}: {explain_unknown(path)}")


def _view_run(path: Path) -> View:
    results = path / "results.json"
    identity = read_json(path / "run.json")
    if not isinstance(identity, dict):
        raise DamagedArtifact(f"{path / 'run.json'}: not the identity of a run; restore the file")
    if identity.get("kind") == "finetune":
        from electralab.finetuning.task_model import list_seeds

        return {
            "kind": "fine-tuning run",
            "identity": identity,
            "records": {
                folder.name: [record.to_json() for record in read_metrics(folder / "metrics.jsonl")]
                for folder in list_seeds(path)
            },
            "results": read_json(results) if results.is_file() else {},
        }
    return {
        "kind": "run",
        "identity": identity,
        "checkpoints": [str(checkpoint) for checkpoint in list_checkpoints(path / "checkpoints")],
        "records": [record.to_json() for record in read_metrics(path / "metrics.jsonl")],
        "results": read_json(results) if results.is_file() else {},
    }


def _read_suite(path: Path) -> View:
    """The table of a run of many tasks; empty where there is none."""
    results = read_json(path / "results.json") if (path / "results.json").is_file() else {}
    return results if isinstance(results, dict) and results.get("suite") == "glue" else {}


def _view_checkpoint(path: Path) -> View:
    run = path.parent.parent / "run.json"
    manifest = verify_folder(path, "restore the file, or delete this checkpoint and go on from the one before")
    return {
        "kind": "checkpoint",
        "path": str(path),
        "state": read_json(path / "state.json"),
        "files": manifest.files,
        "settings": read_json(run)["settings"] if run.is_file() else {},
    }


def _view_model(path: Path) -> View:
    from electralab.model.folders.folder import load_any
    from electralab.model.folders.native_format import GRAPH, OnnxModel, network_name
    from electralab.model.settings import EncoderConfig
    from electralab.model.task_model import TaskModel

    network = load_any(path, takes_bare_encoder=True)
    assert isinstance(network.config, EncoderConfig)
    tuned = {"head": network.head_config.model_dump(mode="json")} if isinstance(network, TaskModel) else {}
    if isinstance(network, OnnxModel):
        size: View = {"runtime": "onnx", "graph_bytes": (path / GRAPH).stat().st_size}
    else:
        size = {"parameters": sum(parameter.numel() for parameter in network.parameters())}
    return {
        "network": network_name(network).lower(),
        **tuned,
        **size,
        "encoder": network.config.model_dump(mode="json"),
    }


def _view_networks(path: Path, roles: list[str]) -> View:
    """The folder above the networks of a run, of a snapshot of it, or of an export."""
    seen: View = {"kind": "networks"}
    if (path / "progress.json").is_file():
        seen = {"kind": "snapshot", "progress": read_json(path / "progress.json")}
    elif (path / MANIFEST).is_file() and "form" in (manifest := read_json(path / MANIFEST)):
        seen = {"kind": "export", "format": manifest["form"]}
    return seen | {"networks": {role: _view_model(path / role) for role in roles}}


def _view_tokenizer(path: Path) -> View:
    from electralab.tokens.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(path)
    special = {role: tokenizer.token(index) for role, index in asdict(tokenizer.special).items()}
    return {
        "kind": "tokenizer",
        "vocab_size": tokenizer.vocab_size,
        "is_symbols": tokenizer.is_symbols,
        "special_tokens": special,
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
        "p_replaced": trial.discriminator_logits[0].sigmoid().tolist(),
    }


def _spell_out(data: "PreparedData", ids: "Ids") -> list[str]:
    return [data.tokenizer.token(int(index)) for index in ids]


def exhibit_rows(path: Path, model: Path) -> list[View]:
    """A few rows that training does not see, where the data has such, hidden, guessed and judged."""
    import numpy as np

    from electralab.objective.metrics import describe_rows
    from electralab.tokens.shards import open_data

    data = open_data(path)
    rows = data.heldout if len(data.heldout) else data.train
    places = np.linspace(0, len(rows) - 1, min(_EXHIBITED_ROWS, len(rows))).astype(np.int64)
    return list(describe_rows(_hold_trial(data, rows.take(places), model).examples(), data.tokenizer))


def _hold_trial(data: "PreparedData", ids: "Ids", model: Path) -> "ElectraOutput":
    """Mask and corrupt rows as training does, and let the run's discriminator judge them."""
    import torch

    from electralab.model.electra import Discriminator, Electra, Generator, TwoTower
    from electralab.model.folders.folder import load_any, locate_model
    from electralab.objective.corruption import SamplingConfig, special_token_bias
    from electralab.objective.electra import electra_forward
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
        return electra_forward(pair, masked, special_token_bias(data.tokenizer, torch.device("cpu")), SamplingConfig())
