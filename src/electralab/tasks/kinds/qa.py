"""Question answering: a question about a context, answered with a slice of the context, or not at all.

    path -> LabelledTable of questions -> QAExample -> QuestionWindow...: [CLS] question [SEP] part of the context [SEP]
    start and end logits of the windows -> AnswerPrediction -> exact match, F1

A long context is cut into windows that overlap. The score of a span is its start logit plus its end logit, and the best
over all windows wins. A span counts in the window where its first token has the most context. The no-answer score grows
with the belief that there is no answer:

    with an answerability head   -max over windows of its logit (released ELECTRA, whose logit has the other sign)
    without                      min over windows of the score of [CLS] .. [CLS], minus the best span's (BERT)

so a question counts as answerable if one window says so, and 0 is where both are believed alike.

SQuAD's definition of the scores is an English one: words are what white space separates, `a`, `an` and `the` do not
count, and of punctuation only ASCII's is dropped. It is kept for every language, so that scores compare with published
ones; where words are written without spaces, F1 is hardly more than exact match.
"""

import json
import math
import re
import string
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress, groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch.nn.functional as F
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from electralab.artifacts import write_file
from electralab.errors import InputError, UsageError
from electralab.model.task_model import KIND_OF_SHAPE, HeadConfig, SpanLogits
from electralab.records.tuned import AnswerSpan, PredictionRow, Scores
from electralab.tasks import features, kind
from electralab.tasks.features import EncodedSplit, FeatureEncoder, Ids, SpanConfig, TaskBatch
from electralab.tasks.table import BadRow, Columns, LabelledTable, Row, parse_json, read_suffix, read_table, read_text
from electralab.tokens.tokenizer import Tokenizer

METRICS = ("f1", "exact_match")
CONTEXT, START, IMPOSSIBLE = "context", "answer_start", "is_impossible"
# The released code's weight of the classifier that says whether a question can be answered.
ANSWERABLE_WEIGHT = 0.5
# In a softened loss, where no answer can lie; finite, so that 0 times it is 0.
_IMPOSSIBLE_LOGIT = -1e4
_SPECIAL_TOKENS = 3
_SHORTEST_ROW = 16
_ALTERNATIVES = 4
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Answer:
    """A slice of the context: context[start : start + len(text)] == text."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class QAExample(kind.Example):
    """A question about a context; no answers and not impossible where the answer is not known."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    is_impossible: bool


@dataclass(frozen=True, slots=True)
class QuestionWindow(features.Feature):
    """A part of the context as a row, and the way back from its tokens to the characters of the context.

    Its targets are (3,): the first and last token of the answer in this row, and whether it can be answered from it.
    """

    context_start: int
    """The position in the row of the first token of the context."""
    first_token: int
    """Which of the context's tokens that is."""
    offsets: Ids  # (n, 2)
    has_most_context: NDArray[np.bool_]  # (n,)
    """Of the windows that hold a token, the one that shows most on its shorter side; the first of equals."""
    has_answer: bool
    """Whether the question has one in its context, be it in this window or not."""
    is_aligned: bool
    """False where the answer begins or ends inside a token, so that its tokens say more than it does."""
    is_question_cut: bool


@dataclass(frozen=True, slots=True)
class Span:
    """context[start:end] == text"""

    text: str
    start: int
    end: int
    score: float


@dataclass(frozen=True, slots=True)
class AnswerPrediction(kind.Prediction):
    text: str
    """Empty where it is more likely that there is no answer."""
    best: Span
    """The best span, whatever the no-answer score says; "" only where the context has no token to answer with."""
    alternatives: tuple[Span, ...]
    """The next best, other slices."""
    no_answer_score: float
    threshold: float
    """The no-answer score above which nothing is said; infinite without a head for doubt."""


Examples = Sequence[QAExample]
Predictions = Sequence[AnswerPrediction]


