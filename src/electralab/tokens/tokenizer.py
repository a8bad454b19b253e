"""Text <-> ids, exactly as `tokenizer.json` says: nothing the model depends on happens outside that file.

    str -> Encoded

The saved folder names Hugging Face's generic fast class, which loads the file as it is. The classes of single
architectures, such as ElectraTokenizer, rebuild the normaliser; a model folder tells them how.

A `tokenizer.json` from elsewhere must not fill the memory. Each step of a normaliser that replaces text says how much
it may add at most. Where all of them together cannot add much, nothing is done. Otherwise a text goes through them one
by one before it is encoded, and is refused as soon as it has grown beyond all reason: `tokenizers` itself cannot be
stopped once it works.
"""

import base64
import binascii
import json
import re
import string
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from unicodedata import category

import numpy as np
import tokenizers
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from electralab.artifacts import read_json, write_file, write_json
from electralab.config import Settings
from electralab.errors import DamagedArtifact, InputError, UsageError
from electralab.records.kinds import ROLES

TokenizerKind = Literal["wordpiece", "bpe", "unigram"]

# One call on a few megabytes without a space takes a gigabyte inside `tokenizers`; pieces also spread over the cores.
PIECE_CHARS = 16_384

TOKENIZER = "tokenizer"
"""The folder of the tokenizer in prepared data."""
_FILES = ("tokenizer.json", "vocab.txt")

