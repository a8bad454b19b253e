"""The table of tasks, and finding one by whatever name people use."""

import pytest

from electralab.errors import UsageError
from electralab.tasks.catalog import GLUE, TASKS, find_task, plain_name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("CoLA", "cola"),
        ("SST-2", "sst2"),
        ("sts_b", "stsb"),
        ("squad", "squad1"),
        ("squad-2.0", "squad2"),
        ("SQuAD 1.1", "squad1"),
        ("CoNLL-2003", "ner"),
        ("conll2000", "chunking"),
        ("diagnostic", "ax"),
        ("classify", "classify"),
    ],
)
def test_a_task_is_found_whatever_the_case_and_punctuation(name: str, found: str) -> None:
    assert find_task(name).name == found


def test_a_misspelt_task_is_met_with_a_suggestion() -> None:
    with pytest.raises(UsageError, match=r"--task: no task named 'colla'; did you mean 'cola'\?"):
        find_task("colla")


def test_a_strange_task_is_met_with_all_names() -> None:
    with pytest.raises(UsageError, match=r"known are cola, sst2, .*qa"):
        find_task("xyzzy")


def test_no_two_tasks_share_a_name() -> None:
    names = [name for task in TASKS.values() for name in {task.name, *task.aliases}]
    assert len(names) == len(set(names))
    assert all(name == plain_name(name) for name in names)


def test_the_paper_trains_rte_and_sts_longer_and_squad_shorter() -> None:
    epochs = {name: task.epochs for name, task in TASKS.items() if task.epochs != 3}
    assert epochs == {"rte": 10, "stsb": 10, "squad1": 2, "squad2": 2, "qa": 2}


def test_glue_has_nine_trained_tasks_and_a_submission_for_each() -> None:
    assert [TASKS[name].submissions["test"] for name in GLUE] == [
        *("CoLA.tsv", "SST-2.tsv", "MRPC.tsv", "STS-B.tsv", "QQP.tsv", "MNLI-m.tsv", "QNLI.tsv", "RTE.tsv", "WNLI.tsv")
    ]
    assert TASKS["mnli"].submissions["test-mm"] == "MNLI-mm.tsv"
    assert TASKS["ax"].submissions.get("test", "") == "AX.tsv"
    assert [name for name, task in TASKS.items() if not task.is_trained] == ["ax"]
    assert {name for name, task in TASKS.items() if task.doubles_pairs} == {"mrpc", "stsb"}


def test_official_tasks_name_as_many_columns_as_they_have_texts() -> None:
    for task in TASKS.values():
        assert not task.texts or len(task.texts) == task.num_texts, task.name
