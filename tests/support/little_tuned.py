"""TaskModel models that nobody trained, with weights so wide that no two texts get the same answer."""

from pathlib import Path

from electralab.finetuning.task_model import LoadedTaskModel, TaskModelConfig, save_model
from electralab.model.electra import Electra, build_electra
from electralab.model.folders.folder import save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.model.task_model import HeadConfig, build_task_model
from electralab.tokens.tokenizer import Tokenizer, TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

TEXT = "the cat sat on the mat and a dog saw who sat near the old log"
LENGTH = 12
LABELS: dict[str, tuple[str, ...]] = {"classify": ("no", "yes", "maybe"), "label": ("O", "B-X", "I-X")}


def little_tokenizer() -> Tokenizer:
    return train_tokenizer([TEXT], TokenizerConfig(vocab_size=80))


def build_pair(tokenizer: Tokenizer, seed: int = 1) -> Electra:
    config = ModelConfig(
        num_layers=1, hidden_size=16, embedding_size=16, num_heads=2, feedforward_size=32, init_std=0.5
    )
    vocab_size = tokenizer.vocab_size
    return build_electra(config, GeneratorConfig(), vocab_size=vocab_size, sequence_length=LENGTH * 2, seed=seed)


def make_tuned(
    kind: str = "classify",
    *,
    num_texts: int = 1,
    labels: tuple[str, ...] | None = None,
    seed: int = 1,
    tokenizer: Tokenizer | None = None,
) -> LoadedTaskModel:
    """Rows of 12 tokens, of 24 where questions need room for a context."""
    tokenizer = tokenizer or little_tokenizer()
    head = HeadConfig(kind=kind, labels=LABELS.get(kind, ()) if labels is None else labels, style="released")
    network = build_task_model(build_pair(tokenizer, seed).discriminator.encoder, head, seed=seed).eval()
    length = 2 * LENGTH if kind == "qa" else LENGTH
    return LoadedTaskModel(network, tokenizer, TaskModelConfig(task=kind, num_texts=num_texts, sequence_length=length))


def save_tuned_folder(folder: Path, model: LoadedTaskModel) -> Path:
    save_model(folder, model)
    return folder


def save_run(run: Path, seeds: int) -> Path:
    """What predicting needs of a fine-tuning run: a model of each seed, and the one that was exported."""
    for seed in range(seeds):
        save_model(run / f"seed-{seed}" / "model", make_tuned(seed=seed))
    save_model(run / "export" / "model", make_tuned(seed=0))
    return run


def save_pretrained(folder: Path) -> Path:
    tokenizer = little_tokenizer()
    pair = build_pair(tokenizer)
    for role in ("discriminator", "generator"):
        target = folder / "export" / role
        target.mkdir(parents=True)
        save_network(target, getattr(pair, role), pad_id=tokenizer.special.pad)
        tokenizer.save(target)
    return folder
