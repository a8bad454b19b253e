"""Question answering: a question about a context, answered with a slice of the context, or not at all.

    QAExample -> QuestionWindow...: [CLS] question [SEP] part of the context [SEP]
    start and end logits of the windows -> AnswerPrediction -> exact match, F1

A long context is cut into windows that overlap. The score of a span is its start logit plus its end logit, and the best
over all windows wins. A span counts in the window where its first token has the most context. The no-answer score grows
with the belief that there is no answer:

    with an answerability head   -max over windows of its logit (released ELECTRA, whose logit has the other sign)
    without                      min over windows of the score of [CLS] .. [CLS], minus the best span's (BERT)

so a question counts as answerable if one window says so, and 0 is where both are believed alike.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from pathlib import Path

import numpy as np
import torch.nn.functional as F
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from torch import Tensor

from electralab.errors import InputError, UsageError
from electralab.model.task_model import KIND_OF_SHAPE, HeadConfig, SpanLogits
from electralab.records.tuned import AnswerSpan, PredictionRow
from electralab.tasks import features, kind, squad
from electralab.tasks.features import EncodedSplit, FeatureEncoder, Ids, SpanConfig, TaskBatch
from electralab.tasks.squad import QAExample
from electralab.tasks.table import Columns, LabelledTable, Row
from electralab.tokens.tokenizer import Tokenizer

METRICS = ("f1", "exact_match")
# The released code's weight of the classifier that says whether a question can be answered.
ANSWERABLE_WEIGHT = 0.5
# In a softened loss, where no answer can lie; finite, so that 0 times it is 0.
_IMPOSSIBLE_LOGIT = -1e4
_SPECIAL_TOKENS = 3
_SHORTEST_ROW = 16
_ALTERNATIVES = 4


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
    text_parts = ("question", "context")
    label_columns = ("answers", "answer", "label")
    answer_columns = (squad.IMPOSSIBLE,)

    def own_tasks(self) -> tuple[kind.Task, ...]:
        task = kind.Task(self.name, "question answering", self, METRICS, num_texts=2, epochs=2, sequence_length=512)
        return (replace(task, has_impossible=True, files=kind.OWN_FILES),)

    def read_table(self, path: Path, encoding: str, task: kind.Task) -> LabelledTable:
        return squad.read_questions(path, encoding)

    def is_plain_text(self, lines: Sequence[str]) -> bool:
        return False

    def name_texts(self, table: LabelledTable, num_texts: int, label: str) -> tuple[str, ...]:
        question = table.find_column(("question", "query"), (label,))
        context = table.find_column(("context", "passage", "paragraph", "document", "text"), (label,))
        return (question, context) if question and context else ()

    def has_labels(self, table: LabelledTable, columns: Columns) -> bool:
        """A question that cannot be answered is known to have no answer."""
        return any(row.fields.get(columns.label) or _is_impossible(row) for row in table.good_rows)

    def converter(self, reader: kind.RowReader) -> Callable[[Row], QAExample]:
        column, display = reader.columns.label, reader.task.display
        ids: set[str] = set()

        def convert(row: Row) -> QAExample:
            question, context = reader.read_texts(row)
            # [] where the row says that there is no answer, None where it says nothing.
            given = row.fields.get(column) if column else None
            start = row.fields.get(squad.START)
            if given == "" or (isinstance(given, dict) and given.get("text") == []):
                given = []
            elif isinstance(given, str) and start not in (None, ""):
                given = {"text": given, squad.START: int(str(start)) if str(start).isdecimal() else start}
            # A list of no answers says so by itself; without the flag there is nothing else it could mean.
            has_flag = row.fields.get(squad.IMPOSSIBLE) not in (None, "")
            is_impossible = _is_impossible(row) or (bool(column) and given == [] and not has_flag)
            if is_impossible and not reader.task.has_impossible:
                raise kind.RowError(f"has no answer in its context, which {display} does not know; use --task squad2")
            answers, num_searched = squad.read_answers([] if is_impossible or given is None else given, context)
            if column and not answers and not is_impossible:
                raise kind.RowError("has no answer")
            if num_searched:
                what = "answers looked for in their context, since their place was missing or wrong"
                reader.mended[what] += num_searched
            name = reader.read_id(row)
            if name in ids:  # predictions of questions are found by their id
                raise kind.RowError(f"has the id {kind.shorten(name)} of a question before it")
            ids.add(name)
            return QAExample(name, question, context, answers, is_impossible)

        return convert

    def content(self, example: QAExample) -> str:
        """The context, which many questions share."""
        return example.context

    def parse(self, given: kind.TaskInput, tokenizer: Tokenizer, num_texts: int) -> QAExample:
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
        start = logits.start.float().masked_fill(is_hidden, float("-inf"))
        end = logits.end.float().masked_fill(is_hidden, float("-inf"))
        loss = (F.cross_entropy(start, first, reduction="sum") + F.cross_entropy(end, last, reduction="sum")) / 2
        if logits.answerable is None:
            return loss
        doubt = F.binary_cross_entropy_with_logits(logits.answerable.float(), is_answerable.float(), reduction="sum")
        return loss + ANSWERABLE_WEIGHT * doubt

    def distillation_loss(
        self, logits: SpanLogits, teacher_logits: SpanLogits, batch: TaskBatch, head: HeadConfig, temperature: float
    ) -> Tensor:
        is_hidden = _hide_question(batch)
        start, end = (
            features.soft_cross_entropy(
                student.masked_fill(is_hidden, _IMPOSSIBLE_LOGIT),
                teacher.masked_fill(is_hidden, _IMPOSSIBLE_LOGIT),
                temperature,
            )
            for student, teacher in ((logits.start, teacher_logits.start), (logits.end, teacher_logits.end))
        )
        loss = (start + end) / 2
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
            return kind.SplitScores(squad.score_squad(examples, texts))
        doubts = [answer.no_answer_score for answer in predictions]
        scores = squad.score_squad(examples, texts, doubts, threshold)
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
        """As the official scoring script takes them: the best spans, and beside them how doubtful each is."""
        doubts = [answer.no_answer_score for answer in predictions] if task.has_impossible else None
        squad.write_squad_files(folder, examples, [answer.best.text for answer in predictions], doubts)


KIND = QuestionAnswering()


def _is_impossible(row: Row) -> bool:
    return str(row.fields.get(squad.IMPOSSIBLE, "")).strip().lower() in ("true", "1", "yes")


def _hide_question(batch: TaskBatch) -> Tensor:
    """(B, T) An answer lies in the context, or on [CLS] where there is none: the question itself is no choice."""
    is_hidden = batch.is_pad | (batch.segment_ids == 0)
    is_hidden[:, 0] = False
    return is_hidden


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
    windows = []
    for (start, end), has_most_context in zip(bounds, _find_most_context(bounds), strict=True):
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
                has_most_context=has_most_context,
                has_answer=bool(example.answers),
                is_aligned=is_aligned,
                is_question_cut=len(question_ids) > longest,
            )
        )
    return windows


def _find_most_context(bounds: Sequence[tuple[int, int]]) -> list[NDArray[np.bool_]]:
    """As BERT's run_squad: the shorter side decides, and among equals the longer window by a hundredth a token."""
    most = np.full(bounds[-1][1], -1.0)  # (n,) of the context
    best = np.zeros(bounds[-1][1], dtype=np.int64)
    for window, (start, end) in enumerate(bounds):
        position = np.arange(end - start)
        shown = np.minimum(position, position[::-1]) + 0.01 * (end - start)
        is_more = shown > most[start:end]
        most[start:end][is_more] = shown[is_more]
        best[start:end][is_more] = window
    return [best[start:end] == window for window, (start, end) in enumerate(bounds)]


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
