"""What models are asked about, and how closely: rows of text, and sentences of which something is known.

file, flags -> AnalysisSettings; DATA | TEXT, settings -> AnalysisData
"""

import copy
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar, cast, get_args

import numpy as np
import torch
from pydantic import Field
from torch import nn

from electralab.analysis import probe_sets
from electralab.analysis.finding import Resampler
from electralab.artifacts import real_path, sha256_json
from electralab.config import Alias, Settings
from electralab.corpus.readers import ReadingConfig
from electralab.errors import InputError, UsageError
from electralab.evaluation.context import EvalContext
from electralab.evaluation.heldout import HeldoutRows, read_rows
from electralab.model import flops
from electralab.model.electra import Discriminator, TokenModel, TwoStream, TwoTower
from electralab.model.encoder import Encoder
from electralab.model.folders import folder as folders
from electralab.model.folders.native_format import is_onnx
from electralab.model.weights import init_weights
from electralab.pretraining.settings import parse_stored
from electralab.randomness import mix
from electralab.records.kinds import find_kind
from electralab.records.run import RunFingerprint
from electralab.runtime import choose_device
from electralab.tokens.tokenizer import Tokenizer

# The objective that it was trained with; "encoder" where its folder holds no head for tokens.
Kind = Literal["electra", "electra-15", "electric", "all-tokens-mlm", "mlm", "causal", "other", "encoder"]
_MASK_SHARE = 0.15
N = TypeVar("N", bound=nn.Module | None)


def kind_of(objective: str) -> Kind:
    name = "mlm" if objective == "bert" else objective
    return cast(Kind, name) if name in get_args(Kind)[:-2] else "other"


@dataclass(frozen=True, slots=True)
class AnalysisModel:
    name: str
    folder: Path
    networks: tuple[Path, ...]
    """The model folders that were read."""
    kind: Kind
    encoder: Encoder
    """Whose states are looked at: the discriminator's, or that of the only network."""
    discriminator: Discriminator | None
    generator: TokenModel | None
    tokenizer: Tokenizer
    flops_per_token: float | None
    """Training, forward and backward, in our convention; none where nothing says how it was trained."""
    control_of: str | None = None
    """The model whose untrained control this is."""

    @property
    def sequence_length(self) -> int:
        """What every network of it can take."""
        networks = (self.encoder, self.discriminator, self.generator)
        return min(network.config.sequence_length for network in networks if network is not None)

    @property
    def device(self) -> torch.device:
        return next(self.encoder.parameters()).device

    @property
    def is_pair(self) -> bool:
        """Whether it was trained as generator and discriminator."""
        return self.kind in ("electra", "electra-15", "electric")

    def require_generator(self, purpose: str) -> TokenModel:
        if self.generator is None:
            raise InputError(f"{self.name}: holds no generator, which {purpose} needs; give a run with one")
        return self.generator

    def require_discriminator(self, purpose: str) -> Discriminator:
        """A discriminator whose logits say whether a token was replaced."""
        if self.kind == "electric":
            raise InputError(
                f"{self.name}: says energies, not how likely a token was replaced, which {purpose} needs; "
                "give a run of electra"
            )
        if self.discriminator is None:
            raise InputError(f"{self.name}: holds no discriminator, which {purpose} needs; give a run with one")
        return self.discriminator


def load_analysis_model(folder: Path, name: str = "", device: torch.device | None = None) -> AnalysisModel:
    """Both networks of a run or a pair; of a run of one network or a model folder, that one."""
    paths, device = tuple(folders.locate_networks(folder)), device or torch.device("cpu")
    if graph := next(filter(is_onnx, paths), None):
        raise InputError(f"{graph}: is a graph, which shows no states; give the model that it was exported from")
    tokenizer = Tokenizer.load(paths[0])
    if any(Tokenizer.load(other).to_json() != tokenizer.to_json() for other in paths[1:]):
        raise InputError(f"{folder}: its two networks have different tokenizers; analyze their folders one by one")
    discriminator: Discriminator | None = None
    generator: TokenModel | None = None
    for path in paths:
        try:
            network = folders.load_any(path)
        except InputError:
            if len(paths) > 1:
                raise
            # A body without a head, as many folders are. What is wrong with the encoder itself is said when that is
            # read below.
            break
        if isinstance(network, Discriminator):
            discriminator = network.to(device)
        elif isinstance(network, TokenModel):
            generator = network.to(device)
    encoder = _main_encoder(discriminator, generator) or folders.load_encoder(paths[0]).to(device)
    # A table that is too small for the tokenizer would fail far from its cause.
    tokenizer.require_fit(encoder.config.vocab_size, folder)
    folder_kind = find_kind(folder)
    run = RunFingerprint.find(folder) if folder_kind and folder_kind.name == "run" else None
    kind: Kind
    if objective := folders.read_objective(paths[0]) or (run.objective if run else ""):
        kind = kind_of(objective)
    elif discriminator is not None:
        kind = "electra"
    elif generator is None:
        kind = "encoder"
    else:
        kind = "causal" if generator.config.is_causal else "mlm"
    # FLOPs of one token of a full row. Known for kinds whose step is one pass of each network over the row.
    per_token = None
    is_counted = kind in ("electra", "electra-15", "mlm", "causal")
    if generator is not None and not isinstance(generator, TwoStream) and is_counted:
        length = generator.config.sequence_length
        config = parse_stored(run.settings) if run else None
        mask_share = config.masking.mask_share if config else _MASK_SHARE
        num_targets = length - 1 if kind == "causal" else flops.count_masked(length, mask_share)
        count = flops.two_tower_flops if isinstance(generator, TwoTower) else flops.generator_flops
        forward = count(generator.config, 1, length, num_targets)
        if discriminator is not None:
            forward += flops.discriminator_flops(discriminator.config, 1, length, discriminator.head.kind)
        # A backward pass takes twice a forward one.
        per_token = 3 * forward / length
    name = name or folder.resolve().name
    return AnalysisModel(name, folder, paths, kind, encoder, discriminator, generator, tokenizer, per_token)