_UNUSED = re.compile(r"\[unused\d+\]|<unused\d+>")
# Ideographs and kana: scripts without spaces, whose words no mark begins.
_SPACELESS = re.compile("[\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

# By how much the bytes of a text may grow. Compatibility forms make up to 12 times as much of single characters, and
# byte-level spelling doubles what it touches; a whole text that grows as much is none.
_MAX_GROWTH = 64
_SLACK = 1024  # bytes, for what is added to every text however short
# What forms of Unicode do to single characters at most, in bytes.
_FORMS = {"NFC": 3, "NFD": 3, "NFKC": 12, "NFKD": 12, "Lowercase": 3, "BertNormalizer": 9, "ByteLevel": 2}


class TokenizerConfig(Settings):
    path: str = ""
    """A `vocab.txt`, a `tokenizer.json`, a Hugging Face folder or prepared data; empty to learn one."""
    kind: TokenizerKind = "wordpiece"
    vocab_size: int = Field(default=8192, ge=64, le=1_000_000)
    lowercase: bool | None = None
    """Unset: yes for a learned tokenizer; for a vocab.txt, if it holds no capital letter."""
    strip_accents: bool | None = None
    """Unset: no for a learned tokenizer; for a vocab.txt as BERT does, together with lower-casing."""
    character_coverage: float = Field(default=0.9999, gt=0.9, le=1.0)
    """The share of the text's characters that get pieces of their own; the rarest rest is unknown."""
    sample_mb: float = Field(default=32.0, gt=0.0, le=512.0)
    """The most text, spread over the whole corpus, that a vocabulary is learned on."""


@dataclass(frozen=True, slots=True)
class SpecialIds:
    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The strings of the five special tokens."""

    pad: str = "[PAD]"
    unk: str = "[UNK]"
    cls: str = "[CLS]"
    sep: str = "[SEP]"
    mask: str = "[MASK]"


_ALTERNATIVES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>", "<cls>"),
    "sep": ("[SEP]", "</s>", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}


@dataclass(frozen=True, slots=True)
class Encoded:
    """The ids of a text without special tokens, and the span of characters each one stands for."""

    ids: NDArray[np.int64]  # (n,)
    offsets: list[tuple[int, int]]


class Pattern(BaseModel):
    """What a step looks for: this text, or an expression, which is not read here."""

    model_config = ConfigDict(frozen=True, extra="allow")
    text: str = Field(default="", alias="String")


class PipelineStep(BaseModel):
    """A step of a pipeline as tokenizer.json writes it. Each kind of step has some of these, and others."""

    model_config = ConfigDict(frozen=True, extra="allow")
    type: str
    content: str = ""
    pattern: Pattern = Pattern()
    prepend: str = ""
    precompiled_charsmap: str = ""
    lowercase: bool | None = None
    strip_accents: bool | None = None
    handle_chinese_chars: bool | None = None
    normalizers: "tuple[PipelineStep, ...]" = ()
    pretokenizers: "tuple[PipelineStep, ...]" = ()
    decoders: "tuple[PipelineStep, ...]" = ()

    def flatten(self) -> "list[PipelineStep]":
        """Itself, or in their order the steps that it is a sequence of."""
        if self.type != "Sequence":
            return [self]
        parts = (*self.normalizers, *self.pretokenizers, *self.decoders)
        return [step for part in parts for step in part.flatten()]

    def max_growth(self) -> float:
        """How many times as many bytes it makes of a text at most."""
        match self.type:
            case "Replace":
                content, pattern = len(self.content.encode()), len(self.pattern.text.encode())
                # An expression, or nothing at all, may be found between any two characters.
                return max(1.0, content / pattern) if pattern else 1.0 + content
            case "Prepend":
                return 1.0 + len(self.prepend.encode())
            case "Precompiled":
                # SentencePiece's table: the size of a trie, the trie, and replacements with a zero byte after each.
                try:
                    data = base64.b64decode(self.precompiled_charsmap)
                    return max(1.0, *map(len, data[4 + int.from_bytes(data[:4], "little") :].split(b"\0")))
                except binascii.Error:
                    return max(1.0, len(self.precompiled_charsmap))
        return _FORMS.get(self.type, 1)

    def to_json(self) -> dict[str, object]:
        return self.model_dump(mode="json", exclude_unset=True, by_alias=True)


def list_steps(part: Any) -> list[PipelineStep]:
    """The steps of a normaliser, pre-tokenizer or decoder, or of what tokenizer.json says of it, in their order."""
    if part is None:
        return []
    return PipelineStep.model_validate(part if isinstance(part, dict) else json.loads(part.__getstate__())).flatten()


def _max_growth(steps: Iterable[PipelineStep]) -> float:
    product = 1.0
    for step in steps:
        # Many steps of a hostile file must not end in infinity times zero.
        product = min(product * step.max_growth(), 1e300)
    return product


class Tokenizer:
    """A `tokenizers` pipeline with the five special tokens of ELECTRA."""

    def __init__(self, backend: tokenizers.Tokenizer, names: SpecialTokens, *, is_symbols: bool = False) -> None:
        vocab = backend.get_vocab(with_added_tokens=True)
        self.special = SpecialIds(**{role: vocab[name] for role, name in asdict(names).items()})
        self.is_symbols = is_symbols
        self.kind = type(backend.model).__name__.lower()
        self.vocab_size = max(vocab.values()) + 1
        self._names = names
        self._vocab = vocab
        self._tokens = {index: token for token, index in vocab.items()}
        self._backend = backend
        # The steps that a text is led through before it is encoded; none where there is no danger.
        self._watched_steps: list[normalizers.Normalizer] = []
        steps = list_steps(backend.normalizer)
        if _max_growth(steps) > _MAX_GROWTH:
            # A step by itself is the normaliser of a tokenizer that does nothing else.
            template = json.loads(tokenizers.Tokenizer(models.WordLevel({}, unk_token="")).to_str())
            files = [json.dumps({**template, "normalizer": step.to_json()}) for step in steps]
            alone = map(tokenizers.Tokenizer.from_str, files)
            self._watched_steps = [tokenizer.normalizer for tokenizer in alone]

        # [CLS] A [SEP] B [SEP] with segments 0 and 1, no padding or truncation of its own.
        special_names = [AddedToken(name, special=True, normalized=False) for name in asdict(names).values()]
        backend.add_special_tokens(special_names)
        backend.post_processor = processors.TemplateProcessing(
            single=f"{names.cls}:0 $A:0 {names.sep}:0",
            pair=f"{names.cls}:0 $A:0 {names.sep}:0 $B:1 {names.sep}:1",
            special_tokens=[(names.cls, self.special.cls), (names.sep, self.special.sep)],
        )
        backend.no_padding()
        backend.no_truncation()

        added = backend.get_added_tokens_decoder()
        self._is_special = np.zeros(self.vocab_size, dtype=np.bool_)  # (V,)
        self._is_special[list(asdict(self.special).values())] = True
        self._is_special[[index for index, token in added.items() if token.special]] = True
        # Ids without a token (a padded vocabulary), special ones and [unusedN] are never ordinary.
        self.is_ordinary = np.zeros(self.vocab_size, dtype=np.bool_)  # (V,)
        self.is_ordinary[[index for index, token in self._tokens.items() if not _UNUSED.fullmatch(token)]] = True
        self.is_ordinary &= ~self._is_special

    @cached_property
    def _literal(self) -> tokenizers.Tokenizer:
        """A second pipeline that reads '[SEP]' in a text as five characters, not as the token."""
        literal = tokenizers.Tokenizer.from_str(self._backend.to_str())
        literal.encode_special_tokens = True
        return literal

    def encode(self, text: str) -> Encoded:
        """As Hugging Face's tokenizer does without special tokens; a special token written in the text is one."""
        return self._encode_pieces(self._backend, text)

    def encode_literal(self, text: str) -> Encoded:
        """As `encode_many` does, with spans: text from strangers, so a special token written in it is only text."""
        encoded = self._encode_pieces(self._literal, text)
        return Encoded(self._without_special(encoded.ids), encoded.offsets)

    def _encode_pieces(self, backend: tokenizers.Tokenizer, text: str) -> Encoded:
        text = _SURROGATE.sub("\ufffd", text)
        bounds = cut_text(text)
        pieces = [text[start:end] for start, end in bounds]
        self._check_growth(pieces)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        for (shift, _), encoding in zip(bounds, backend.encode_batch(pieces, add_special_tokens=False), strict=True):
            ids += encoding.ids
            offsets += [(start + shift, end + shift) for start, end in encoding.offsets]
        return Encoded(np.array(ids, dtype=np.int64), offsets)

    def _check_growth(self, pieces: Sequence[str]) -> None:
        for piece in pieces if self._watched_steps else ():
            limit = _MAX_GROWTH * len(piece.encode()) + _SLACK
            text = piece
            for step in self._watched_steps:
                text = step.normalize_str(text)
                if len(text.encode()) > limit:
                    raise InputError(
                        f"the tokenizer's normaliser makes more than {_MAX_GROWTH} times as much of a text of "
                        f"{len(piece):,} characters; give another tokenizer"
                    )

    def encode_many(self, texts: Sequence[str]) -> list[NDArray[np.int64]]:
        """The ids of each text, over all cores; text from strangers, so a special token written in it is only text."""
        bounds = [cut_text(text) for text in texts]
        pieces = [text[start:end] for text, spans in zip(texts, bounds, strict=True) for start, end in spans]
        self._check_growth(pieces)
        encodings = iter(self._literal.encode_batch_fast(pieces, add_special_tokens=False))
        flat: list[int] = []
        ends = []
        for spans in bounds:
            for _ in spans:
                flat += next(encodings).ids
            ends.append(len(flat))
        ids = self._without_special(np.array(flat, dtype=np.int64))
        return np.split(ids, ends[:-1]) if ends else []

    def encode_symbols(self, symbols: Sequence[str | int]) -> NDArray[np.int64]:
        """One id per symbol, looked up as it is; an integer is its decimal digits."""
        unknown = self.special.unk
        ids = (self._vocab.get(symbol if isinstance(symbol, str) else str(symbol), unknown) for symbol in symbols)
        return self._without_special(np.fromiter(ids, dtype=np.int64, count=len(symbols)))

    def _without_special(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """A vocabulary may hold '[MASK]' as a piece a text can spell; in data it must stay unknown."""
        return np.where(self._is_special[ids], self.special.unk, ids)

    @cached_property
    def continues_word(self) -> NDArray[np.bool_]:
        """(V,) ids that go on with the word of the id before, as far as a token alone can tell.

        WordPiece marks what continues. Byte-level and SentencePiece vocabularies mark what begins; there punctuation,
        and what is written without spaces, begins a word without a mark. Where nothing is marked every id is a word.
        """
        continues = np.zeros(self.vocab_size, dtype=np.bool_)
        prefix = getattr(self._backend.model, "continuing_subword_prefix", None)
        mark = next((mark for mark in "▁Ġ" if any(token.startswith(mark) for token in self._vocab)), None)
        for token, index in self._vocab.items():
            if prefix:
                continues[index] = token.startswith(prefix)
            elif mark == "Ġ":  # bytes spelt as characters: only ASCII is what it looks like
                is_punctuation = all(character in string.punctuation for character in token)
                continues[index] = not (token.startswith((mark, "Ċ", "ĉ")) or is_punctuation)
            elif mark:
                is_punctuation = all(c in string.punctuation or category(c)[0] == "P" for c in token)
                continues[index] = not (token.startswith(mark) or _SPACELESS.match(token) or is_punctuation)
        return continues & self.is_ordinary & (not self.is_symbols)

    def token(self, index: int) -> str:
        return self._tokens.get(index, "")

    def decode_token(self, index: int) -> str:
        """One token as a reader would write it, without the marks that say how it joins its neighbours."""
        text = self.decode([index]).strip()
        prefix = getattr(self._backend.model, "continuing_subword_prefix", None)
        return text.removeprefix(prefix) if prefix and self.continues_word[index] else text

    def require_fit(self, vocab_size: int, where: Path) -> None:
        """A network must know every id of its tokenizer."""
        if self.vocab_size > vocab_size:
            raise InputError(
                f"{where}: its tokenizer has {self.vocab_size} entries, its model {vocab_size}; "
                "the folder mixes files of two models, restore it"
            )

    def decode(self, ids: Iterable[int]) -> str:
        """Readable text; special tokens are left out."""
        kept = [int(index) for index in ids]
        if self.is_symbols:
            return " ".join(self.token(index) for index in kept if not self._is_special[index])
        return self._backend.decode(kept, skip_special_tokens=True)

    def to_json(self) -> str:
        """The whole pipeline as the text of a tokenizer.json: what a tokenizer is."""
        return self._backend.to_str(pretty=True) + "\n"

    def save(
        self, folder: Path, *, max_length: int = 512, has_segments: bool = True, with_bert_options: bool = True
    ) -> None:
        """tokenizer.json and tokenizer_config.json; `has_segments` says whether the model takes token_type_ids.

        `with_bert_options` adds what ElectraTokenizer and BertTokenizer need to give the same ids.
        """
        # Those classes rebuild BERT's normaliser from these arguments. Theirs has no NFC after it: text that is not
        # composed, and Hangul whose accents are stripped, get other ids.
        bert_options: dict[str, bool | None] = {}
        bert = next((step for step in list_steps(self._backend.normalizer) if step.type == "BertNormalizer"), None)
        if with_bert_options and bert is not None and isinstance(self._backend.model, models.WordPiece):
            bert_options = {
                "do_lower_case": bert.lowercase,
                "strip_accents": bert.strip_accents,
                "tokenize_chinese_chars": bert.handle_chinese_chars,
            }
        config = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **bert_options,
            **{f"{role}_token": name for role, name in asdict(self._names).items()},
            "model_max_length": max_length,
            "model_input_names": ["input_ids", *(["token_type_ids"] if has_segments else []), "attention_mask"],
            "clean_up_tokenization_spaces": False,
            "is_symbols": self.is_symbols,
        }
        write_file(folder / "tokenizer.json", self.to_json())
        write_json(folder / "tokenizer_config.json", config)

    @classmethod
    def load(cls, path: Path, config: TokenizerConfig | None = None) -> "Tokenizer":
        """From a folder (ours or Hugging Face's), a tokenizer.json, or a vocab.txt under any name."""
        if not path.exists():
            raise InputError(f"{path}: no such tokenizer; give a vocab.txt, a tokenizer.json or a folder with one")
        file = path
        if path.is_dir():
            # The folder itself, or those in it where prepared data keeps its tokenizer, and a run its networks.
            folders = (path, path / TOKENIZER, *(path / "export" / role for role in ROLES))
            places = [folder / name for folder in folders for name in _FILES]
            files = [place for place in places if place.is_file()]
            if not files:
                raise InputError(
                    f"{path / TOKENIZER if (path / TOKENIZER).is_dir() else path}: holds neither tokenizer.json nor "
                    "vocab.txt; give a folder with one of them, or prepared data"
                )
            file = files[0]
        beside = file.parent / "tokenizer_config.json"
        stored = read_json(beside) if beside.is_file() else {}
        if not isinstance(stored, dict):
            raise DamagedArtifact(f"{beside}: not a JSON object; restore the file, or remove it")
        if file.suffix == ".json":
            backend = _read_pipeline(file)
        else:
            backend = _read_vocab(file, stored, config or TokenizerConfig())
        tokenizer = cls(backend, _find_special(backend, stored, file), is_symbols=stored.get("is_symbols") is True)
        if config is not None:
            # A setting that was given must not be ignored without a word because the file has settled it.
            settled = {"kind": tokenizer.kind, "vocab_size": tokenizer.vocab_size}
            if file.suffix == ".json":
                settled |= {"lowercase": None, "strip_accents": None}
            for name, value in settled.items():
                if name in config.model_fields_set and getattr(config, name) not in (None, value):
                    raise UsageError(
                        f"{file}: settles tokenizer.{name} by itself (got {getattr(config, name)!r}); "
                        "leave this setting out, or learn a tokenizer"
                    )
        return tokenizer


def _read_pipeline(file: Path) -> tokenizers.Tokenizer:
    try:
        backend = tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{file}: is not UTF-8 text; give a tokenizer.json written by 'tokenizers'") from None
    except Exception as error:  # noqa: BLE001  `tokenizers` raises nothing more specific
        raise InputError(f"{file}: not a tokenizer.json ({error}); give one written by 'tokenizers'") from None
    # Of a normaliser each step is watched, of a decoder none.
    for step in list_steps(backend.normalizer):
        if step.max_growth() > _MAX_GROWTH:
            raise InputError(
                f"{file}: a step of its normaliser ({step.type}) may make more than {_MAX_GROWTH} times as much of "
                "a text; give another tokenizer"
            )
    if _max_growth(list_steps(backend.decoder)) > _MAX_GROWTH:
        raise InputError(
            f"{file}: its decoder may make more than {_MAX_GROWTH} times as much of a text; give another tokenizer"
        )
    return backend


def cut_text(text: str, limit: int = PIECE_CHARS) -> list[tuple[int, int]]:
    """Spans of at most `limit` characters, cut before white space, so that the pieces give the ids of the whole.

    Only a run of `limit` characters without a space is cut inside.
    """
    bounds = []
    start = 0
    while len(text) - start > limit:
        end = max(text.rfind(space, start + 1, start + limit + 1) for space in " \n")
        while end > start and text[end - 1].isspace():
            end -= 1
        end = end if end > start else start + limit
        bounds.append((start, end))
        start = end
    bounds.append((start, len(text)))
    return bounds


def make_normalizer(
    kind: TokenizerKind, *, lowercase: bool, strip_accents: bool, compose: bool = True
) -> normalizers.Normalizer:
    """BERT's cleaning, then NFC: stripping accents works on decomposed text and would leave Hangul in pieces."""
    cleaning = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=kind == "wordpiece", strip_accents=strip_accents, lowercase=lowercase
    )
    return normalizers.Sequence([cleaning, normalizers.NFC()]) if compose else cleaning


