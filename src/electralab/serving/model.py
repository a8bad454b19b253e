"""A model folder as an object: `electralab.load(path)`, then whatever the model can do.

MODEL -> Model -> Detection, FillResult, PlayResult, vectors, predictions

The shell, Python and the server all load models here, so that they agree on what a folder can do.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import get_args

import numpy as np
from torch import nn

from electralab.artifacts import verify_folder
from electralab.corpus.logs import LogReader, Session, read_lines
from electralab.corpus.sources import find_sources
from electralab.detection import calibration
from electralab.detection.sequence_calibration import ScoreEvents, SequenceScorer, load_sequences
from electralab.detection.words import Floats, WordFrequencies, WordReader
from electralab.errors import ElectraError, InputError
from electralab.finetuning.task_model import load_models, load_task_config
from electralab.fitting.answerer import Answerer, answer_with, load_fitted, locate_fitted
from electralab.model.electra import Discriminator, TokenModel
from electralab.model.encoder import Encoder, compute_in
from electralab.model.folders.folder import load_any, locate_networks, outputs_energies
from electralab.model.folders.native_format import GRAPH, OnnxDiscriminator
from electralab.model.settings import EncoderConfig
from electralab.model.task_model import Pooling, TaskModel
from electralab.records import answers
from electralab.records.answers import Capability, ExampleText, HeldoutScores
from electralab.records.kinds import find_model
from electralab.records.logs import LOG, LogTemplates
from electralab.records.run import PretrainResults, RunExamples, RunFingerprint
from electralab.records.series import SeriesCalibration, SeriesDetection, SeriesSymbols
from electralab.records.tuned import PredictionRow, read_rows
from electralab.serving.encoder_handlers import Detector, Embedder, Vector
from electralab.serving.generator_handlers import CorruptionDemo, MaskFiller
from electralab.serving.inputs import TextInput, WindowConfig, tokenize
from electralab.serving.predictor import PredictConfig, Predictor
from electralab.serving.proofreader import ProofreadConfig, Proofreader
from electralab.serving.series import SeriesDetector
from electralab.stopping import NO_STOP, StopSignal
from electralab.tasks.kind import TaskInput
from electralab.tokens.tokenizer import Tokenizer

_MOST_EXAMPLES = 6
_MOST_CHARACTERS = 1000
# Rows of a file of predictions in which one of each class is looked for.
_ROWS_READ = 500
_SPECIAL = re.compile(r"\[(CLS|SEP|PAD|MASK|UNK)\]")
_NO_SPACE_BEFORE = re.compile(r" (?=[,.;:!?%)\]}’”])")
_NO_SPACE_AFTER = re.compile(r"(?<=[(\[{‘“$]) |(?<=\d,) (?=\d{3}\b)| ?(?<=\w) ?([-’']) ?(?=\w)")
# Chinese and Japanese, whose words stand side by side.
_WIDE = r"[\u3000-\u30ff\u3400-\u9fff\uff00-\uffef]"
_UNSPACED = re.compile(f"(?<={_WIDE}) (?={_WIDE})")


@dataclass(frozen=True, slots=True)
class LoadedNetwork:
    """One network of the model, with what its folder says."""

    folder: Path
    network: nn.Module
    tokenizer: Tokenizer
    outputs_energies: bool
    sequence_length: int

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

    def __init__(self, path: Path, windows: WindowConfig | None = None, *, raw: bool = False) -> None:
        """`raw` leaves the calibration of its folder, if it has one, aside."""
        self.path, self._is_raw = find_model(path), raw
        self._windows = windows or WindowConfig()
        self._networks: dict[Path, LoadedNetwork] = {}

    def __repr__(self) -> str:
        """What it holds and can do, for which the networks are read."""
        try:
            about = [self._name_networks()]
            info = self.describe("")
            if info.task:
                about.append(f"{info.task}: {', '.join(info.labels)}" if info.labels else info.task)
            else:
                about.append(f"rows of {info.sequence_length} {'symbols' if info.is_symbols else 'tokens'}")
            about.append(f"can {', '.join(self.can) or 'do nothing that is asked for'}")
            if info.heldout and info.heldout.is_weak:
                about.append(f"too weak to use (AUC {info.heldout.auc:.2f})")
        except ElectraError as error:
            return f"<electralab model: {error}>"
        return f"<electralab model {self.path}: {'; '.join(about)}>"

    def detect(self, text: TextInput) -> answers.Detection:
        """Each token of the text with the probability that it was replaced."""
        return self.detector.detect_many([text])[0]

    def detect_log(self, path: Path) -> list[answers.Detection]:
        """Each session of new lines of the log that the model has learned from."""
        folder = self.network_folder.parent / LOG
        if not (folder / LogTemplates.FILE).exists():
            raise InputError(
                f"{self.path}: knows no templates of a log; prepare one with 'electra prepare LOGFILE --logs --out "
                "DATA', and train on that"
            )
        verify_folder(folder, "train the model again")
        lines = read_lines(find_sources([str(path)]).files, NO_STOP)
        reader = LogReader(LogTemplates.read(folder))
        read = reader.read(lines)
        detections = self.detector.detect_many([list(session.events) for session in read.sessions])

        def name_lines(detection: answers.Detection, session: Session) -> answers.Detection:
            tokens = tuple(
                token.model_copy(update={"template": reader.templates[token.text].template})
                if token.text in reader.templates
                else token
                for token in detection.tokens
            )
            warning = "; ".join(filter(None, [detection.warning, *read.warnings])) or None
            more = {"tokens": tokens, "session": session.name, "lines": session.lines, "warning": warning}
            return detection.model_copy(update=more)

        return list(map(name_lines, detections, read.sessions))

    def detect_series(self, path: str | Path) -> SeriesDetection:
        """Each point of a CSV file of time series with how odd it is, and the windows that do not look normal."""
        return self.series_detector.detect(path)

    def fill(self, text: TextInput, at: Sequence[Sequence[int]] | None = None, top: int = 5) -> answers.FillResult:
        """The generator's best guesses for every [MASK] in the text, or for each span of characters in `at`."""
        return self.filler.answer([self.filler.parse(text, at, top)])[0]

    def play(
        self, text: TextInput, mask_share: float = 0.15, temperature: float = 1.0, seed: int = 0
    ) -> answers.PlayResult:
        """Pre-training on this text: tokens are masked, guessed, replaced and scored; the same for the same seed."""
        return self.demo.answer([self.demo.parse(text, mask_share, temperature, seed)])[0]

    def embed(self, text: TextInput, pooling: Pooling = "mean") -> Vector:
        """One vector for the text."""
        return self.embedder.answer([self.embedder.parse(text, pooling)])[0]

    def predict(self, texts: Iterable[TaskInput]) -> list[PredictionRow]:
        """For each text (or pair, list of words or symbols, (question, context)) a prediction with probabilities."""
        return self.predictor.predict(texts)

    @cached_property
    def can(self) -> tuple[Capability, ...]:
        """What the networks of the folder are good for. Looked up once: the server asks at every request."""
        if self.fitted is not None:
            return ("predict",)
        return tuple(capability for capability in get_args(Capability) if self._find(capability))

    def describe(self, name: str) -> answers.ModelInfo:
        about = self.predictor.answerer.about if "predict" in self.can else None
        if about is not None and self.fitted is not None:
            return answers.ModelInfo(
                name=name,
                can=self.can,
                task=about.kind,
                labels=about.labels,
                num_texts=self.predictor.num_texts,
                is_symbols=False,
                runtime="torch",
                sequence_length=about.sequence_length,
                heldout=None,
                warning=None,
            )
        heldout = self.detector.heldout if "detect" in self.can else None
        # Every network of the model can take a row of so many tokens; longer texts are read in windows.
        lengths = [self._load(folder).sequence_length for folder in self._folders]
        first = self._folders[0]
        return answers.ModelInfo(
            name=name,
            can=self.can,
            task=about.kind if about else None,
            labels=about.labels if about else (),
            num_texts=self.predictor.num_texts if about else 1,
            is_symbols=self._load(first).tokenizer.is_symbols,
            runtime="onnx" if (first / GRAPH).is_file() else "torch",
            sequence_length=about.sequence_length if about else min(lengths),
            heldout=heldout,
            warning=heldout.warning if heldout else None,
        )

    @cached_property
    def examples(self) -> tuple[ExampleText, ...]:
        """Rows that its run held out of training."""
        if self.fitted is not None:
            return read_examples(self._fitted_folder or self.path)
        folder = self._folders[0]
        return read_examples(folder, is_symbols=self._load(folder).tokenizer.is_symbols)

    @cached_property
    def detector(self) -> Detector:
        scorer = None
        path = self.network_folder.parent / calibration.FOLDER
        if path.is_dir() and not self._is_raw and self._require("detect").tokenizer.is_symbols:
            counted = load_sequences(path)
            sequences = SequenceScorer(*counted, self.make_event_scorer(NO_STOP), self._windows.error_rate)
            return self.make_detector(sequences=sequences)
        if path.is_dir() and not self._is_raw:
            stored, frequencies = calibration.load_calibration(path)
            scorer = calibration.WordScorer(stored, self.make_reader(frequencies), self._windows.error_rate)
        return self.make_detector(scorer)

    @property
    def network_folder(self) -> Path:
        """Of the discriminator; beside it lie the generator and the calibration."""
        return self._require("detect").folder

    def make_event_scorer(self, stop: StopSignal) -> ScoreEvents:
        """What both networks say of the events of sequences."""
        detector, reader = self.make_detector(), self.make_reader(WordFrequencies({}, 0))

        def score(rows: Sequence[Sequence[str]]) -> list[Floats]:
            # A symbol that is no symbol of the vocabulary is unknown to both networks.
            scored = detector.score_tokens([tokenize(detector.tokenizer, row, is_literal=True) for row in rows], stop)
            guessed = reader.guess_symbols([text.ids for text in scored], stop)
            return [np.column_stack([text.logits, values]) for text, values in zip(scored, guessed, strict=True)]

        return score

    def make_detector(
        self, scorer: calibration.WordScorer | None = None, sequences: SequenceScorer | None = None
    ) -> Detector:
        loaded = self._require("detect")
        assert isinstance(loaded.network, Discriminator)
        heldout = read_heldout_scores(loaded.folder)
        return Detector(loaded.network, loaded.tokenizer, self._windows, heldout, scorer, sequences)

    def make_reader(self, frequencies: WordFrequencies) -> WordReader:
        """Of what is known of a word: by the generator too, where it reads the same tokens."""
        tokenizer, _, generator = self.pair()
        return WordReader(tokenizer, generator, frequencies)

    @cached_property
    def series_detector(self) -> SeriesDetector:
        symbols = SeriesSymbols.find(self.network_folder.parent)
        if symbols is None:
            raise InputError(f"{self.path}: is no model of time series; prepare some with --series, and train on that")
        return SeriesDetector(symbols, *self.pair(), SeriesCalibration.find(self.network_folder.parent))

    def pair(self) -> tuple[Tokenizer, Discriminator, TokenModel | None]:
        """The discriminator, and the generator where it reads the same tokens."""
        loaded = self._require("detect")
        assert isinstance(loaded.network, Discriminator)
        same = "fill" in self.can and self.filler.tokenizer.to_json() == loaded.tokenizer.to_json()
        return loaded.tokenizer, loaded.network, self.filler.generator if same else None

    @cached_property
    def filler(self) -> MaskFiller:
        loaded = self._require("fill")
        assert isinstance(loaded.network, TokenModel)
        return MaskFiller(loaded.network, loaded.tokenizer, self._windows)

    @cached_property
    def demo(self) -> CorruptionDemo:
        loaded = self._require("play")
        assert isinstance(loaded.network, Discriminator)
        if loaded.tokenizer.to_json() != self.filler.tokenizer.to_json():
            raise InputError(
                f"{self.path}: its two networks have different tokenizers, so they cannot play; use those of one run"
            )
        return CorruptionDemo(self.filler, loaded.network)

    @cached_property
    def embedder(self) -> Embedder:
        loaded = self._require("embed")
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
            models = load_models(self.path, is_ensemble=True)
        elif self.fitted is not None:
            for model in self.fitted.models:
                compute_in(model.network, config.precision, config.batch_tokens)
            return Predictor(self.fitted, config)
        else:
            loaded = self._require("predict")
            assert isinstance(loaded.network, TaskModel)
            models = [load_task_config(loaded.folder, loaded.network, loaded.tokenizer)]
        for model in models:
            compute_in(model.network, config.precision, config.batch_tokens)
        return Predictor(answer_with(models), config)

    def make_proofreader(self, config: ProofreadConfig) -> Proofreader:
        """With suggestions where the model has a generator."""
        return Proofreader(self.detector, self.filler if "fill" in self.can else None, config)

    @cached_property
    def fitted(self) -> Answerer | None:
        """What `fit` made, where it is no model folder like those of fine-tuning."""
        return load_fitted(self._fitted_folder) if self._fitted_folder else None

    @property
    def _fitted_folder(self) -> Path | None:
        return locate_fitted(self.path)

    def _name_networks(self) -> str:
        if self.fitted is not None:
            return f"fitted model ({self.fitted.about.entry})"
        return " and ".join(self._load(folder).name for folder in self._folders)

    @cached_property
    def _folders(self) -> list[Path]:
        return locate_networks(self.path)

    def _load(self, folder: Path) -> LoadedNetwork:
        if folder not in self._networks:
            network, tokenizer = load_any(folder, takes_bare_encoder=True), Tokenizer.load(folder)
            assert isinstance(network.config, EncoderConfig)
            tokenizer.require_fit(network.config.vocab_size, folder)
            compute_in(network, self._windows.precision, self._windows.batch_tokens)
            length = network.config.sequence_length
            self._networks[folder] = LoadedNetwork(folder, network, tokenizer, outputs_energies(folder), length)
        return self._networks[folder]

    def _find(self, capability: Capability) -> LoadedNetwork | None:
        """The network that answers; of a pair that plays, the discriminator."""
        if self.fitted is not None:
            return None
        if capability == "embed":
            # The discriminator's encoder, or that of the only network; among graphs only a discriminator has states.
            loaded = self._load(self._folders[0])
            has_states = isinstance(loaded.network, Encoder | OnnxDiscriminator)
            return loaded if has_states or isinstance(getattr(loaded.network, "encoder", None), Encoder) else None
        if capability == "play" and not self._find("fill"):
            return None
        kinds = {"detect": Discriminator, "play": Discriminator, "fill": TokenModel, "predict": TaskModel}
        # A generator stands last in a pair, so that the other need not be read for it.
        for folder in reversed(self._folders) if capability == "fill" else self._folders:
            loaded = self._load(folder)
            # TokenModel is a protocol of sorts, which mypy takes for no class.
            if isinstance(loaded.network, kinds[capability]):  # type: ignore[arg-type]
                return None if loaded.outputs_energies and kinds[capability] is Discriminator else loaded
        return None

    def _require(self, capability: Capability) -> LoadedNetwork:
        if loaded := self._find(capability):
            return loaded
        held = f"a {self._name_networks()}".replace(" and ", " and a ")
        can = ", ".join(self.can) or "do nothing of the kind"
        hint = ""
        if capability == "predict":
            hint = f"; 'electra finetune {self.path}' teaches it a task"
        elif capability == "detect" and any(loaded.outputs_energies for loaded in self._networks.values()):
            hint = "; compare sentences by its energies (electra evaluate --suite blimp), or tune it (electra finetune)"
        raise InputError(f"{self.path}: holds {held}, which cannot {capability}; it can {can}{hint}")