def _main_encoder(discriminator: Discriminator | None, generator: TokenModel | None) -> Encoder | None:
    """The network that the model is made for; None where only a folder tells, as of two towers."""
    if discriminator is not None:
        return discriminator.encoder
    return None if generator is None or isinstance(generator, TwoTower) else generator.encoder


def reinitialise(model: AnalysisModel, seed: int) -> AnalysisModel:
    """The untrained control: the same shape, weights as first drawn."""

    def redraw(network: N) -> N:
        if network is None:
            return network
        # First weights are a function of the seed and the parameters' names: every analysis has the same control.
        drawn = copy.deepcopy(network)
        init_weights(drawn, seed)
        return drawn.eval()

    discriminator, generator = redraw(model.discriminator), redraw(model.generator)
    encoder = _main_encoder(discriminator, generator) or redraw(model.encoder)
    untrained = replace(model, encoder=encoder, discriminator=discriminator, generator=generator)
    return replace(untrained, name=f"{model.name}, untrained", control_of=model.name)


def name_models(models: Sequence[Path]) -> list[str]:
    """By the last part of a path; of those that have it in common (a/run, b/run), by what comes before.

    >>> name_models([Path("/a/run"), Path("/b/run"), Path("/c/small")])
    ['a', 'b', 'small']
    """
    paths = [real_path(path).parts for path in models]
    if len(set(paths)) < len(paths):
        twice = next(str(path) for index, path in enumerate(models) if paths[index] in paths[:index])
        raise UsageError(f"analyze: {twice} is given twice; give it once")
    names = []
    for parts in paths:
        alike = [other for other in paths if other[-1:] == parts[-1:]]
        if len(alike) == 1:
            names.append(parts[-1] if parts else "model")
            continue
        # The fewest parts that tell a path from those that end alike, without the end that all of them have.
        while len({other[-1:] for other in alike}) == 1:
            parts, alike = parts[:-1], [other[:-1] for other in alike]
        depth = 1
        while len({other[-depth:] for other in alike}) < len(alike):
            depth += 1
        names.append("/".join(parts[-depth:]))
    if len(set(names)) < len(names):
        names = ["/".join(parts[1:]) for parts in paths]
    files = [slug(name) for name in names]
    # Where files would have one name ("run 1" and "run-1"), the later is numbered.
    return [f"{name} ({index + 1})" if files[index] in files[:index] else name for index, name in enumerate(names)]


def slug(name: str) -> str:
    """For files: letters, digits and what is harmless."""
    kept = "".join(letter if letter.isalnum() or letter in "_." else "-" for letter in name.replace(", ", "."))
    return "-".join(part for part in kept.split("-") if part)


T = TypeVar("T")
# A vocabulary that knows the language has pieces of several letters, and few unknown ones.
_PIECES_PER_LETTER = 0.6
_UNKNOWN_SHARE = 0.2


class AnalysisSettings(Settings):
    seed: int = Field(0, ge=0, lt=2**31)
    rows: int = Field(256, ge=1)
    """The most rows of text to look at."""
    row_length: int = Field(128, ge=8)
    """Of rows made of text, where the model could take longer ones; prepared rows have a length of their own."""
    vectors: int = Field(1000, ge=8)
    """The most states of a layer that enter one figure."""
    points: int = Field(600, ge=8)
    """The most points of a picture."""
    mask_share: float = Field(0.15, gt=0, lt=1)
    times: Annotated[int, Alias("num_resamples")] = Field(200, ge=1)
    """How often rows, words or pairs are drawn again for an interval."""
    untrained: bool = True
    """Whether the same network as first drawn is measured beside each model."""
    tagged: str = ""
    """Sentences of words with tags in CoNLL columns; empty for the English ones that come along."""
    pairs: str = ""
    """A table of sentences and changed ones, likewise."""
    analogies: str = ""
    """A table of a, b, c, d, likewise."""
    senses: str = ""
    """A table of words, their senses and sentences, likewise."""
    domains: tuple[str, ...] = ()
    """Texts of other domains, to see how far they are and what a model loses there."""
    runs: str = ""
    """A folder of pre-training runs of several sizes, for the law that they follow."""
    tradeoff: str = ""
    """The folder of an 'electra compress', for what the model's smaller variants cost and gain."""
    examples: str = ""
    """The data of the task that a tuned model was tuned on, to be damaged."""
    classes: str = ""
    """A table of texts with labels; empty for none."""
    batch_tokens: int = Field(4096, ge=1)
    """Tokens that go through a network at once, padding included."""
    device: str = "auto"
    reading: ReadingConfig = ReadingConfig()
    """How text is found in files that are not prepared."""

    def make_rng(self, *stream: str) -> np.random.Generator:
        """By the seed and what it is for, so that no figure depends on which others are asked for."""
        # Stream names are seeds: another name gives other intervals.
        return np.random.default_rng(int(mix(self.seed, *(zlib.crc32(name.encode()) for name in stream))))

    def resampler(self, *stream: str) -> Resampler:
        return Resampler(self.make_rng(*stream), self.times)


