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

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from electralab.model.task_model import KIND_OF_SHAPE, HeadConfig
from electralab.records.tuned import ClassReport, PredictionRow
from electralab.tasks import baselines, features, kind
from electralab.tasks.features import IGNORED, EncodedSplit, FeatureEncoder, Ids, TaskBatch
from electralab.tasks.kinds.classification import score_counts
from electralab.tasks.table import UNDECODABLE, BadRow, LabelledTable, Row, is_damaged, read_lines, read_suffix
from electralab.tokens.tokenizer import Tokenizer

WORDS = "words"
TAGS = "tags"
METRICS = ("f1", "precision", "recall", "accuracy")
CONLL_FILES: kind.SplitFiles = {
    "train": ("train.txt", "eng.train", "train.conll", "*train*.txt", "*train*.conll"),
    "dev": ("valid.txt", "dev.txt", "eng.testa", "valid.conll", "dev.conll", "*valid*.txt", "*dev*.txt"),
    "test": ("test.txt", "eng.testb", "test.conll", "*test*.txt"),
}
_FILES: kind.SplitFiles = {
    split: tuple(dict.fromkeys((*CONLL_FILES[split], *kind.OWN_FILES[split]))) for split in ("train", "dev", "test")
}

_SPAN_TAG = re.compile(r"([BIESLU])-(.+)", re.DOTALL)
_BLANKS = re.compile(r"[ \t]+")
_DOCUMENT_START = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class TaggingExample(kind.Example):
    words: tuple[str, ...]
    tags: tuple[str, ...]
    """None where they are not known."""


@dataclass(frozen=True, slots=True)
class TaggedFeature(features.Feature):
    word_starts: Ids
    """The position of the first token of each of its words."""


@dataclass(frozen=True, slots=True)
class TaggingPrediction(kind.Prediction):
    tags: tuple[str, ...]
    probabilities: tuple[float, ...]


Examples = Sequence[TaggingExample]
Predictions = Sequence[TaggingPrediction]


