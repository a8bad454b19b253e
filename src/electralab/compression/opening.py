"""Which task a model takes: a tuned one that of its task, a discriminator that of verdicts.

MODEL, data -> CompressionTask
"""

from pathlib import Path

import torch

from electralab.compression.finetuned_task import load_finetuned_task
from electralab.compression.rtd_task import load_rtd_task
from electralab.compression.settings import CompressConfig
from electralab.compression.task import CompressionTask
from electralab.config import ConfigLayer
from electralab.errors import InputError, UsageError
from electralab.evaluation.heldout_rows import HeldoutConfig
from electralab.exporting.onnx_graphs import require_onnx
from electralab.finetuning.identity import find_run, read_identity
from electralab.model.electra import Discriminator
from electralab.model.folder import load_any, locate_encoder, locate_model
from electralab.model.graph import is_graph
from electralab.model.tuned import Tuned
from electralab.stopping import StopSignal


def load_compression_task(
    model: Path,
    data: Path,
    config: CompressConfig,
    generator: Path | None,
    task: str | None,
    device: torch.device,
    stop: StopSignal,
) -> CompressionTask:
    folder = locate_encoder(model)
    if is_graph(folder):
        raise InputError(
            f"{folder}: is an ONNX graph, out of which nothing can be taken any more; give the model it was made from"
        )
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give --data, on which variants are made and scored")
    if config.graphs:
        require_onnx("--graphs")
    network = load_any(folder)
    if isinstance(network, Tuned):
        if generator is not None:
            raise UsageError(f"--generator: {model} is tuned for a task, which needs none; leave it out")
        return load_finetuned_task(model, data, task, config.data, seed=config.seed, device=device, stop=stop)
    if task is not None:
        raise UsageError(f"--task: {model} is not tuned for a task, it is scored on replaced tokens; leave it out")
    if not isinstance(network, Discriminator):
        raise InputError(
            f"{model}: holds neither a discriminator nor a tuned model; give a pair, or tune it and give the result"
        )
    heldout = HeldoutConfig(**config.verdicts.model_dump(), bootstrap=0)
    return load_rtd_task(model, data, generator, heldout, config.reading, seed=config.seed, device=device, stop=stop)


def saved_reading_config(model: Path) -> ConfigLayer:
    """How the run that tuned a model read its data: what a trade-off begins with, below what is asked for."""
    run_dir = find_run(locate_encoder(model))
    run = read_identity(run_dir) if run_dir else None
    return ConfigLayer(f"{run_dir}/run.json", {"data": run.settings.get("data", {})} if run else {})


def find_generator(model: Path, generator: Path | None) -> Path:
    """The folder of the one that a discriminator is scored against."""
    return locate_model(generator or model, "generator")
