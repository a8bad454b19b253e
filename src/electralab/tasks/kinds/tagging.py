"""Tagging: the words of a sentence, and a tag for each; named entities, chunks, parts of speech.

    TaggingExample -> TaggedFeature: the first token of a word carries its tag -> cross-entropy
    (T, L) logits -> TaggingPrediction -> F1 of whole entities, accuracy of tags

Files have CoNLL's columns (a word per line, its tag last, a blank line between sentences), or are tables of lists.
Spans are written in several ways (IOB1, IOB2, IOBES, BILOU); `to_iob2` makes them one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from electralab.model.task_model import HeadConfig
from electralab.records.tuned import ClassReport, ClassScores, PredictionRow, Scores
from electralab.tasks.baselines import COMMONEST, LINEAR, MOST_FITTED_WORDS, WindowTagger, find_commonest, take_evenly
from electralab.tasks.features import (
    IGNORED,
    NO_TARGETS,
    EncodedSplit,
    Feature,
    FeatureEncoder,
    Ids,
    TaskBatch,
    soft_cross_entropy,
    softmax,
)
from electralab.tasks.kind import (
    OWN_FILES,
    TABLE_SUFFIXES,
    BaselinePredictions,
    Example,
    Labels,
    Logits,
    NetworkOutputs,
    Prediction,
    RowConverter,
    RowError,
    Split,
    SplitFiles,
    SplitScores,
    Task,
    TaskInput,
    TaskKind,
    as_strings,
    check_parts,
    pick_parts,
    round_number,
)
from electralab.tasks.kinds.classification import score_counts
from electralab.tasks.table import UNDECODABLE, BadRow, Columns, Row, Table, is_damaged, read_lines, read_suffix
from electralab.tokens.tokenizer import Tokenizer

WORDS = "words"
TAGS = "tags"
METRICS = ("f1", "precision", "recall", "accuracy")
CONLL_FILES: SplitFiles = {
    "train": ("train.txt", "eng.train", "train.conll", "*train*.txt", "*train*.conll"),
    "dev": ("valid.txt", "dev.txt", "eng.testa", "valid.conll", "dev.conll", "*valid*.txt", "*dev*.txt"),
    "test": ("test.txt", "eng.testb", "test.conll", "*test*.txt"),
}
_FILES: SplitFiles = {
    split: tuple(dict.fromkeys((*CONLL_FILES[split], *OWN_FILES[split]))) for split in ("train", "dev", "test")
}

_SPAN_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT_START = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class TaggingExample(Example):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    """None where they are not known."""


@dataclass(frozen=True, slots=True)
class TaggedFeature(Feature):
    word_starts: Ids
    """The position of the first token of each of its words."""


@dataclass(frozen=True, slots=True)
class TaggingPrediction(Prediction):
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


Examples = Sequence[TaggingExample]
Predictions = Sequence[TaggingPrediction]


class _Converter(RowConverter[TaggingExample]):
    def __init__(self, table: Table, task: Task, columns: Columns, labels: tuple[str, ...]) -> None:
        super().__init__(table, task, columns, labels)
        self._num_respelled = 0
        # Spans or classes, as in the training file, whose labels are given when another is read.
        tags: Iterable[str] = labels
        if columns.label and not labels:
            values = (row.fields.get(columns.label) for row in table.good_rows)
            lists = (value.split() if isinstance(value, str) else value for value in values)
            tags = {str(tag) for tags in lists if isinstance(tags, list) for tag in tags}
        self._has_spans = bool(columns.label) and has_spans(tags)

    def convert(self, row: Row) -> TaggingExample:
        words = self.read_list(row, self.columns.texts[0])
        if not words or not all(word.strip() for word in words):
            raise RowError("holds an empty word" if words else "holds no words")
        if not self.columns.label:
            return TaggingExample(self.read_id(row), words, ())
        tags = self.read_list(row, self.columns.label)
        if len(tags) != len(words):
            raise RowError(f"has {len(tags)} tags for {len(words)} words")
        if self._has_spans:
            respelled = to_iob2(tags)
            self._num_respelled += respelled != tags
            tags = respelled
        for tag in tags:
            self.check_label(tag)
        return TaggingExample(self.read_id(row), words, tags)

    def notes(self) -> list[str]:
        count = self._num_respelled
        return [f"sentences whose tags were respelled as IOB2: {count:,}"] if count else []


class Tagging(TaskKind[TaggingExample, TaggedFeature, TaggingPrediction]):
    name = "label"
    shape = "token"
    has_classes = True
    text_parts = (WORDS,)
    label_columns = (TAGS, "labels", "ner_tags", "chunk_tags", "pos_tags", "ner", "label")
    suffixes = TABLE_SUFFIXES | {".conll", ".train", ".testa", ".testb"}
    converter = _Converter

    def own_tasks(self) -> tuple[Task, ...]:
        return (Task("label", "labelling of words", self, METRICS, files=_FILES),)

    def read_table(self, path: Path, encoding: str, task: Task) -> Table:
        if read_suffix(path) in TABLE_SUFFIXES - {".txt"}:
            return super().read_table(path, encoding, task)
        return read_conll(path, encoding)

    def is_plain_text(self, lines: Sequence[str]) -> bool:
        return not is_conll(lines)

    def name_texts(self, table: Table, num_texts: int, label: str) -> tuple[str, ...]:
        return tuple(filter(None, [table.find_column((WORDS, "tokens", "text"), (label,))]))

    def find_labels(self, split: Split) -> tuple[str, ...]:
        return complete_tags(tag for example in split.examples for tag in example.tags)

    def content(self, example: TaggingExample) -> str:
        return "\0".join(example.words)

    def parse(self, given: TaskInput, tokenizer: Tokenizer, num_texts: int) -> TaggingExample:
        if isinstance(given, Mapping):
            (given,) = pick_parts(given, [(WORDS,), ("tokens",)])
        words = given.split() if isinstance(given, str) else as_strings(given)
        return TaggingExample("", check_parts(words), ())

    def encode(self, encoder: FeatureEncoder, examples: Examples, *, is_labelled: bool) -> EncodedSplit[TaggedFeature]:
        tokenizer, class_ids, room = encoder.tokenizer, encoder.class_ids, encoder.sequence_length - 2
        words = [word for example in examples for word in example.words]
        # For a model of symbols every word is one.
        tokens = iter(
            [tokenizer.encode_symbols([word]) for word in words]
            if tokenizer.is_symbols
            else tokenizer.encode_many(words)
        )
        features, truncated = [], []
        for index, example in enumerate(examples):
            # A word of nothing but control characters has no tokens, yet its tag must have a position.
            by_word = [
                ids if len(ids) else np.array([tokenizer.special.unk]) for ids in (next(tokens) for _ in example.words)
            ]
            stretches = list(split_words([len(ids) for ids in by_word], room))
            if len(stretches) > 1:
                truncated.append(index)
            for start, end in stretches:
                pieces = [ids[:room] for ids in by_word[start:end]]
                ids, segment_ids = encoder.add_special_tokens([np.concatenate(pieces)])
                starts = np.cumsum([1, *map(len, pieces[:-1])])
                targets = NO_TARGETS
                if is_labelled:
                    targets = np.full(len(ids), IGNORED, dtype=np.int64)
                    targets[starts] = [class_ids[tag] for tag in example.tags[start:end]]
                features.append(TaggedFeature(index, ids, segment_ids, targets, starts))
        return EncodedSplit(features, truncated)

    def count_targets(self, batch: TaskBatch) -> int:
        """Tagged words."""
        return int((batch.targets != IGNORED).sum())

    def loss(self, logits: Logits, batch: TaskBatch, head: HeadConfig) -> Tensor:
        assert isinstance(logits, Tensor)
        flat = logits.float().flatten(0, 1)  # (B * T, L)
        return F.cross_entropy(flat, batch.targets.flatten(), ignore_index=IGNORED, reduction="sum")

    def distillation_loss(
        self, logits: Logits, teacher_logits: Logits, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        assert isinstance(logits, Tensor)
        assert isinstance(teacher_logits, Tensor)
        is_tagged = batch.targets != IGNORED  # (B, T)
        return soft_cross_entropy(logits[is_tagged], teacher_logits[is_tagged], temperature)

    def decode(self, outputs: NetworkOutputs[TaggingExample, TaggedFeature]) -> list[TaggingPrediction]:
        tags: list[list[str]] = [[] for _ in outputs.examples]
        tag_probs: list[list[float]] = [[] for _ in outputs.examples]
        for feature, row in zip(outputs.features, outputs.rows, strict=True):
            probs = softmax(row.logits[feature.word_starts])  # (words, L)
            tags[feature.example] += [outputs.head.labels[number] for number in probs.argmax(axis=1)]
            tag_probs[feature.example] += probs.max(axis=1).tolist()
        return [TaggingPrediction(tuple(t), tuple(p)) for t, p in zip(tags, tag_probs, strict=True)]

    def score(self, task: Task, examples: Examples, predictions: Predictions, labels: Labels) -> SplitScores:
        truth, predicted = [example.tags for example in examples], [answer.tags for answer in predictions]
        return SplitScores(score_tags(truth, predicted), ClassReport(classes=report_entities(truth, predicted)))

    def to_row(self, example: TaggingExample, prediction: TaggingPrediction) -> PredictionRow:
        truth: dict[str, Any] = {"truth": example.tags} if example.tags else {}
        probs = tuple(map(round_number, prediction.probabilities))
        return PredictionRow(
            id=example.id, words=example.words, **truth, prediction=prediction.tags, probabilities=probs
        )

    def baselines(self, train: Examples, splits: Sequence[Split]) -> Iterator[BaselinePredictions[TaggingPrediction]]:
        by_word: dict[str, list[str]] = {}
        for example in train:
            for word, tag in zip(example.words, example.tags, strict=True):
                by_word.setdefault(word, []).append(tag)
        usual = find_commonest([tag for example in train for tag in example.tags])
        tag_of = {word: find_commonest(tags) for word, tags in by_word.items()}
        commonest = {
            split.name: [
                TaggingPrediction(tuple(tag_of.get(word, usual) for word in example.words), ())
                for example in split.examples
            ]
            for split in splits
        }
        yield BaselinePredictions(COMMONEST, "each word's commonest tag", len(train), commonest)
        some = take_evenly(train, sum(len(example.words) for example in train), MOST_FITTED_WORDS)
        model = WindowTagger().fit([example.words for example in some], [example.tags for example in some])
        linear = {
            split.name: [TaggingPrediction(tags, ()) for tags in model.predict([e.words for e in split.examples])]
            for split in splits
        }
        what = "a linear SVM over the word, its spelling and two words on either side"
        yield BaselinePredictions(LINEAR, what, len(some), linear)


KIND = Tagging()


def split_words(lengths: Sequence[int], room: int) -> Iterator[tuple[int, int]]:
    """Stretches of whole words that fit; a word that does not fit by itself is a stretch of its own."""
    start = used = 0
    for index, length in enumerate(lengths):
        if index > start and used + length > room:
            yield start, index
            start, used = index, 0
        used += length
    yield start, len(lengths)


def read_conll(path: Path, encoding: str, column: int = -1) -> Table:
    """A row is a sentence, its number that of its first line; tags from one column. One column: words without tags."""
    sentences: list[tuple[int, list[list[str]]]] = []
    sentence: list[list[str]] = []
    for number, line in enumerate((*read_lines(path, encoding), ""), start=1):
        text = line.strip(" \t\r")
        if text and not text.startswith(_DOCUMENT_START):
            sentence.append(_BLANKS.split(text))
        elif sentence:
            sentences.append((number - len(sentence), sentence))
            sentence = []
    has_tags = any(len(fields) > 1 for _, lines in sentences for fields in lines)
    rows: list[Row | BadRow] = []
    for number, lines in sentences:
        bad = next((index for index, fields in enumerate(lines) if has_tags and len(fields) == 1), None)
        if any(is_damaged(cell) for fields in lines for cell in fields):
            rows.append(BadRow(number, UNDECODABLE))
        elif bad is not None:
            rows.append(BadRow(number + bad, f"holds the word {lines[bad][0]!r} without a tag"))
        else:
            words = [fields[0] for fields in lines]
            rows.append(Row(number, {WORDS: words, TAGS: [f[column] for f in lines]} if has_tags else {WORDS: words}))
    return Table(path, (WORDS, TAGS) if has_tags else (WORDS,), rows)


def is_conll(lines: Sequence[str]) -> bool:
    """Whether lines are columns, not sentences: equally many in each, and blank lines between or span tags last."""
    fields = [_BLANKS.split(line.strip(" \t\r")) for line in lines if line.strip()]
    has_columns = len({len(line) for line in fields}) == 1
    return has_columns and (len(fields) < len(lines) or has_spans(line[-1] for line in fields))


def has_spans(tags: Iterable[str]) -> bool:
    """Whether tags mark spans (B-PER, I-PER, O) and are not one class per word, as parts of speech are."""
    others = [tag for tag in tags if tag != "O"]
    return bool(others) and all(_SPAN_TAG.fullmatch(tag) for tag in others)


def to_iob2(tags: Sequence[str]) -> tuple[str, ...]:
    """The same spans, each begun by B-: IOB1 begins one so only after a neighbour of its type.

    >>> to_iob2(["I-PER", "I-PER", "O", "U-LOC"])
    ('B-PER', 'I-PER', 'O', 'B-LOC')
    """
    result: list[str] = []
    before = ""  # the type of an open span
    for tag in tags:
        match = _SPAN_TAG.fullmatch(tag)
        if match is None:
            result.append(tag)
            before = ""
            continue
        prefix, kind = match.groups()
        result.append(f"{'B' if prefix in 'BSU' or kind != before else 'I'}-{kind}")
        before = "" if prefix in "ESLU" else kind
    return tuple(result)


def complete_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Sorted; for spans both B- and I- of every type, since the other may only occur in another split."""
    known = set(tags)
    if has_spans(known):
        kinds = {tag[2:] for tag in known if tag != "O"}
        known = {"O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in kinds)}
    return tuple(sorted(known))


Entities = set[tuple[str, int, int]]
"""Type, first and last word of each entity, words counted over all sentences."""


def score_tags(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Scores:
    """F1, precision and recall of whole entities, and the accuracy of single tags.

    Entities are counted as conlleval does, so that IOB1, IOB2 and IOBES may even be mixed.
    """
    true, proposed = _find_entities(truth), _find_entities(predicted)
    total = score_counts("", len(true & proposed), len(proposed), len(true))
    pairs = [pair for ours, theirs in zip(predicted, truth, strict=True) for pair in zip(ours, theirs, strict=True)]
    accuracy = sum(ours == theirs for ours, theirs in pairs) / len(pairs) if pairs else 0.0
    return {"f1": total.f1, "precision": total.precision, "recall": total.recall, "accuracy": accuracy}


def report_entities(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> tuple[ClassScores, ...]:
    """The scores of each type of entity that is in the truth or was predicted, by name."""
    true, proposed = _find_entities(truth), _find_entities(predicted)
    hits, counts, support = (Counter(kind for kind, _, _ in entities) for entities in (true & proposed, proposed, true))
    return tuple(score_counts(kind, hits[kind], counts[kind], support[kind]) for kind in sorted(counts | support))


def _find_entities(sentences: Sequence[Sequence[str]]) -> Entities:
    from seqeval.metrics.sequence_labeling import get_entities

    return set(get_entities([[_as_entity(tag) for tag in tags] for tags in sentences]))


def _as_entity(tag: str) -> str:
    """A tag as seqeval takes it: its letters for BILOU's, and a tag without a letter is an entity of one word."""
    if tag in ("O", "B", "I", "E", "S") or tag.startswith(("B-", "I-", "E-", "S-")):
        return tag
    if tag.startswith(("L-", "U-")):
        return {"L": "E", "U": "S"}[tag[0]] + tag[1:]
    return f"S-{tag}"
