"""The end of a run: both networks, heads and tokenizer included, as Hugging Face folders.

Electra -> export/discriminator, export/generator
"""

from pathlib import Path

from electralab.artifacts import new_folder
from electralab.model.electra import Discriminator, Electra, Generator
from electralab.model.folder import save_network
from electralab.tokens.tokenizer import Tokenizer


def export_networks(export_dir: Path, model: Electra, tokenizer: Tokenizer) -> None:
    _export(export_dir / "discriminator", model.discriminator, tokenizer)
    _export(export_dir / "generator", model.generator, tokenizer)


def _export(folder: Path, network: Generator | Discriminator, tokenizer: Tokenizer) -> None:
    config = network.config
    with new_folder(folder, kind="model") as temporary:
        special = tokenizer.special
        save_network(temporary, network, pad_id=special.pad, cls_id=special.cls, sep_id=special.sep)
        tokenizer.save(temporary, max_length=config.sequence_length, has_segments=config.backbone == "electra")