def make_wordpiece(vocab: dict[str, int], names: SpecialTokens) -> tokenizers.Tokenizer:
    model = models.WordPiece(vocab, unk_token=names.unk, max_input_chars_per_word=100)
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return backend


def _read_vocab(path: Path, stored: dict[str, Any], config: TokenizerConfig) -> tokenizers.Tokenizer:
    """A vocab.txt has no normaliser: what is not said by settings or stored beside it is read off its pieces."""
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; give a vocab.txt with one piece per line") from None
    pieces = [piece.rstrip("\r") for piece in (pieces[:-1] if pieces[-1] == "" else pieces)]
    vocab = {piece: index for index, piece in enumerate(pieces)}
    if len(vocab) != len(pieces):
        raise InputError(f"{path}: holds a piece twice; give a vocab.txt with one piece per line")
    has_capitals = any(re.search("[A-Z]", piece) for piece in pieces if not piece.startswith(("[", "<")))
    wishes = (config.lowercase, stored.get("do_lower_case"), not has_capitals)
    lowercase = next(wish for wish in wishes if isinstance(wish, bool))
    wishes = (config.strip_accents, stored.get("strip_accents"), lowercase)
    strip_accents = next(wish for wish in wishes if isinstance(wish, bool))
    names = SpecialTokens(unk=next((name for name in _ALTERNATIVES["unk"] if name in vocab), "[UNK]"))
    backend = make_wordpiece(vocab, names)
    # BERT's own vocabulary holds Hangul decomposed, as its normaliser leaves it; Korean ones hold whole syllables.
    has_syllables = any(re.search("[\uac00-\ud7a3]", piece) for piece in pieces)
    backend.normalizer = make_normalizer(
        "wordpiece", lowercase=lowercase, strip_accents=strip_accents, compose=strip_accents and has_syllables
    )
    return backend


def _find_special(backend: tokenizers.Tokenizer, stored: dict[str, Any], path: Path) -> SpecialTokens:
    roles: dict[str, str] = {}
    for role, alternatives in _ALTERNATIVES.items():
        told = stored.get(f"{role}_token")
        told = told.get("content") if isinstance(told, dict) else told
        names = [told] if isinstance(told, str) else list(alternatives)
        name = next((name for name in names if backend.token_to_id(name) is not None), None)
        if name is None:
            raise InputError(f"{path}: has no {role} token ({' or '.join(names)}); ELECTRA needs one, add it")
        roles[role] = name
    if len(set(roles.values())) < len(roles):
        raise InputError(f"{path}: two special tokens are the same ({json.dumps(roles)}); give each its own")
    return SpecialTokens(**roles)
