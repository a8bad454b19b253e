"""Which file of a folder is which split."""

from pathlib import Path

import pytest

from electralab.errors import InputError
from electralab.tasks.catalog import find_task
from electralab.tasks.load import find_files


def touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")
    return folder


def found(task: str, place: Path) -> dict[str, str]:
    return {split: path.name for split, path in find_files(find_task(task), place).items()}


@pytest.mark.parametrize(
    ("task", "files", "splits"),
    [
        ("cola", ["train.tsv", "dev.tsv", "test.tsv"], {"train": "train.tsv", "dev": "dev.tsv", "test": "test.tsv"}),
        (
            "mrpc",
            ["msr_paraphrase_train.txt", "msr_paraphrase_test.txt"],
            {"train": "msr_paraphrase_train.txt", "test": "msr_paraphrase_test.txt"},
        ),
        (
            "mnli",
            ["train.tsv.gz", "dev_matched.tsv", "dev_mismatched.tsv.zst", "test_matched.tsv"],
            {
                "train": "train.tsv.gz",
                "dev": "dev_matched.tsv",
                "dev-mm": "dev_mismatched.tsv.zst",
                "test": "test_matched.tsv",
            },
        ),
        (
            "squad2",
            ["train-v1.1.json", "train-v2.0.json", "dev-v2.0.json", "dev-v1.1.json"],
            {"train": "train-v2.0.json", "dev": "dev-v2.0.json"},
        ),
        (
            "squad1",
            ["train-subset-v1.1.json.xz", "dev-v1.1.json.xz"],
            {"train": "train-subset-v1.1.json.xz", "dev": "dev-v1.1.json.xz"},
        ),
        (
            "ner",
            ["eng.train", "eng.testa", "eng.testb"],
            {"train": "eng.train", "dev": "eng.testa", "test": "eng.testb"},
        ),
        ("chunking", ["train.txt.xz", "test.txt.xz"], {"train": "train.txt.xz", "test": "test.txt.xz"}),
        (
            "classify",
            ["ratings_train.txt.xz", "ratings_test.txt.xz", "README.md"],
            {"train": "ratings_train.txt.xz", "test": "ratings_test.txt.xz"},
        ),
        (
            "pair",
            ["Train.csv", "my_val.csv", "retrieval.csv", "training.log"],
            {"train": "Train.csv", "dev": "my_val.csv"},
        ),
        ("classify", ["train_and_dev.csv"], {"train": "train_and_dev.csv"}),
        ("label", ["train.jsonl", "valid.jsonl"], {"train": "train.jsonl", "dev": "valid.jsonl"}),
        ("qa", ["train.parquet", "validation.parquet"], {"train": "train.parquet", "dev": "validation.parquet"}),
    ],
)
def test_names_say_which_file_is_which_split(
    tmp_path: Path, task: str, files: list[str], splits: dict[str, str]
) -> None:
    assert found(task, touch(tmp_path, *files)) == splits


def test_a_task_is_found_in_the_folder_of_the_suite(tmp_path: Path) -> None:
    touch(tmp_path, "SST-2/train.tsv", "CoLA/train.tsv", "conll2000/train.txt", "diagnostic/diagnostic.tsv")
    assert find_files(find_task("sst2"), tmp_path) == {"train": tmp_path / "SST-2" / "train.tsv"}
    assert find_files(find_task("chunking"), tmp_path) == {"train": tmp_path / "conll2000" / "train.txt"}
    ax = find_files(find_task("ax"), tmp_path, needed="test")
    assert ax == {"test": tmp_path / "diagnostic" / "diagnostic.tsv"}


def test_a_file_given_itself_is_the_training_file(tmp_path: Path) -> None:
    touch(tmp_path, "reviews.csv", "dev.csv")
    assert found("classify", tmp_path / "reviews.csv") == {"train": "reviews.csv"}


def test_a_missing_file_is_met_with_what_was_looked_for_and_what_is_there(tmp_path: Path) -> None:
    touch(tmp_path, "notes.txt")
    with pytest.raises(InputError, match=r"has no train file of CoLA; looked for train.tsv .* it holds notes.txt"):
        find_files(find_task("cola"), tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        find_files(find_task("cola"), tmp_path / "nowhere")


def test_two_files_for_one_split_are_not_chosen_from(tmp_path: Path) -> None:
    touch(tmp_path, "a_train.csv", "b_train.csv")
    with pytest.raises(InputError, match=r"several files may be its train split \(a_train.csv, b_train.csv\)"):
        find_files(find_task("classify"), tmp_path)


def test_a_word_inside_another_names_no_split(tmp_path: Path) -> None:
    touch(tmp_path, "reviews_train.csv", "latest.csv", "devices.csv", "contest.csv")
    assert found("classify", tmp_path) == {"train": "reviews_train.csv"}


def test_archives_are_to_be_unpacked(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unpack the archives first"):
        found("cola", touch(tmp_path, "CoLA.zip"))
