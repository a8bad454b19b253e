"""Every task that can be trained or predicted, as data: what it asks, how it is scored, how its files are laid out.

name -> Task
"""

import difflib
import re
from dataclasses import dataclass, field, replace
from typing import Literal

from electralab.errors import UsageError

Kind = Literal["classify", "regress", "label", "qa"]


@dataclass(frozen=True, slots=True)
class Task:
    name: str
    display: str
    kind: Kind
    metrics: tuple[str, ...]
    """The first is the one that ranks seeds."""
    labels: tuple[str, ...] = ()
    """In a fixed order for official tasks; none: those of the training rows, sorted."""
    num_texts: int = 1
    """1 or 2; 0: as the columns say."""
    epochs: float = 3
    sequence_length: int = 128
    doubles_pairs: bool = False
    """Whether each pair is also learnt from with its texts swapped."""
    is_trained: bool = True
    has_impossible: bool = False
    """Whether a question may have no answer in its context."""
    aliases: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    """Names of the subfolder that holds it in the official download."""
    files: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By split, the patterns of its file's name without a compression suffix; an earlier one wins."""
    texts: tuple[str, ...] = ()
    """The columns of its texts where they are fixed."""
    label: str = ""
    """The column of its label where it is fixed."""
    headless: tuple[str, ...] = ()
    """The columns of files that come without a header."""
    of_symbols: bool = False
    """Whether its texts are sequences of symbols, as lists; set for a model that reads them."""
    submissions: dict[str, str] = field(default_factory=dict)
    """By test split, the name of the file that GLUE's server takes."""

    @property
    def submission(self) -> str:
        return self.submissions.get("test", "")


_Files = dict[str, tuple[str, ...]]

_GLUE_FILES: _Files = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
_MRPC_FILES: _Files = {
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "dev": ("dev.tsv",),
    "test": ("test.tsv", "msr_paraphrase_test.txt"),
}
_MNLI_FILES: _Files = {
    "train": ("train.tsv",),
    "dev": ("dev_matched.tsv",),
    "dev-mm": ("dev_mismatched.tsv",),
    "test": ("test_matched.tsv",),
    "test-mm": ("test_mismatched.tsv",),
}
_CONLL_FILES: _Files = {
    "train": ("train.txt", "eng.train", "train.conll", "*train*.txt", "*train*.conll"),
    "dev": ("valid.txt", "dev.txt", "eng.testa", "valid.conll", "dev.conll", "*valid*.txt", "*dev*.txt"),
    "test": ("test.txt", "eng.testb", "test.conll", "*test*.txt"),
}


def _name_files(*words: str) -> tuple[str, ...]:
    """A word alone, or set apart in a longer name: ratings_train.csv, but not latest.csv."""
    return (
        *(f"{word}.*" for word in words),
        *(pattern for word in words for pattern in (f"{word}[-_]*.*", f"*[-_.]{word}.*", f"*[-_.]{word}[-_]*.*")),
    )


_OWN_FILES: _Files = {
    "train": _name_files("train"),
    "dev": _name_files("dev", "valid", "validation", "val"),
    "test": _name_files("test"),
}
_AX_FILES: _Files = {
    "test": ("diagnostic.tsv", "AX.tsv", "diagnostic-full.tsv"),
    "test-labelled": ("diagnostic-full.tsv",),
}
_LABEL_FILES: _Files = {
    split: tuple(dict.fromkeys((*_CONLL_FILES[split], *_OWN_FILES[split]))) for split in ("train", "dev", "test")
}


def _squad_files(version: str) -> _Files:
    return {split: (f"{split}-v{version}.json", f"{split}.json", f"*{split}*.json") for split in ("train", "dev")}


_YES_NO = ("0", "1")
_ENTAILED = ("entailment", "not_entailment")
_ENTAILMENT = ("contradiction", "entailment", "neutral")
_SENTENCES = ("sentence1", "sentence2")
_CLASS_SCORES = ("accuracy", "macro_f1")
_SPAN_SCORES = ("f1", "precision", "recall", "accuracy")
_ANSWER_SCORES = ("f1", "exact_match")


def _glue(task: Task) -> Task:
    """With what GLUE's tasks share unless they say otherwise: a folder and a submission of their name, three files."""
    return replace(
        task,
        folder=task.folder or (task.display,),
        files=task.files or _GLUE_FILES,
        label=task.label or "label",
        submissions=task.submissions or {"test": f"{task.display}.tsv"},
    )


