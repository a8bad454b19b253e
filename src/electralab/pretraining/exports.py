"""The end of a run: its networks, heads and tokenizer included, as Hugging Face folders where a class fits.

Objective -> export/discriminator, export/generator, export/model
"""

from pathlib import Path
from typing import Any

from electralab.artifacts import new_folder
from electralab.model.folder import save_network
from electralab.objective.objective import Network, Objective
from electralab.tokens.tokenizer import Tokenizer


def export_networks(export_dir: Path, objective: Objective[Any], name: str, tokenizer: Tokenizer) -> None:
    for role, network in objective.exports().items():
        _export(export_dir / role, network, name, tokenizer)


def _export(folder: Path, network: Network, objective: str, tokenizer: Tokenizer) -> None:
    config = network.config
    with new_folder(folder, kind="model") as temporary:
        special = tokenizer.special
        save_network(
            temporary, network, pad_id=special.pad, cls_id=special.cls, sep_id=special.sep, objective=objective
        )
        tokenizer.save(temporary, max_length=config.sequence_length, has_segments=config.backbone == "electra")