class QuestionAnswering(kind.TaskKind[QAExample, QuestionWindow, AnswerPrediction, SpanLogits]):
    """The answer is a slice of the context.

    >>> KIND.content(QAExample("1", "Who sat?", "The cat sat.", (), is_impossible=False))
    'The cat sat.'
    """

    name = KIND_OF_SHAPE["span"]
    shape = "span"
    text_parts = ("question", CONTEXT)
    text_columns = (("question", "query"), (CONTEXT, "passage", "paragraph", "document", "text"))
    label_columns = ("answers", "answer", "label")
    answer_columns = (IMPOSSIBLE,)

    def own_tasks(self) -> tuple[kind.Task, ...]:
        task = kind.Task(self.name, "question answering", self, METRICS, num_texts=2, epochs=2, sequence_length=512)
        return (replace(task, has_impossible=True, files=kind.OWN_FILES),)

    def read_table(self, path: Path, encoding: str, task: kind.Task) -> LabelledTable:
        """SQuAD's own JSON, a row for each question, numbered through the file; or any table of questions."""
        text = read_text(path, encoding) if read_suffix(path) == ".json" else ""
        if '"paragraphs"' not in text:
            return read_table(path, encoding)
        rows: list[Row | BadRow] = []
        columns: dict[str, None] = {}
        try:
            for article in parse_json(path, text)["data"]:
                for paragraph in article["paragraphs"]:
                    for number, entry in enumerate(paragraph["qas"], start=len(rows) + 1):
                        if isinstance(entry, dict):
                            fields = {**entry, CONTEXT: paragraph[CONTEXT]}
                            rows.append(Row(number, fields))
                            columns |= dict.fromkeys(fields)
                        else:
                            rows.append(BadRow(number, f"is a JSON {type(entry).__name__}, not a question"))
        except (KeyError, TypeError) as error:
            where = f"{path}: not laid out as SQuAD after question {len(rows)}"
            raise InputError(f"{where} ({error}); correct the file") from None
        return LabelledTable(path, tuple(columns), rows)

    def is_plain_text(self, lines: Sequence[str]) -> bool:
        return False

    def has_labels(self, table: LabelledTable, columns: Columns, labels: kind.Labels = ()) -> bool:
        """A question that cannot be answered is known to have no answer."""
        return any(row.fields.get(columns.label) or _is_impossible(row) for row in table.good_rows)

    def convert(self, reader: kind.RowReader, row: Row) -> QAExample:
        column, task = reader.columns.label, reader.task
        question, context = reader.read_texts(row)
        # [] where the row says that there is no answer, None where it says nothing.
        given = row.fields.get(column) if column else None
        start = row.fields.get(START)
        if given == "" or (isinstance(given, dict) and given.get("text") == []):
            given = []
        elif isinstance(given, str) and start not in (None, ""):
            given = {"text": given, START: int(str(start)) if str(start).isdecimal() else start}
        # A list of no answers says so by itself; without the flag there is nothing else it could mean.
        has_flag = row.fields.get(IMPOSSIBLE) not in (None, "")
        is_impossible = _is_impossible(row) or (bool(column) and given == [] and not has_flag)
        if is_impossible and not task.has_impossible:
            raise kind.RowError(f"has no answer in its context, which {task.display} does not know; use --task squad2")
        answers, num_searched = read_answers([] if is_impossible or given is None else given, context)
        if column and not answers and not is_impossible:
            raise kind.RowError("has no answer")
        if num_searched:
            reader.mended["answers looked for in their context, since their place was missing or wrong"] += num_searched
        name = reader.read_id(row)
        if name in reader.ids:  # predictions of questions are found by their id
            raise kind.RowError(f"has the id {kind.shorten(name)} of a question before it")
        reader.ids.add(name)
        return QAExample(name, question, context, answers, is_impossible)

    def content(self, example: QAExample) -> str:
        """The context, which many questions share."""
        return example.context

    def parse(self, given: kind.TaskInput, tokenizer: Tokenizer | None, num_texts: int) -> QAExample:
        if isinstance(given, str):
            raise InputError("a question needs its context; give a pair (question, context)")
        parts = kind.check_parts(kind.pick_parts(given, [self.text_parts]) if isinstance(given, Mapping) else given)
        if len(parts) != 2:
            count = f"{len(parts)} text{'s' * (len(parts) != 1)}"
            raise InputError(f"has {count}; give a pair (question, context)")
        return QAExample("", *parts, answers=(), is_impossible=False)

    def encode(self, encoder: FeatureEncoder, examples: Examples, *, is_labelled: bool) -> EncodedSplit[QuestionWindow]:
        by_question = [
            split_context(example, index, encoder, is_labelled=is_labelled) for index, example in enumerate(examples)
        ]
        firsts = [windows[0] for windows in by_question]
        counts = {"questions longer than the settings allow, and cut": sum(first.is_question_cut for first in firsts)}
        if is_labelled:
            is_lost = [
                windows[0].has_answer and not any(window.targets[2] for window in windows) for windows in by_question
            ]
            counts |= {
                "answers that no row holds whole, and cannot be learned from": sum(is_lost),
                "answers that begin or end inside a token": sum(not first.is_aligned for first in firsts),
            }
        truncated = [index for index, windows in enumerate(by_question) if len(windows) > 1]
        notes = [f"{what}: {count:,}" for what, count in counts.items() if count]
        return EncodedSplit([window for windows in by_question for window in windows], truncated, notes)

    def fit_head(self, head: HeadConfig, examples: Examples) -> HeadConfig:
        return head.model_copy(update={"has_answerability": any(example.is_impossible for example in examples)})

    def loss(self, logits: SpanLogits, batch: TaskBatch, head: HeadConfig) -> Tensor:
        first, last, is_answerable = batch.targets.unbind(1)
        is_hidden = _hide_question(batch)
        start, end = (side.float().masked_fill(is_hidden, float("-inf")) for side in (logits.start, logits.end))
        loss = (F.cross_entropy(start, first, reduction="sum") + F.cross_entropy(end, last, reduction="sum")) / 2
        if logits.answerable is None:
            return loss
        doubt = F.binary_cross_entropy_with_logits(logits.answerable.float(), is_answerable.float(), reduction="sum")
        return loss + ANSWERABLE_WEIGHT * doubt

    def distillation_loss(
        self, logits: SpanLogits, teacher_logits: SpanLogits, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        is_hidden = _hide_question(batch)
        student_start, student_end, teacher_start, teacher_end = (
            side.masked_fill(is_hidden, _IMPOSSIBLE_LOGIT)
            for side in (logits.start, logits.end, teacher_logits.start, teacher_logits.end)
        )
        loss = features.soft_cross_entropy(student_start, teacher_start, temperature)
        loss = (loss + features.soft_cross_entropy(student_end, teacher_end, temperature)) / 2
        if logits.answerable is None or teacher_logits.answerable is None:
            return loss
        doubt = features.soft_binary_cross_entropy(logits.answerable, teacher_logits.answerable, temperature)
        return loss + ANSWERABLE_WEIGHT * doubt

    def decode(self, outputs: kind.NetworkOutputs[QAExample, QuestionWindow]) -> list[AnswerPrediction]:
        threshold = outputs.threshold if outputs.head.has_answerability else math.inf
        rows = zip(outputs.features, outputs.rows, strict=True)
        predictions = []
        # The windows of a question follow each other.
        for index, group in groupby(rows, key=lambda row: row[0].example):
            windows, logits = zip(*group, strict=True)
            distinct: dict[tuple[int, int], Span] = {}
            for span in find_spans(outputs.examples[index].context, windows, logits, outputs.spans):
                if span.text:
                    distinct.setdefault((span.start, span.end), span)
            best, *others = list(distinct.values())[: 1 + _ALTERNATIVES] or [Span("", 0, 0, 0.0)]
            if math.isnan(logits[0].answerable):
                doubt = min(float(row.logits[0, 0]) + float(row.logits[0, 1]) for row in logits) - best.score
            else:
                doubt = -max(row.answerable for row in logits)
            text = "" if doubt > threshold else best.text
            predictions.append(AnswerPrediction(text, best, tuple(others), doubt, threshold))
        return predictions

    def score(
        self, task: kind.Task, examples: Examples, predictions: Predictions, labels: kind.Labels
    ) -> kind.SplitScores:
        texts, threshold = [answer.best.text for answer in predictions], predictions[0].threshold
        if math.isinf(threshold) and not any(example.is_impossible for example in examples):
            return kind.SplitScores(score_squad(examples, texts))
        scores = score_squad(examples, texts, [answer.no_answer_score for answer in predictions], threshold)
        return kind.SplitScores(scores, best_threshold=scores["best_f1_threshold"])

    def to_row(self, example: QAExample, prediction: AnswerPrediction) -> PredictionRow:
        """A context is not repeated: offsets lead into it by its id."""
        best, *alternatives = (
            AnswerSpan(text=span.text, start=span.start, end=span.end, score=kind.round_number(span.score))
            for span in (prediction.best, *prediction.alternatives)
        )
        row = PredictionRow(
            id=example.id,
            question=example.question,
            prediction=prediction.text,
            answer=best,
            no_answer_score=kind.round_number(prediction.no_answer_score),
            alternatives=tuple(alternatives),
        )
        golds = tuple(gold.text for gold in example.answers)
        return row.with_truth(golds) if golds or example.is_impossible else row

    def write_files(self, folder: Path, task: kind.Task, examples: Examples, predictions: Predictions) -> None:
        """What the official script reads: predictions.json {id: best span}, and na_probs.json {id: how doubtful}."""
        answers = {row.id: answer.best.text for row, answer in zip(examples, predictions, strict=True)}
        write_file(folder / "predictions.json", json.dumps(answers))
        if task.has_impossible:
            odds = np.clip([answer.no_answer_score for answer in predictions], -500.0, 500.0)
            doubts = dict(zip(answers, (1.0 / (1.0 + np.exp(-odds))).tolist(), strict=True))
            write_file(folder / "na_probs.json", json.dumps(doubts))


KIND = QuestionAnswering()


def _is_impossible(row: Row) -> bool:
    return str(row.fields.get(IMPOSSIBLE, "")).strip().lower() in ("true", "1", "yes")


def _hide_question(batch: TaskBatch) -> Tensor:
    """(B, T) An answer lies in the context, or on [CLS] where there is none: the question itself is no choice."""
    is_hidden = batch.is_pad | (batch.segment_ids == 0)
    is_hidden[:, 0] = False
    return is_hidden


def read_answers(given: Any, context: str) -> tuple[tuple[Answer, ...], int]:
    """The answers, and how many were looked for because the row does not say, or wrongly says, where they begin.

    Given as "Paris", [{"text": "Paris", "answer_start": 3}] or {"text": ["Paris"], "answer_start": [3]}.
    """
    if isinstance(given, str):
        given = [given] if given else []
    if isinstance(given, dict) and isinstance(texts := given.get("text"), list):
        starts = given.get(START) or [None] * len(texts)
        if not isinstance(starts, list) or len(starts) != len(texts):
            raise kind.RowError("answers have texts and starts of different numbers")
        given = [{"text": text, START: start} for text, start in zip(texts, starts, strict=True)]
    answers: list[Answer] = []
    searched = 0
    for item in given if isinstance(given, list) else [given]:
        entry = item if isinstance(item, dict) else {"text": item}
        text, start = entry.get("text"), entry.get(START)
        if not isinstance(text, str):
            raise kind.RowError(f"answer {kind.shorten(str(item))} has no text")
        if not text.strip():
            raise kind.RowError("answer is empty")
        if start is not None and (isinstance(start, bool) or not isinstance(start, int)):
            raise kind.RowError(f"answer begins at {kind.shorten(str(start))}, which is no position")
        if start is None:
            nearest = context.find(text)
        elif start >= 0 and context.startswith(text, start):
            nearest = start
        else:
            # Files that were re-encoded or cleaned count characters otherwise: the nearest place of the text is meant.
            before = context.rfind(text, 0, max(0, start) + len(text))
            places = [index for index in (before, context.find(text, max(0, start))) if index >= 0]
            nearest = min(places, key=lambda index: abs(index - start), default=-1)
        if nearest < 0:
            raise kind.RowError(f"answer {kind.shorten(text)} does not occur in its context")
        searched += nearest != start
        answers.append(Answer(text, nearest))
    return tuple(answers), searched


# The tokens of a context are found once, however many questions follow on it. They follow each other in every known
# file; a shuffled one only costs time.
@lru_cache(maxsize=64)
def _encode_context(tokenizer: Tokenizer, context: str) -> tuple[Ids, Ids]:
    """Ids (n,) and offsets (n, 2)."""
    encoded = tokenizer.encode_literal(context)
    return encoded.ids, np.array(encoded.offsets, dtype=np.int64).reshape(-1, 2)


def split_context(
    example: QAExample, index: int, encoder: FeatureEncoder, *, is_labelled: bool
) -> list[QuestionWindow]:
    """At least one window; its targets point at [CLS] where the answer is not wholly inside, or there is none."""
    tokenizer, length, config = encoder.tokenizer, encoder.sequence_length, encoder.spans
    if length < _SHORTEST_ROW:
        raise UsageError(
            f"sequence_length: a row of {length} tokens has no room for a question and a context; "
            f"give {_SHORTEST_ROW} or more"
        )
    special = tokenizer.special
    # A long question must leave room for a context.
    longest = min(config.max_question, (length - _SPECIAL_TOKENS) // 2)
    question_ids = tokenizer.encode_literal(example.question).ids
    head = np.concatenate([[special.cls], question_ids[:longest], [special.sep]])
    context_ids, offsets = _encode_context(tokenizer, example.context)
    room = length - 1 - len(head)
    stride = min(config.stride, room // 2)
    starts = range(0, max(len(context_ids) - room, 0) + stride, stride)
    bounds = [(start, min(start + room, len(context_ids))) for start in starts]
    # The tokens that cover the first answer; none if there is no answer or the tokenizer drops all of it.
    answer_tokens, is_aligned = np.zeros(0, dtype=np.int64), True
    if is_labelled and example.answers and not example.is_impossible:
        answer = example.answers[0]
        end = answer.start + len(answer.text)
        answer_tokens = np.flatnonzero((offsets[:, 1] > answer.start) & (offsets[:, 0] < end))
        if answer_tokens.size:
            covered = example.context[offsets[answer_tokens[0], 0] : offsets[answer_tokens[-1], 1]]
            # Some tokenizers count the space before a word to its token.
            is_aligned = covered.strip() == answer.text.strip()
    # Which window shows most of each token's context, as in BERT's run_squad: the shorter side decides, and among
    # equals the longer window by a hundredth a token.
    most, best = np.full(bounds[-1][1], -1.0), np.zeros(bounds[-1][1], dtype=np.int64)
    for window, (start, end) in enumerate(bounds):
        position = np.arange(end - start)
        shown = np.minimum(position, position[::-1]) + 0.01 * (end - start)
        is_more = shown > most[start:end]
        most[start:end][is_more] = shown[is_more]
        best[start:end][is_more] = window
    windows = []
    for window, (start, end) in enumerate(bounds):
        ids = np.concatenate([head, context_ids[start:end], [special.sep]])
        segment_ids = np.zeros(len(ids), dtype=np.int64)
        segment_ids[len(head) :] = 1
        targets = np.zeros(3, dtype=np.int64) if is_labelled else features.NO_TARGETS
        if answer_tokens.size and answer_tokens[0] >= start and answer_tokens[-1] < end:
            shift = len(head) - start
            targets = np.array([answer_tokens[0] + shift, answer_tokens[-1] + shift, 1], dtype=np.int64)
        windows.append(
            QuestionWindow(
                *(index, ids, segment_ids, targets),
                context_start=len(head),
                first_token=start,
                offsets=offsets[start:end],
                has_most_context=best[start:end] == window,
                has_answer=bool(example.answers),
                is_aligned=is_aligned,
                is_question_cut=len(question_ids) > longest,
            )
        )
    return windows


def find_spans(
    context: str, windows: Sequence[QuestionWindow], outputs: Sequence[features.RowLogits], config: SpanConfig
) -> list[Span]:
    """The best of each window, best first; of equals the one that stands first. Logits may be padded at the end."""
    spans: list[Span] = []
    for window, output in zip(windows, outputs, strict=True):
        here = slice(window.context_start, window.context_start + len(window.offsets))
        starts, ends = output.logits[here, 0], output.logits[here, 1]
        first_tokens = np.flatnonzero(window.has_most_context)
        if not first_tokens.size:
            continue
        # A row of scores for each first token: one for each length that an answer may have.
        beyond = np.full(config.max_answer - 1, -np.inf)
        last = sliding_window_view(np.concatenate([ends.astype(np.float64), beyond]), config.max_answer)  # (n, A)
        scores = (starts[first_tokens, None] + last[first_tokens]).ravel()
        # Only the best few of thousands are wanted, and their order comes later.
        kept = np.argpartition(-scores, min(config.best, scores.size) - 1)[: config.best]
        kept = kept[scores[kept] > -np.inf]
        first, more = first_tokens[kept // config.max_answer], kept % config.max_answer
        begins, stops = window.offsets[first, 0].tolist(), window.offsets[first + more, 1].tolist()
        for begin, stop, score in zip(begins, stops, scores[kept].tolist(), strict=True):
            # Some tokenizers count the space before a word to its token.
            text = context[begin:stop]
            begin += len(text) - len(text.lstrip())
            text = text.strip()
            spans.append(Span(text, begin, begin + len(text), score))
    return sorted(spans, key=lambda span: (-span.score, span.start, span.end))


def normalise_answer(text: str) -> str:
    """Lower case, then without punctuation, then without articles, then one space between words, in this order.

    >>> normalise_answer("The  Cat, a pet!")
    'cat pet'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_WITHOUT_PUNCTUATION)).split())


def token_f1(gold: str, answer: str, *, has_unanswerable: bool) -> float:
    """Of the words the two share; where one has none, version 2.0 asks whether both have none, and 1.1 gives 0."""
    ours, theirs = normalise_answer(answer).split(), normalise_answer(gold).split()
    if has_unanswerable and not (ours and theirs):
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def score_squad(
    questions: Sequence[QAExample],
    answers: Sequence[str],
    no_answer_scores: Sequence[float] | None = None,
    threshold: float = 0.0,
) -> Scores:
    """By the rules of version 2.0 if a question is impossible or no-answer scores are given, else by those of 1.1.

    An answer whose no-answer score is above the threshold counts as "". The best thresholds are searched on these very
    questions, as the official script does: a score at them is an upper bound, not a held-out one.
    """

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values) if values else 0.0

    has_unanswerable = no_answer_scores is not None or any(question.is_impossible for question in questions)
    raw_exact, raw_f1 = list[float](), list[float]()
    for question, ours in zip(questions, answers, strict=True):
        # All that count as right, or "" if none does; version 2.0 drops those of which normalising leaves nothing.
        texts = [answer.text for answer in question.answers]
        right = [text for text in texts if normalise_answer(text) or not has_unanswerable] or [""]
        raw_exact.append(float(normalise_answer(ours) in map(normalise_answer, right)))
        raw_f1.append(max(token_f1(gold, ours, has_unanswerable=has_unanswerable) for gold in right))
    if not has_unanswerable:
        return {"exact_match": mean(raw_exact), "f1": mean(raw_f1)}
    has_answer = [bool(question.answers) for question in questions]
    # To say nothing is right exactly where there is no answer.
    is_silent = [score > threshold for score in no_answer_scores or ()] or [False] * len(answers)
    exact, f1 = (
        [float(not has) if silent else score for score, silent, has in zip(scores, is_silent, has_answer, strict=True)]
        for scores in (raw_exact, raw_f1)
    )
    totals = {"exact_match": mean(exact), "f1": mean(f1)}
    for part, is_in in (("has_answer", has_answer), ("no_answer", [not has for has in has_answer])):
        if any(is_in):
            totals[f"{part}_exact_match"] = mean(list(compress(exact, is_in)))
            totals[f"{part}_f1"] = mean(list(compress(f1, is_in)))
    if no_answer_scores is not None and questions:
        for name, key, scores in (("exact", "best_exact_match", raw_exact), ("f1", "best_f1", raw_f1)):
            best, at = find_best_threshold(answers, scores, no_answer_scores, has_answer)
            totals |= {key: best, f"best_{name}_threshold": at}
    return totals


def find_best_threshold(
    answers: Sequence[str], scores: Sequence[float], no_answer_scores: Sequence[float], has_answer: Sequence[bool]
) -> tuple[float, float]:
    """The best score over all thresholds, and the threshold: say nothing where the no-answer score is above it.

    It begins with silence everywhere and lets the answers speak one by one, the surest first. As in the official script
    equal no-answer scores are let in one after the other, an answer to an impossible question costs a point, "" costs
    none, and the lowest of equally good thresholds wins. Silence everywhere is 0 there, where scores are probabilities;
    here it is below all scores.
    """
    order = np.argsort(np.asarray(no_answer_scores), kind="stable")
    gains = [scores[i] if has_answer[i] else -float(bool(answers[i])) for i in order]
    totals = np.cumsum([float(len(scores) - sum(has_answer)), *gains])
    best = int(np.argmax(totals))
    at = float(no_answer_scores[order[best - 1]]) if best else min(0.0, float(min(no_answer_scores)) - 1.0)
    return float(totals[best]) / len(scores), at