_TABLE = (
    _glue(
        Task(
            *("cola", "CoLA", "classify", ("mcc", "accuracy"), _YES_NO),
            texts=("sentence",),
            headless=("source", "label", "mark", "sentence"),
        )
    ),
    _glue(Task("sst2", "SST-2", "classify", ("accuracy",), _YES_NO, texts=("sentence",), aliases=("sst",))),
    _glue(
        Task(
            *("mrpc", "MRPC", "classify", ("accuracy", "f1"), _YES_NO, 2),
            texts=("#1 String", "#2 String"),
            label="Quality",
            files=_MRPC_FILES,
            doubles_pairs=True,
        )
    ),
    _glue(
        Task(
            *("stsb", "STS-B", "regress", ("spearman", "pearson"), (), 2),
            texts=_SENTENCES,
            label="score",
            epochs=10,
            doubles_pairs=True,
            aliases=("sts", "stsbenchmark"),
        )
    ),
    _glue(
        Task(
            *("qqp", "QQP", "classify", ("accuracy", "f1"), _YES_NO, 2),
            texts=("question1", "question2"),
            label="is_duplicate",
        )
    ),
    _glue(
        Task(
            *("mnli", "MNLI", "classify", ("accuracy",), _ENTAILMENT, 2),
            texts=_SENTENCES,
            label="gold_label",
            files=_MNLI_FILES,
            submissions={"test": "MNLI-m.tsv", "test-mm": "MNLI-mm.tsv"},
            aliases=("multinli",),
        )
    ),
    _glue(Task("qnli", "QNLI", "classify", ("accuracy",), _ENTAILED, 2, texts=("question", "sentence"))),
    _glue(Task("rte", "RTE", "classify", ("accuracy",), _ENTAILED, 2, texts=_SENTENCES, epochs=10)),
    _glue(Task("wnli", "WNLI", "classify", ("accuracy",), _YES_NO, 2, texts=_SENTENCES)),
    _glue(
        Task(
            # Without fixed columns: with labels the file has a Premise and a Hypothesis, without them two sentences.
            *("ax", "AX", "classify", ("mcc", "accuracy"), _ENTAILMENT, 2),
            folder=("diagnostic", "AX"),
            files=_AX_FILES,
            is_trained=False,
            aliases=("diagnostic",),
        )
    ),
    Task(
        *("squad1", "SQuAD 1.1", "qa", _ANSWER_SCORES),
        num_texts=2,
        epochs=2,
        sequence_length=512,
        aliases=("squad", "squad11", "squadv1", "squadv11"),
        folder=("squad1", "v1.1", "squad1.1", "squad-v1.1", "squad"),
        files=_squad_files("1.1"),
    ),
    Task(
        *("squad2", "SQuAD 2.0", "qa", _ANSWER_SCORES),
        num_texts=2,
        epochs=2,
        sequence_length=512,
        has_impossible=True,
        aliases=("squad20", "squadv2", "squadv20"),
        folder=("squad2", "v2.0", "squad2.0", "squad-v2.0", "squad"),
        files=_squad_files("2.0"),
    ),
    Task(
        *("ner", "CoNLL-2003 NER", "label", _SPAN_SCORES),
        aliases=("conll2003", "conll03", "conll2003ner"),
        folder=("conll2003", "ner"),
        files=_CONLL_FILES,
    ),
    Task(
        *("chunking", "CoNLL-2000 chunking", "label", _SPAN_SCORES),
        sequence_length=256,
        aliases=("conll2000", "conll00", "chunk", "conll2000chunking"),
        folder=("conll2000", "chunking"),
        files=_CONLL_FILES,
    ),
    Task("classify", "classification", "classify", _CLASS_SCORES, num_texts=0, files=_OWN_FILES),
    Task("pair", "classification of pairs", "classify", _CLASS_SCORES, num_texts=2, files=_OWN_FILES),
    Task("regress", "regression", "regress", ("spearman", "pearson"), num_texts=0, files=_OWN_FILES),
    Task("label", "labelling of words", "label", _SPAN_SCORES, files=_LABEL_FILES),
    Task(
        *("qa", "question answering", "qa", _ANSWER_SCORES),
        num_texts=2,
        epochs=2,
        sequence_length=512,
        has_impossible=True,
        files=_OWN_FILES,
    ),
)

TASKS: dict[str, Task] = {task.name: task for task in _TABLE}
GLUE: tuple[str, ...] = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


def find_task(name: str) -> Task:
    """Whatever its case and punctuation: SST-2 is sst2, squad-2.0 is squad2."""
    wanted = plain_name(name)
    known = {alias: task for task in _TABLE for alias in (*task.aliases, task.name)}
    if wanted in known:
        return known[wanted]
    close = difflib.get_close_matches(wanted, known, n=1)
    hint = f"did you mean {known[close[0]].name!r}?" if close else f"known are {', '.join(TASKS)}"
    raise UsageError(f"--task: no task named {name!r}; {hint}")


def plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