@dataclass(frozen=True, slots=True)
class ProbeSet(Generic[T]):
    """Examples, and where they are from: those that come along are English."""

    flag: str
    """The setting that names a file instead."""
    source: str
    items: T
    texts: tuple[str, ...]
    """What a model has to be able to read."""

    def read_by(self, model: AnalysisModel) -> T:
        """Refused where our English would be read letter by letter; what the user gives is taken as it is."""
        tokenizer = model.tokenizer
        if tokenizer.is_symbols:
            raise InputError(f"{model.name}: is a model of symbols, which cannot read sentences; give another model")
        if self.source:
            return self.items
        texts = self.texts[:200]
        ids = [index for row in tokenizer.encode_many(texts) for index in row.tolist()]
        letters = sum(len(text.replace(" ", "")) for text in texts)
        unknown = ids.count(tokenizer.special.unk)
        if len(ids) >= _PIECES_PER_LETTER * letters or unknown >= _UNKNOWN_SHARE * len(ids):
            raise InputError(
                f"{model.name}: its vocabulary does not read the English sentences of the package; "
                f"give some of its language as --{self.flag} FILE"
            )
        return self.items


@dataclass(frozen=True, slots=True)
class AnalysisData:
    data: Path
    tagged: ProbeSet[tuple[probe_sets.TaggedSentence, ...]]
    pairs: ProbeSet[dict[str, tuple[probe_sets.SentencePair, ...]]]
    analogies: ProbeSet[tuple[probe_sets.Analogy, ...]]
    senses: ProbeSet[tuple[probe_sets.SenseSentence, ...]]
    classes: tuple[probe_sets.ClassedText, ...]
    """The user's alone; none come along."""
    settings: AnalysisSettings
    conditions: EvalContext
    _rows: dict[str, HeldoutRows] = field(default_factory=dict)

    def read_rows(self, model: AnalysisModel) -> HeldoutRows:
        """The same rows for all models with one tokenizer and length."""
        length = model.sequence_length
        # Prepared rows have a length of their own; rows made of text may be shorter than what the model takes.
        if not (self.data / "manifest.json").is_file():
            length = min(length, self.settings.row_length)
        # By content and not by model: several runs with one tokenizer read the text once.
        key = sha256_json([model.tokenizer.to_json(), length])
        if key not in self._rows:
            reading = self.settings.reading
            self._rows[key] = read_rows(self.data, model.tokenizer, length, self.settings.rows, reading)
        return self._rows[key]

    def fingerprint(self, model: AnalysisModel) -> str:
        """A hash of all that this model is asked about."""
        try:
            rows = sha256_json(self.read_rows(model).ids.tolist())
        except InputError as error:
            rows = str(error)
        sets = (self.tagged.items, self.pairs.items, self.analogies.items, self.senses.items, self.classes)
        # The class of pairs was once called Pair: what was measured then need not be measured again.
        return sha256_json([rows, *(repr(items).replace("SentencePair(", "Pair(") for items in sets)])


def load_analysis_data(
    data: Path, settings: AnalysisSettings, check: Callable[[], None] = lambda: None
) -> AnalysisData:
    if not data.exists():
        raise InputError(f"{data}: no such file or folder; give prepared data or text")
    conditions = EvalContext(
        seed=settings.seed,
        batch_tokens=settings.batch_tokens,
        device=str(choose_device(settings.device)),
        reading=settings.reading,
        check=check,
    )
    tagged = probe_sets.read_tagged(settings.tagged)
    pairs = probe_sets.read_pairs(settings.pairs)
    analogies = probe_sets.read_analogies(settings.analogies)
    senses = probe_sets.read_senses(settings.senses)
    sources = tuple(pair.source for group in pairs.values() for pair in group)
    return AnalysisData(
        data,
        ProbeSet("tagged", settings.tagged, tagged, tuple(" ".join(sentence.words) for sentence in tagged)),
        ProbeSet("pairs", settings.pairs, pairs, sources),
        ProbeSet("analogies", settings.analogies, analogies, tuple(f"{four.a} {four.b}" for four in analogies)),
        ProbeSet("senses", settings.senses, senses, tuple(sentence.sentence for sentence in senses)),
        probe_sets.read_classes(Path(settings.classes)) if settings.classes else (),
        settings,
        conditions,
    )