class Tagging(kind.TaskKind[TaggingExample, TaggedFeature, TaggingPrediction, Tensor]):
    name = KIND_OF_SHAPE["token"]
    shape = "token"
    has_classes = True
    text_parts = (WORDS,)
    text_columns = ((WORDS, "tokens", "text"),)
    label_columns = (TAGS, "labels", "ner_tags", "chunk_tags", "pos_tags", "ner", "label")
    suffixes = kind.TABLE_SUFFIXES | {".conll", ".train", ".testa", ".testb"}

    def own_tasks(self) -> tuple[kind.Task, ...]:
        return (kind.Task(self.name, "labelling of words", self, METRICS, files=_FILES),)

    def read_table(self, path: Path, encoding: str, task: kind.Task) -> LabelledTable:
        if read_suffix(path) in kind.TABLE_SUFFIXES - {".txt"}:
            return super().read_table(path, encoding, task)
        return read_conll(path, encoding)

    def is_plain_text(self, lines: Sequence[str]) -> bool:
        return not is_conll(lines)

    def convert(self, reader: kind.RowReader, row: Row) -> TaggingExample:
        words = reader.read_list(row, reader.columns.texts[0])
        if not words or not all(word.strip() for word in words):
            raise kind.RowError("holds an empty word" if words else "holds no words")
        if not reader.columns.label:
            return TaggingExample(reader.read_id(row), words, ())
        tags = reader.read_list(row, reader.columns.label)
        if len(tags) != len(words):
            raise kind.RowError(f"has {len(tags)} tags for {len(words)} words")
        # Spans or classes, as in the training file, whose labels are given when another is read.
        spelled = to_iob2(tags) if has_spans(reader.listed_labels) else tags
        if spelled != tags:
            reader.mended["sentences whose tags were respelled as IOB2"] += 1
        return TaggingExample(reader.read_id(row), words, tuple(map(reader.check_label, spelled)))

    def find_labels(self, split: kind.Split[TaggingExample]) -> tuple[str, ...]:
        return complete_tags(tag for example in split.examples for tag in example.tags)

    def content(self, example: TaggingExample) -> str:
        return "\0".join(example.words)

    def parse(self, given: kind.TaskInput, tokenizer: Tokenizer | None, num_texts: int) -> TaggingExample:
        words: object = given
        if isinstance(given, Mapping):
            (words,) = kind.pick_parts(given, [(WORDS,), ("tokens",)])
        return TaggingExample("", kind.check_parts(words.split() if isinstance(words, str) else words), ())

    def encode(self, encoder: FeatureEncoder, examples: Examples, *, is_labelled: bool) -> EncodedSplit[TaggedFeature]:
        tokenizer, class_ids, room = encoder.tokenizer, encoder.class_ids, encoder.sequence_length - 2
        words = [word for example in examples for word in example.words]
        if tokenizer.is_symbols:  # every word is a symbol
            tokens = iter([tokenizer.encode_symbols([word]) for word in words])
        else:
            tokens = iter(tokenizer.encode_many(words))
        rows, truncated = [], []
        for index, example in enumerate(examples):
            # A word of nothing but control characters has no tokens, yet its tag must have a position.
            unknown = np.array([tokenizer.special.unk])
            by_word = [ids if len(ids) else unknown for ids in (next(tokens) for _ in example.words)]
            stretches = list(split_words([len(ids) for ids in by_word], room))
            if len(stretches) > 1:
                truncated.append(index)
            for start, end in stretches:
                pieces = [ids[:room] for ids in by_word[start:end]]
                ids, segment_ids = encoder.add_special_tokens([np.concatenate(pieces)])
                starts = np.cumsum([1, *map(len, pieces[:-1])])
                targets = features.NO_TARGETS
                if is_labelled:
                    targets = np.full(len(ids), IGNORED, dtype=np.int64)
                    targets[starts] = [class_ids[tag] for tag in example.tags[start:end]]
                rows.append(TaggedFeature(index, ids, segment_ids, targets, starts))
        return EncodedSplit(rows, truncated)

    def count_targets(self, batch: TaskBatch) -> int:
        """Tagged words."""
        return int((batch.targets != IGNORED).sum())

    def loss(self, logits: Tensor, batch: TaskBatch, head: HeadConfig) -> Tensor:
        flat = logits.float().flatten(0, 1)  # (B * T, L)
        return F.cross_entropy(flat, batch.targets.flatten(), ignore_index=IGNORED, reduction="sum")

    def distillation_loss(
        self, logits: Tensor, teacher_logits: Tensor, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        is_tagged = batch.targets != IGNORED  # (B, T)
        return features.soft_cross_entropy(logits[is_tagged], teacher_logits[is_tagged], temperature)

    def decode(self, outputs: kind.NetworkOutputs[TaggingExample, TaggedFeature]) -> list[TaggingPrediction]:
        tags: list[list[str]] = [[] for _ in outputs.examples]
        tag_probs: list[list[float]] = [[] for _ in outputs.examples]
        for feature, row in zip(outputs.features, outputs.rows, strict=True):
            # The features of a long sentence follow each other, so its words come in order.
            probs = features.softmax(row.logits[feature.word_starts])  # (words, L)
            tags[feature.example] += [outputs.head.labels[number] for number in probs.argmax(axis=1)]
            tag_probs[feature.example] += probs.max(axis=1).tolist()
        return [TaggingPrediction(tuple(t), tuple(p)) for t, p in zip(tags, tag_probs, strict=True)]

    def score(
        self, task: kind.Task, examples: Examples, predictions: Predictions, labels: kind.Labels
    ) -> kind.SplitScores:
        return score_tags([example.tags for example in examples], [prediction.tags for prediction in predictions])

    def to_row(self, example: TaggingExample, prediction: TaggingPrediction) -> PredictionRow:
        probs = tuple(map(kind.round_number, prediction.probabilities))
        row = PredictionRow(id=example.id, words=example.words, prediction=prediction.tags, probabilities=probs)
        return row.with_truth(example.tags) if example.tags else row

    def baselines(self, train: Examples) -> Iterator[kind.BaselineMethod[TaggingExample, TaggingPrediction]]:
        by_word: dict[str, list[str]] = {}
        for example in train:
            for word, tag in zip(example.words, example.tags, strict=True):
                by_word.setdefault(word, []).append(tag)
        usual = baselines.find_commonest([tag for example in train for tag in example.tags])
        tag_of = {word: baselines.find_commonest(tags) for word, tags in by_word.items()}

        def look_up(examples: Examples) -> list[TaggingPrediction]:
            words = [example.words for example in examples]
            return [TaggingPrediction(tuple(tag_of.get(word, usual) for word in sentence), ()) for sentence in words]

        yield kind.BaselineMethod(baselines.COMMONEST, "each word's commonest tag", len(train), look_up)
        size = sum(len(example.words) for example in train)
        some = baselines.take_evenly(train, size, baselines.MOST_FITTED_WORDS)
        tagger = baselines.WindowTagger().fit([example.words for example in some], [example.tags for example in some])
        yield kind.BaselineMethod(
            *(baselines.LINEAR, "a linear SVM over the word, its spelling and two words on either side", len(some)),
            lambda examples: [
                TaggingPrediction(tags, ()) for tags in tagger.predict([example.words for example in examples])
            ],
        )


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


def read_conll(path: Path, encoding: str, column: int = -1) -> LabelledTable:
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
    return LabelledTable(path, (WORDS, TAGS) if has_tags else (WORDS,), rows)


def is_conll(lines: Sequence[str]) -> bool:
    """Whether lines are columns, not sentences: equally many in each, and blank lines between or span tags last."""
    fields = [_BLANKS.split(line.strip(" \t\r")) for line in lines if line.strip()]
    # Sentences of equally many words look like columns, so something else must say it too.
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
        prefix, entity = match.groups()
        result.append(f"{'B' if prefix in 'BSU' or entity != before else 'I'}-{entity}")
        before = "" if prefix in "ESLU" else entity
    return tuple(result)


def complete_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Sorted; for spans both B- and I- of every type, since the other may only occur in another split."""
    known = set(tags)
    if has_spans(known):
        entities = {tag[2:] for tag in known if tag != "O"}
        known = {"O", *(f"{prefix}-{entity}" for prefix in "BI" for entity in entities)}
    return tuple(sorted(known))


def score_tags(truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> kind.SplitScores:
    """F1, precision and recall of whole entities, the accuracy of single tags, and the report of each type of entity.

    Entities are counted as conlleval does, so that IOB1, IOB2 and IOBES may even be mixed.
    """
    true, proposed = _find_entities(truth), _find_entities(predicted)
    total = score_counts("", len(true & proposed), len(proposed), len(true))
    pairs = [pair for ours, theirs in zip(predicted, truth, strict=True) for pair in zip(ours, theirs, strict=True)]
    accuracy = sum(ours == theirs for ours, theirs in pairs) / len(pairs) if pairs else 0.0
    scores = {"f1": total.f1, "precision": total.precision, "recall": total.recall, "accuracy": accuracy}
    hits, counts, support = (Counter(name for name, _, _ in entities) for entities in (true & proposed, proposed, true))
    classes = [score_counts(name, hits[name], counts[name], support[name]) for name in sorted(counts | support)]
    return kind.SplitScores(scores, ClassReport(classes=tuple(classes)))


def _find_entities(sentences: Sequence[Sequence[str]]) -> set[tuple[str, int, int]]:
    """Type, first and last word of each entity, words counted over all sentences."""
    from seqeval.metrics.sequence_labeling import get_entities

    def spell(tag: str) -> str:
        # As seqeval takes it: its letters for BILOU's, and a tag without a letter is an entity of one word.
        if tag in ("O", "B", "I", "E", "S") or tag.startswith(("B-", "I-", "E-", "S-")):
            return tag
        if tag.startswith(("L-", "U-")):
            return {"L": "E", "U": "S"}[tag[0]] + tag[1:]
        return f"S-{tag}"

    return set(get_entities([[spell(tag) for tag in tags] for tags in sentences]))
