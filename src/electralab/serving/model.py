"""A model folder as an object: `electralab.load(path)`, then whatever the model can do.

MODEL -> Model -> detections, guesses, games, vectors, predictions
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeVar

from torch import nn

from electralab.errors import ElectraError, InputError
from electralab.finetuning.exports import TunedModel, attach_card
from electralab.model.electra import Discriminator, Guesser
from electralab.model.encoder import Encoder, EncoderConfig
from electralab.model.folder import load_any, locate_networks
from electralab.model.graph import GRAPH, GraphDiscriminator
from electralab.model.pooling import Pooling
from electralab.model.tuned import Tuned
from electralab.serving.corruption_demo import CorruptionDemo, PlayResult
from electralab.serving.detector import DetectConfig, Detection, Detector, has_energies
from electralab.serving.embedder import Embedder, Vector
from electralab.serving.examples import ExampleText, read_examples
from electralab.serving.inputs import Given
from electralab.serving.mask_filler import FillResult, MaskFiller, Span
from electralab.serving.predictor import Input, PredictConfig, PredictionRow, Predictor
from electralab.serving.proofreader import ProofreadConfig, Proofreader
from electralab.serving.strength import Strength, read_strength
from electralab.serving.windows import WindowConfig
from electralab.tokens.tokenizer import Tokenizer

Capability = Literal["detect", "fill", "play", "embed", "predict"]

N = TypeVar("N", bound=nn.Module)


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """One network of the model, with what its folder says."""

    folder: Path
    network: nn.Module
    tokenizer: Tokenizer

    @property
    def config(self) -> EncoderConfig:
        assert isinstance(self.network.config, EncoderConfig)
        return self.network.config


class Model:
    """Networks are read when first needed: a pre-trained pair detects, fills and plays, a tuned model predicts."""

    def __init__(self, path: Path, windows: WindowConfig | None = None) -> None:
        self.path = path
        self._windows = windows or WindowConfig()

    def __repr__(self) -> str:
        """What it holds and can do, for which the networks are read."""
        try:
            held = " and ".join(_name(self._load(folder)) for folder in self._folders)
            about = [held, *self._describe_task(), f"can {', '.join(self.can) or 'do nothing that is asked for'}"]
            if self.strength and self.strength.is_weak:
                about.append(f"too weak to use (AUC {self.strength.auc:.2f})")
        except ElectraError as error:
            return f"<electralab model: {error}>"
        return f"<electralab model {self.path}: {'; '.join(about)}>"

    def _describe_task(self) -> list[str]:
        if self._find(Tuned) is None:
            return [f"rows of {self.sequence_length} {'symbols' if self.is_symbols else 'tokens'}"]
        head = self.predictor.models[0].network.head_config
        return [f"{head.kind}: {', '.join(head.labels)}" if head.labels else head.kind]

    def detect(self, text: Given) -> Detection:
        """Each token of the text with the probability that it was replaced."""
        return self.detector.detect(text)

    def fill(self, text: Given, at: Sequence[Span] | None = None, top: int = 5) -> FillResult:
        """The generator's best guesses for every [MASK] in the text, or for each span of characters in `at`."""
        return self.filler.fill(text, at, top)

    def play(self, text: Given, mask_share: float = 0.15, temperature: float = 1.0, seed: int = 0) -> PlayResult:
        """The game of pre-training on this text: masked, guessed, corrupted, judged; the same for the same seed."""
        return self.game.play(text, mask_share, temperature, seed)

    def embed(self, text: Given, pooling: Pooling = "mean") -> Vector:
        """One vector for the text."""
        return self.embedder.embed(text, pooling)

    def predict(self, texts: Iterable[Input]) -> list[PredictionRow]:
        """For each text (or pair, list of words or symbols, (question, context)) a prediction with probabilities."""
        return self.predictor.predict(texts)

    @property
    def can(self) -> tuple[Capability, ...]:
        """What the networks of the folder are good for."""
        found: dict[Capability, bool] = {
            "detect": self._judge is not None,
            "fill": self._find(Guesser) is not None,
            "play": self._judge is not None and self._find(Guesser) is not None,
            "embed": self._encoder is not None,
            "predict": self._find(Tuned) is not None,
        }
        return tuple(ability for ability, is_found in found.items() if is_found)

    @property
    def is_symbols(self) -> bool:
        return self._load(self._folders[0]).tokenizer.is_symbols

    @property
    def sequence_length(self) -> int:
        """Tokens of a row, which every network of the model can take; longer texts are read in windows."""
        if self._find(Tuned):
            return self.predictor.models[0].card.sequence_length
        return min(self._load(folder).config.sequence_length for folder in self._folders)

    @property
    def strength(self) -> Strength | None:
        """How its discriminator did on held-out text, where its run says so."""
        return self.detector.strength if self._judge is not None else None

    @cached_property
    def examples(self) -> list[ExampleText]:
        """Rows that its run held out of training."""
        return read_examples(self._folders[0], is_symbols=self.is_symbols)

    @property
    def runtime(self) -> Literal["torch", "onnx"]:
        return "onnx" if (self._folders[0] / GRAPH).is_file() else "torch"

    @cached_property
    def detector(self) -> Detector:
        part = self._need("detect", self._judge)
        config = DetectConfig(**self._windows.model_dump())
        return Detector(_as(Discriminator, part), part.tokenizer, config, read_strength(part.folder))

    @cached_property
    def filler(self) -> MaskFiller:
        part = self._need("fill", self._find(Guesser))
        assert isinstance(part.network, Guesser)
        return MaskFiller(part.network, part.tokenizer, self._windows)

    @cached_property
    def game(self) -> CorruptionDemo:
        judge = self._need("play", self._judge)
        self._need("play", self._find(Guesser))
        if judge.tokenizer.to_json() != self.filler.tokenizer.to_json():
            raise InputError(f"{self.path}: its two networks have different tokenizers, so they cannot play; mend that")
        return CorruptionDemo(self.filler, _as(Discriminator, judge))

    @cached_property
    def embedder(self) -> Embedder:
        part = self._need("embed", self._encoder)
        has_states = isinstance(part.network, Encoder | GraphDiscriminator)
        encoder = part.network if has_states else part.network.encoder
        assert isinstance(encoder, Encoder | GraphDiscriminator)
        return Embedder(encoder, part.tokenizer, self._windows)

    @cached_property
    def predictor(self) -> Predictor:
        part = self._need("predict", self._find(Tuned))
        tuned: TunedModel = attach_card(part.folder, _as(Tuned, part), part.tokenizer)
        return Predictor([tuned], PredictConfig())

    def proofreader(self, config: ProofreadConfig) -> Proofreader:
        """With suggestions where the model has a generator."""
        return Proofreader(self.detector, self.filler if "fill" in self.can else None, config)

    @cached_property
    def _folders(self) -> list[Path]:
        return locate_networks(self.path)

    @cached_property
    def _parts(self) -> dict[Path, LoadedNetwork]:
        return {}

    def _load(self, folder: Path) -> LoadedNetwork:
        if folder not in self._parts:
            network, tokenizer = load_any(folder, takes_bare_encoder=True), Tokenizer.load(folder)
            part = LoadedNetwork(folder, network, tokenizer)
            tokenizer.require_fit(part.config.vocab_size, folder)
            self._parts[folder] = part
        return self._parts[folder]

    def _find(self, kind: type[nn.Module] | object) -> LoadedNetwork | None:
        """The network of this kind; a generator stands last of a pair, so that the other need not be read for it."""
        order = reversed(self._folders) if kind is Guesser else iter(self._folders)
        return next((part for part in map(self._load, order) if isinstance(part.network, kind)), None)  # type: ignore[arg-type]

    @property
    def _judge(self) -> LoadedNetwork | None:
        part = self._find(Discriminator)
        return None if part is None or has_energies(part.folder) else part

    @property
    def _encoder(self) -> LoadedNetwork | None:
        """The discriminator's, or that of the one network there is; of graphs only the former shows its states."""
        part = self._load(self._folders[0])
        has_states = isinstance(part.network, Encoder | GraphDiscriminator)
        return part if has_states or isinstance(getattr(part.network, "encoder", None), Encoder) else None

    def _need(self, ability: Capability, part: LoadedNetwork | None) -> LoadedNetwork:
        if part is not None:
            return part
        held = " and ".join(f"a {_name(self._load(folder))}" for folder in self._folders)
        can = ", ".join(self.can) or "do nothing of the kind"
        hint = f"; 'electra finetune {self.path}' teaches it a task" if ability == "predict" else ""
        raise InputError(f"{self.path}: holds {held}, which cannot {ability}; it can {can}{hint}")


def _as(kind: type[N], part: LoadedNetwork) -> N:
    assert isinstance(part.network, kind)
    return part.network


def _name(part: LoadedNetwork) -> str:
    """What a person calls it."""
    if isinstance(part.network, Tuned):
        return "tuned model"
    if isinstance(part.network, Encoder):
        return "bare encoder without a head"
    if isinstance(part.network, Discriminator):
        return "discriminator that says energies" if has_energies(part.folder) else "discriminator"
    return "language model" if part.folder.name == "model" else "generator"
