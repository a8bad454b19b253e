"""Every task that can be trained or predicted, as data: what it asks, how it is scored, how its files are laid out.

name -> Task
"""

import re
from dataclasses import replace

from electralab.errors import UsageError, suggest
from electralab.tasks.kind import SplitFiles, Task
from electralab.tasks.kinds import KINDS, classification, qa, regression, tagging

_GLUE_FILES: SplitFiles = {"train": ("train.tsv",), "dev": ("dev.tsv",), "test": ("test.tsv",)}
_MRPC_FILES: SplitFiles = {
    "train": ("train.tsv", "msr_paraphrase_train.txt"),
    "dev": ("dev.tsv",),
    "test": ("test.tsv", "msr_paraphrase_test.txt"),
}
_MNLI_FILES: SplitFiles = {
    "train": ("train.tsv",),
    "dev": ("dev_matched.tsv",),
    "dev-mm": ("dev_mismatched.tsv",),
    "test": ("test_matched.tsv",),
    "test-mm": ("test_mismatched.tsv",),
}
_AX_FILES: SplitFiles = {
    "test": ("diagnostic.tsv", "AX.tsv", "diagnostic-full.tsv"),
    "test-labelled": ("diagnostic-full.tsv",),
}


def _squad_files(version: str) -> SplitFiles:
    return {split: (f"{split}-v{version}.json", f"{split}.json", f"*{split}*.json") for split in ("train", "dev")}


_YES_NO = ("0", "1")
_ENTAILED = ("entailment", "not_entailment")
_ENTAILMENT = ("contradiction", "entailment", "neutral")
_SENTENCES = ("sentence1", "sentence2")


def _glue(task: Task) -> Task:
    """With what GLUE's tasks share unless they say otherwise: a folder and a submission of their name, three files."""
    return replace(
        task,
        folder=task.folder or (task.display,),
        files=task.files or _GLUE_FILES,
        label=task.label or "label",
        submissions=task.submissions or {"test": f"{task.display}.tsv"},
    )


_OFFICIAL = (
    _glue(
        Task(
            *("cola", "CoLA", classification.KIND, ("mcc", "accuracy"), _YES_NO),
            texts=("sentence",),
            headless=("source", "label", "mark", "sentence"),
        )
    ),
    _glue(Task("sst2", "SST-2", classification.KIND, ("accuracy",), _YES_NO, texts=("sentence",), aliases=("sst",))),
    _glue(
        Task(
            *("mrpc", "MRPC", classification.KIND, ("accuracy", "f1"), _YES_NO, 2),
            texts=("#1 String", "#2 String"),
            label="Quality",
            files=_MRPC_FILES,
            doubles_pairs=True,
        )
    ),
    _glue(
        Task(
            *("stsb", "STS-B", regression.KIND, ("spearman", "pearson"), (), 2),
            texts=_SENTENCES,
            label="score",
            epochs=10,
            doubles_pairs=True,
            aliases=("sts", "stsbenchmark"),
        )
    ),
    _glue(
        Task(
            *("qqp", "QQP", classification.KIND, ("accuracy", "f1"), _YES_NO, 2),
            texts=("question1", "question2"),
            label="is_duplicate",
        )
    ),
    _glue(
        Task(
            *("mnli", "MNLI", classification.KIND, ("accuracy",), _ENTAILMENT, 2),
            texts=_SENTENCES,
            label="gold_label",
            files=_MNLI_FILES,
            submissions={"test": "MNLI-m.tsv", "test-mm": "MNLI-mm.tsv"},
            aliases=("multinli",),
        )
    ),
    _glue(Task("qnli", "QNLI", classification.KIND, ("accuracy",), _ENTAILED, 2, texts=("question", "sentence"))),
    _glue(Task("rte", "RTE", classification.KIND, ("accuracy",), _ENTAILED, 2, texts=_SENTENCES, epochs=10)),
    _glue(Task("wnli", "WNLI", classification.KIND, ("accuracy",), _YES_NO, 2, texts=_SENTENCES)),
    _glue(
        Task(
            # Without fixed columns: with labels the file has a Premise and a Hypothesis, without them two sentences.
            *("ax", "AX", classification.KIND, ("mcc", "accuracy"), _ENTAILMENT, 2),
            folder=("diagnostic", "AX"),
            files=_AX_FILES,
            is_trained=False,
            aliases=("diagnostic",),
        )
    ),
    Task(
        *("squad1", "SQuAD 1.1", qa.KIND, qa.METRICS),
        num_texts=2,
        epochs=2,
        sequence_length=512,
        aliases=("squad", "squad11", "squadv1", "squadv11"),
        folder=("squad1", "v1.1", "squad1.1", "squad-v1.1", "squad"),
        files=_squad_files("1.1"),
    ),
    Task(
        *("squad2", "SQuAD 2.0", qa.KIND, qa.METRICS),
        num_texts=2,
        epochs=2,
        sequence_length=512,
        has_impossible=True,
        aliases=("squad20", "squadv2", "squadv20"),
        folder=("squad2", "v2.0", "squad2.0", "squad-v2.0", "squad"),
        files=_squad_files("2.0"),
    ),
    Task(
        *("ner", "CoNLL-2003 NER", tagging.KIND, tagging.METRICS),
        aliases=("conll2003", "conll03", "conll2003ner"),
        folder=("conll2003", "ner"),
        files=tagging.CONLL_FILES,
    ),
    Task(
        *("chunking", "CoNLL-2000 chunking", tagging.KIND, tagging.METRICS),
        sequence_length=256,
        aliases=("conll2000", "conll00", "chunk", "conll2000chunking"),
        folder=("conll2000", "chunking"),
        files=tagging.CONLL_FILES,
    ),
)

# The tasks that a kind brings along read people's own files, and come last.
TASKS: dict[str, Task] = {
    task.name: task for task in (*_OFFICIAL, *(task for kind in KINDS.values() for task in kind.own_tasks()))
}
GLUE: tuple[str, ...] = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


def find_task(name: str) -> Task:
    """Whatever its case and punctuation.

    >>> find_task("SST-2").name, find_task("squad-2.0").name
    ('sst2', 'squad2')
    """
    wanted = plain_name(name)
    known = {alias: task for task in TASKS.values() for alias in (*task.aliases, task.name)}
    if wanted in known:
        return known[wanted]
    hint = suggest(wanted, known, f"known are {', '.join(TASKS)}")
    raise UsageError(f"--task: no task named {name!r}; {hint}")


def plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
