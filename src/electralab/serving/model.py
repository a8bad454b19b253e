"""A model folder as an object: `electralab.load(path)`, then whatever the model can do.

MODEL -> Model -> Detection, FillResult, PlayResult, vectors, predictions

The shell, Python and the server all load models here, so that they agree on what a folder can do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from torch import nn

from electralab.errors import ElectraError, InputError
from electralab.finetuning.predicting import load_models
from electralab.finetuning.task_model import load_task_config
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.encoder import Encoder
from electralab.model.folders.folder import load_any, locate_networks, outputs_energies
from electralab.model.folders.native_format import GRAPH, OnnxDiscriminator
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import Pooling, TaskModel
from electralab.records.answers import (
    Capability,
    Detection,
    ExampleText,
    FillResult,
    HeldoutScores,
    ModelInfo,
    PlayResult,
)
from electralab.records.tuned import PredictionRow
from electralab.serving.corruption_demo import CorruptionDemo
from electralab.serving.detector import Detector
from electralab.serving.embedder import Embedder, Vector
from electralab.serving.inputs import TextInput, WindowConfig
from electralab.serving.mask_filler import MaskFiller, Span
from electralab.serving.predictor import PredictConfig, Predictor
from electralab.serving.proofreader import ProofreadConfig, Proofreader
from electralab.serving.run_facts import read_examples, read_heldout_scores
from electralab.tasks.kind import TaskInput
from electralab.tokens.tokenizer import Tokenizer

N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """One network of the model, with what its folder says."""

    folder: Path
    network: nn.Module
    tokenizer: Tokenizer
    outputs_energies: bool

    @property
    def config(self) -> EncoderConfig:
        assert isinstance(self.network.config, EncoderConfig)
        return self.network.config

    @property
    def name(self) -> str:
        """What a person calls it."""
        if isinstance(self.network, TaskModel):
            return "tuned model"
        if isinstance(self.network, Encoder):
            return "bare encoder without a head"
        if isinstance(self.network, Discriminator):
            return "discriminator that says energies" if self.outputs_energies else "discriminator"
        return "language model" if self.folder.name == "model" else "generator"


class Model:
    """A pre-trained pair detects, fills and plays; a tuned model predicts. Networks are read when first needed.

    >>> print(Model(Path("nowhere")))
    <electralab model: nowhere: no such file or folder; give a run or a model folder>
    """

    def __init__(self, path: Path, windows: WindowConfig | None = None) -> None:
        self.path = path
        self._windows = windows or WindowConfig()
        self._networks: dict[Path, LoadedNetwork] = {}

    def __repr__(self) -> str:
        """What it holds and can do, for which the networks are read."""
        try:
            about = [" and ".join(self._load(folder).name for folder in self._folders)]
            if "predict" in self.can:
                head = self.predictor.models[0].network.head_config
                about.append(f"{head.kind}: {', '.join(head.labels)}" if head.labels else head.kind)
            else:
                about.append(f"rows of {self.sequence_length} {'symbols' if self.is_symbols else 'tokens'}")
            about.append(f"can {', '.join(self.can) or 'do nothing that is asked for'}")
            if self.heldout and self.heldout.is_weak:
                about.append(f"too weak to use (AUC {self.heldout.auc:.2f})")
        except ElectraError as error:
            return f"<electralab model: {error}>"
        return f"<electralab model {self.path}: {'; '.join(about)}>"

    def detect(self, text: TextInput) -> Detection:
        """Each token of the text with the probability that it was replaced."""
        return self.detector.detect(text)

    def fill(self, text: TextInput, at: Sequence[Span] | None = None, top: int = 5) -> FillResult:
        """The generator's best guesses for every [MASK] in the text, or for each span of characters in `at`."""
        return self.filler.fill(text, at, top)

    def play(self, text: TextInput, mask_share: float = 0.15, temperature: float = 1.0, seed: int = 0) -> PlayResult:
        """Pre-training on this text: tokens are masked, guessed, replaced and scored; the same for the same seed."""
        return self.demo.play(text, mask_share, temperature, seed)

    def embed(self, text: TextInput, pooling: Pooling = "mean") -> Vector:
        """One vector for the text."""
        return self.embedder.embed(text, pooling)

    def predict(self, texts: Iterable[TaskInput]) -> list[PredictionRow]:
        """For each text (or pair, list of words or symbols, (question, context)) a prediction with probabilities."""
        return self.predictor.predict(texts)

    @cached_property
    def can(self) -> tuple[Capability, ...]:
        """What the networks of the folder are good for. Looked up once: the server asks at every request."""
        can_detect, can_fill = self._discriminator is not None, self._find(TokenModel) is not None
        capabilities: dict[Capability, bool] = {
            "detect": can_detect,
            "fill": can_fill,
            "play": can_detect and can_fill,
            "embed": self._encoder is not None,
            "predict": self._find(TaskModel) is not None,
        }
        return tuple(capability for capability, is_there in capabilities.items() if is_there)

    @property
    def is_symbols(self) -> bool:
        return self._load(self._folders[0]).tokenizer.is_symbols

    @property
    def sequence_length(self) -> int:
        """Tokens of a row, which every network of the model can take; longer texts are read in windows."""
        if self._find(TaskModel):
            return self.predictor.models[0].config.sequence_length
        return min(self._load(folder).config.sequence_length for folder in self._folders)

    @property
    def heldout(self) -> HeldoutScores | None:
        """How its discriminator did on held-out text, where its run says so."""
        return self.detector.heldout if self._discriminator is not None else None

    @cached_property
    def examples(self) -> tuple[ExampleText, ...]:
        """Rows that its run held out of training."""
        return read_examples(self._folders[0], is_symbols=self.is_symbols)

    @property
    def runtime(self) -> Literal["torch", "onnx"]:
        return "onnx" if (self._folders[0] / GRAPH).is_file() else "torch"

    def describe(self, name: str) -> ModelInfo:
        has_task = "predict" in self.can
        head = self.predictor.models[0].network.head_config if has_task else None
        return ModelInfo(
            name=name,
            can=self.can,
            task=head.kind if head else None,
            labels=tuple(head.labels) if head else (),
            num_texts=self.predictor.num_texts if has_task else 1,
            is_symbols=self.is_symbols,
            runtime=self.runtime,
            sequence_length=self.sequence_length,
            heldout=self.heldout,
            warning=self.heldout.warning if self.heldout else None,
        )

    @cached_property
    def detector(self) -> Detector:
        loaded = self._need("detect", self._discriminator)
        scores = read_heldout_scores(loaded.folder)
        return Detector(_as(Discriminator, loaded), loaded.tokenizer, self._windows, scores)

    @cached_property
    def filler(self) -> MaskFiller:
        loaded = self._need("fill", self._find(TokenModel))
        assert isinstance(loaded.network, TokenModel)
        return MaskFiller(loaded.network, loaded.tokenizer, self._windows)

    @cached_property
    def demo(self) -> CorruptionDemo:
        discriminator = self._need("play", self._discriminator)
        self._need("play", self._find(TokenModel))
        if discriminator.tokenizer.to_json() != self.filler.tokenizer.to_json():
            raise InputError(f"{self.path}: its two networks have different tokenizers, so they cannot play; mend that")
        return CorruptionDemo(self.filler, _as(Discriminator, discriminator))

    @cached_property
    def embedder(self) -> Embedder:
        loaded = self._need("embed", self._encoder)
        has_states = isinstance(loaded.network, Encoder | OnnxDiscriminator)
        encoder = loaded.network if has_states else loaded.network.encoder
        assert isinstance(encoder, Encoder | OnnxDiscriminator)
        return Embedder(encoder, loaded.tokenizer, self._windows)

    @cached_property
    def predictor(self) -> Predictor:
        return self.make_predictor(PredictConfig())

    def make_predictor(self, config: PredictConfig, *, is_ensemble: bool = False) -> Predictor:
        """The models of all seeds of a fine-tuning run together, or the one that it exported."""
        if is_ensemble:
            return Predictor(load_models(self.path, is_ensemble=True), config)
        loaded = self._need("predict", self._find(TaskModel))
        return Predictor([load_task_config(loaded.folder, _as(TaskModel, loaded), loaded.tokenizer)], config)

    def make_proofreader(self, config: ProofreadConfig) -> Proofreader:
        """With suggestions where the model has a generator."""
        return Proofreader(self.detector, self.filler if "fill" in self.can else None, config)

    @cached_property
    def _folders(self) -> list[Path]:
        return locate_networks(self.path)

    def _load(self, folder: Path) -> LoadedNetwork:
        if folder not in self._networks:
            network, tokenizer = load_any(folder, takes_bare_encoder=True), Tokenizer.load(folder)
            loaded = LoadedNetwork(folder, network, tokenizer, outputs_energies(folder))
            tokenizer.require_fit(loaded.config.vocab_size, folder)
            self._networks[folder] = loaded
        return self._networks[folder]

    def _find(self, kind: type[nn.Module] | object) -> LoadedNetwork | None:
        """The network of this kind. A generator stands last in a pair, so that the other need not be read for it."""
        order = reversed(self._folders) if kind is TokenModel else iter(self._folders)
        return next((loaded for loaded in map(self._load, order) if isinstance(loaded.network, kind)), None)  # type: ignore[arg-type]

    @property
    def _discriminator(self) -> LoadedNetwork | None:
        loaded = self._find(Discriminator)
        return None if loaded is None or loaded.outputs_energies else loaded

    @property
    def _encoder(self) -> LoadedNetwork | None:
        """The discriminator's, or that of the only network; among graphs only a discriminator has its states."""
        loaded = self._load(self._folders[0])
        has_states = isinstance(loaded.network, Encoder | OnnxDiscriminator)
        return loaded if has_states or isinstance(getattr(loaded.network, "encoder", None), Encoder) else None

    def _need(self, capability: Capability, loaded: LoadedNetwork | None) -> LoadedNetwork:
        if loaded is not None:
            return loaded
        held = " and ".join(f"a {self._load(folder).name}" for folder in self._folders)
        can = ", ".join(self.can) or "do nothing of the kind"
        hint = ""
        if capability == "predict":
            hint = f"; 'electra finetune {self.path}' teaches it a task"
        elif capability == "detect" and any(loaded.outputs_energies for loaded in self._networks.values()):
            hint = "; compare sentences by its energies (electra evaluate --suite blimp), or tune it (electra finetune)"
        raise InputError(f"{self.path}: holds {held}, which cannot {capability}; it can {can}{hint}")


def _as(kind: type[N], loaded: LoadedNetwork) -> N:
    assert isinstance(loaded.network, kind)
    return loaded.network