def find_run(folder: Path) -> Path | None:
    """The run whose `export`, or whose `onnx` beside it, holds this network."""
    run = folder.resolve().parent.parent
    return run if (run / RunFingerprint.FILE).is_file() else None


def read_heldout_scores(folder: Path) -> HeldoutScores | None:
    """How a discriminator did on held-out text, where its run says so."""
    run = find_run(folder)
    if run is None:
        return None
    try:
        heldout = PretrainResults.read(run).heldout
    except ElectraError:
        return None  # the model answers without them: they are missing, damaged, or of a fine-tuning run
    auc, recall, precision = (heldout.get(name) for name in ("auc", "recall", "precision"))
    if auc is None or recall is None or precision is None:
        return None
    return HeldoutScores(auc=auc, recall=recall, precision=precision)


def read_examples(folder: Path, *, is_symbols: bool = False) -> tuple[ExampleText, ...]:
    """Held-out rows of the run, to try its model with."""
    run = find_run(folder)
    if run is None:
        return ()
    examples: list[ExampleText] = []
    try:
        stored = RunExamples.find(run)
        for pretrained in stored.rows if stored else ():
            corrupted, text = pretrained.corrupted, join_pieces(pretrained.pieces, is_symbols=is_symbols)
            replaced = None if corrupted is None else join_pieces(corrupted, is_symbols=is_symbols)
            examples.append(ExampleText(texts=(text,), truth=None, corrupted=replaced))
        paths = sorted(run.glob("seed-*/predictions/dev.jsonl")) or sorted(run.glob("predictions/linear.jsonl"))
        rows = list(islice(read_rows(paths[0]), _ROWS_READ)) if paths else []
    except (ElectraError, OSError):
        return ()  # examples are a courtesy: a damaged file of them keeps no model from being served
    # Of a tuned model one of each class, as many as there is room for; of other tasks the first rows.
    if all(isinstance(row.truth, str) for row in rows):
        rows = list({row.truth: row for row in reversed(rows)}.values())[::-1]
    for row in rows[:_MOST_EXAMPLES]:
        # A question stands there without the text that answers it, so it is no example.
        if row.texts:
            truth = str(row.truth) if isinstance(row.truth, str | float) else None
            examples.append(ExampleText(texts=row.texts, truth=truth, corrupted=None))
        elif row.words:
            examples.append(ExampleText(texts=(" ".join(row.words),), truth=None, corrupted=None))
    short = [example for example in examples if all(0 < len(text) <= _MOST_CHARACTERS for text in example.texts)]
    return tuple(short[:_MOST_EXAMPLES])


def join_pieces(pieces: Sequence[str], *, is_symbols: bool = False) -> str:
    """Tokens as a person would write them, as far as can be told: `##` continues the word before.

    >>> join_pieces(["[CLS]", "the", "cat", "##s", "sat", ".", "[SEP]"])
    'the cats sat.'
    """
    kept = [piece for piece in pieces if not _SPECIAL.fullmatch(piece)]
    if is_symbols:
        return " ".join(kept)
    text = "".join(piece[2:] if piece.startswith("##") and len(piece) > 2 else f" {piece}" for piece in kept)
    text = _NO_SPACE_BEFORE.sub("", text.strip())
    return _UNSPACED.sub("", _NO_SPACE_AFTER.sub(r"\1", text))
