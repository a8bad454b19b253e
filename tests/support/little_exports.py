"""Networks of sixteen coordinates with weights so wide that a mistake shows, and a folder of each."""

from pathlib import Path

from electralab.finetuning.task_model import LoadedTaskModel, TaskModelConfig, save_model
from electralab.model.electra import Electra, build_electra
from electralab.model.folders.folder import save_network
from electralab.model.settings import GeneratorConfig, ModelConfig
from electralab.model.task_model import HeadConfig, TaskModel, build_task_model
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_tokenizer

TEXT = "the cat sat on the mat and a dog saw who sat near the old log"
TOKENIZER = train_tokenizer([TEXT], TokenizerConfig(vocab_size=80))
LENGTH = 24
SIZES = {"num_layers": 2, "hidden_size": 16, "embedding_size": 16, "num_heads": 2, "feedforward_size": 32}


def build_classic() -> Electra:
    """On the backbone that has segments."""
    model, generator = ModelConfig(**SIZES, init_std=0.5), GeneratorConfig(width_share=1.0)
    pair = build_electra(model, generator, vocab_size=TOKENIZER.vocab_size, sequence_length=LENGTH, seed=1)
    return pair.eval()


def save_classic(folder: Path, objective: str = "electra") -> Path:
    pair = build_classic()
    for role in ("discriminator", "generator"):
        target = folder / "export" / role
        target.mkdir(parents=True)
        save_network(target, getattr(pair, role), pad_id=TOKENIZER.special.pad, objective=objective)
        TOKENIZER.save(target)
    return folder


def build_task(head: HeadConfig) -> TaskModel:
    return build_task_model(build_classic().discriminator.encoder, head, seed=1).eval()


def save_task(folder: Path, head: HeadConfig, num_texts: int = 1) -> Path:
    card = TaskModelConfig(task=head.kind, num_texts=num_texts, sequence_length=LENGTH)
    save_model(folder, LoadedTaskModel(build_task(head), TOKENIZER, card))
    return folder
