"""The end of a run, or of a part of it: its networks with heads and tokenizer, as Hugging Face folders where one fits.

Objective -> export/discriminator, export/generator, export/model
"""

from pathlib import Path
from typing import Any

from electralab.artifacts import new_folder, read_json
from electralab.model.folders.folder import save_network
from electralab.objective.objective import Network, Objective
from electralab.objective.settings import PAIRS
from electralab.tokens.tokenizer import Tokenizer

SNAPSHOTS = "snapshots"
# Written last: a snapshot without it is not whole.
PROGRESS = "progress.json"


def export_networks(
    export_dir: Path, objective: Objective[Any], name: str, tokenizer: Tokenizer, *, has_untrained_segments: bool
) -> None:
    for role, network in objective.exports().items():
        _export(export_dir / role, network, name, tokenizer, has_untrained_segments)


def name_main(objective: str) -> str:
    """The folder of the network that a run is made for."""
    return "discriminator" if objective in PAIRS else "model"


def snapshot_folder(run_dir: Path, step: int) -> Path:
    """Laid out like `export`, so that it is a model wherever one is asked for."""
    return run_dir / SNAPSHOTS / f"step-{step}"


def snapshot_step(share: float, total_steps: int) -> int:
    """After which step so much of a run is done."""
    return max(1, round(share * total_steps))


def read_snapshots(run_dir: Path) -> list[dict[str, Any]]:
    """Where the run was at each, in order."""
    found = [read_json(path) for path in (run_dir / SNAPSHOTS).glob(f"step-*/{PROGRESS}")]
    return sorted(found, key=lambda progress: progress["step"])


def _export(folder: Path, network: Network, objective: str, tokenizer: Tokenizer, has_untrained_segments: bool) -> None:
    config = network.config
    with new_folder(folder, kind="model") as temporary:
        special = tokenizer.special
        save_network(
            temporary,
            network,
            pad_id=special.pad,
            cls_id=special.cls,
            sep_id=special.sep,
            objective=objective,
            has_untrained_segments=has_untrained_segments and config.backbone == "electra",
        )
        tokenizer.save(temporary, max_length=config.sequence_length, has_segments=config.backbone == "electra")
