"""From a task's name and a folder to examples; every row that is none is counted and named."""

import json
import lzma
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from electralab.errors import InputError, UsageError
from electralab.tasks.catalog import find_task
from electralab.tasks.kinds import KINDS
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.qa import QAExample
from electralab.tasks.kinds.regression import RegressionExample
from electralab.tasks.kinds.tagging import TaggingExample
from electralab.tasks.load import (
    TaskData,
    TaskDataConfig,
    choose_columns,
    find_files,
    match_columns,
    read_inputs,
    read_task,
    read_tests,
)
from electralab.tasks.table import BadRow, Columns, LabelledTable, Row
from electralab.tokens.tokenizer import TokenizerConfig
from electralab.tokens.tokenizer_training import train_symbol_vocab

REVIEWS = "text,label\ngood film,pos\nbad film,neg\nfine,pos\npoor,neg\n"


def write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def read(task: str, place: Path, **settings: Any) -> TaskData:
    return read_task(find_task(task), place, TaskDataConfig(**settings))


def test_cola_is_read_as_it_is_distributed(tmp_path: Path) -> None:
    write(tmp_path / "CoLA/train.tsv", 'gj04\t1\t\tHe said "no.\ngj04\t0\t*\tSaid he no.\n')
    write(tmp_path / "CoLA/dev.tsv", "gj04\t1\t\tShe left.\n")
    write(tmp_path / "CoLA/test.tsv", "index\tsentence\n0\tThey left.\n")
    data = read("CoLA", tmp_path)
    assert data.labels == ("0", "1")
    assert data.train.examples[0] == ClassificationExample("1", ('He said "no.',), "1")
    assert data.devs[0].examples == [ClassificationExample("1", ("She left.",), "1")]
    assert data.tests[0].examples == [ClassificationExample("0", ("They left.",), "")]
    assert (data.devs[0].is_labelled, data.tests[0].is_labelled) == (True, False)
    assert data.train.columns == {"text": "sentence", "label": "label"}
    assert data.notes == ()


def test_mrpc_is_read_with_its_byte_order_mark_and_its_tests_labels(tmp_path: Path) -> None:
    header = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    write(tmp_path / "msr_paraphrase_train.txt", header + "1\t7\t8\tA one\tA two\n0\t9\t10\tB one\tB two\n")
    write(tmp_path / "msr_paraphrase_test.txt", header + "1\t7\t8\tC one\tC two\n")
    data = read("mrpc", tmp_path)
    assert data.tests[0].examples == [ClassificationExample("2", ("C one", "C two"), "1")]
    assert data.notes == ("no dev file: 1 of the 2 training examples are held out, chosen by their content",)


def test_mnli_has_two_dev_and_two_test_splits(tmp_path: Path) -> None:
    header = "index\tsentence1\tsentence2\tlabel1\tgold_label\n"
    labelled = header + "0\tA man.\tA person.\tneutral\tentailment\n1\tA man.\tA dog.\tneutral\tneutral\n"
    write(tmp_path / "train.tsv", labelled)
    for name in ("dev_matched", "dev_mismatched"):
        write(tmp_path / f"{name}.tsv", labelled)
    for name in ("test_matched", "test_mismatched"):
        write(tmp_path / f"{name}.tsv", "index\tsentence1\tsentence2\n0\tA man.\tA person.\n")
    data = read("mnli", tmp_path)
    assert [split.name for split in data.devs + data.tests] == ["dev", "dev-mm", "test", "test-mm"]
    assert data.labels == ("contradiction", "entailment", "neutral")
    assert data.train.examples[0] == ClassificationExample("0", ("A man.", "A person."), "entailment")


def test_scores_of_sts_are_numbers(tmp_path: Path) -> None:
    for name in ("train", "dev"):
        write(tmp_path / f"{name}.tsv", "index\tsentence1\tsentence2\tscore\n0\tA\tB\t3.800\n")
    data = read("STS-B", tmp_path)
    assert data.labels == ()
    assert data.train.examples == [RegressionExample("0", ("A", "B"), 3.8)]


def test_ax_is_only_predicted(tmp_path: Path) -> None:
    write(tmp_path / "diagnostic/diagnostic.tsv", "index\tsentence1\tsentence2\n0\tA\tB")
    with pytest.raises(UsageError, match="AX has no training rows; tune mnli"):
        read("ax", tmp_path)
    (split,) = read_tests(find_task("ax"), tmp_path, ("neutral",), TaskDataConfig())
    assert split.examples == [ClassificationExample("0", ("A", "B"), "")]


def test_squad_is_read_and_its_contexts_stay_on_one_side(tmp_path: Path) -> None:
    paragraphs = [
        {"context": f"It was {n}.", "qas": [{"id": f"{n}{x}", "question": x, "answers": "It"} for x in "abc"]}
        for n in range(10)
    ]
    text = json.dumps({"data": [{"paragraphs": paragraphs}]}).encode()
    data = read("squad", write(tmp_path / "v1.1/train-part-v1.1.json.xz", lzma.compress(text)).parents[1])
    sides = [{e.context for e in split.examples if isinstance(e, QAExample)} for split in (data.train, *data.devs)]
    assert [len(side) for side in sides] == [9, 1]
    assert data.notes[0] == "train: answers looked for in their context, since their place was missing or wrong: 30"


def test_tags_of_either_spelling_are_read_as_one(tmp_path: Path) -> None:
    write(tmp_path / "eng.train", "-DOCSTART- -X- O\n\nEU NNP I-ORG\nleft VBD O\n")
    write(tmp_path / "eng.testa", "Peter NNP B-ORG\nBlack NNP I-ORG\n")
    data = read("ner", tmp_path)
    assert data.labels == ("B-ORG", "I-ORG", "O")
    assert data.train.examples == [TaggingExample("3", ("EU", "left"), ("B-ORG", "O"))]
    assert data.devs[0].examples == [TaggingExample("1", ("Peter", "Black"), ("B-ORG", "I-ORG"))]


def test_ones_own_table_needs_no_flags(tmp_path: Path) -> None:
    data = read("classify", write(tmp_path / "reviews.csv", REVIEWS))
    assert data.labels == ("neg", "pos")
    assert data.train.columns == {"text": "text", "label": "label"}
    assert (len(data.train.examples), len(data.devs[0].examples)) == (3, 1)
    assert data.notes == ("no dev file: 1 of the 4 training examples are held out, chosen by their content",)


def test_a_labelled_test_is_scored_even_where_dev_is_held_out(tmp_path: Path) -> None:
    write(tmp_path / "ratings_train.txt", "id\tdocument\tlabel\n1\t좋다\t1\n2\t나쁘다\t0\n3\t별로\t0\n")
    write(tmp_path / "ratings_test.txt", "id\tdocument\tlabel\n9\t최고\t1\n")
    data = read("classify", tmp_path)
    assert data.tests[0].examples == [ClassificationExample("9", ("최고",), "1")]
    assert data.tests[0].is_labelled
    assert data.devs[0].name == "dev"


def test_classes_that_are_numbers_are_sorted_by_value(tmp_path: Path) -> None:
    rows = "".join(f"text {n},{n}\n" for n in (10, 9, -1))
    assert read("classify", write(tmp_path / "a.csv", "text,label\n" + rows)).labels == ("-1", "9", "10")


def test_given_columns_win(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "text,title,label,stars\na,good,x,5\nb,bad,x,1\n")
    data = read("classify", path, text="title", label="stars")
    assert data.labels == ("1", "5")
    with pytest.raises(UsageError, match=r"has no column 'titel'; did you mean 'title'\?"):
        read("classify", path, text="titel")
    with pytest.raises(UsageError, match="column 'label' is given as text and as label, and would tell its own label"):
        read("classify", path, text="label", label="label")


@given(st.lists(st.integers(0, 200), min_size=2, unique=True), st.sampled_from([0.1, 0.3, 0.5]), st.randoms())
def test_what_is_held_out_depends_on_content_and_not_on_order(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], share: float, random: Any
) -> None:
    folder = tmp_path_factory.mktemp("held")

    def held(order: list[int]) -> set[str]:
        lines = [f"text {n},{n % 2}\n" for n in [*order, *order]] + ["even,0\n", "odd,1\n"]
        data = read("classify", write(folder / "a.csv", "text,label\n" + "".join(lines)), dev_share=share)
        train = {e.texts[0] for e in data.train.examples if isinstance(e, ClassificationExample)}
        dev = {e.texts[0] for e in data.devs[0].examples if isinstance(e, ClassificationExample)}
        assert not train & dev
        assert len(train | dev) == len(numbers) + 2
        return dev

    shuffled = list(numbers)
    random.shuffle(shuffled)
    assert held(numbers) == held(shuffled)


def test_fewer_rows_are_chosen_by_content_and_are_among_the_more(tmp_path: Path) -> None:
    lines = [f"text {number},{number % 2}\n" for number in range(60)]
    write(tmp_path / "a" / "train.csv", "text,label\n" + "".join(lines))
    write(tmp_path / "b" / "train.csv", "text,label\n" + "".join(reversed(lines)))

    def take(folder: str, count: int) -> TaskData:
        return read_task(find_task("classify"), tmp_path / folder, TaskDataConfig(), count)

    few, more, whole = (set(take("a", count).train.examples) for count in (10, 30, 0))
    assert (len(few), len(more), len(whole)) == (10, 30, 54)
    assert few < more < whole
    texts = {example.texts for example in few if isinstance(example, ClassificationExample)}
    assert {
        example.texts for example in take("b", 10).train.examples if isinstance(example, ClassificationExample)
    } == texts
    assert "10 of the 54 training examples are learned from (train_rows)" in take("a", 10).notes
    assert take("a", 10).devs == take("a", 0).devs, "what is held out does not depend on it"
    assert take("a", 54).notes == take("a", 0).notes


def test_bad_rows_are_counted_and_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", REVIEWS + ',pos\n"open,neg\nshort\n')
    train = read("classify", path, max_bad_share=0.5).train
    assert [bad.row for bad in train.bad_rows] == [6, 7, 8]
    assert train.bad_rows[0] == BadRow(6, "'text' is empty")
    assert train.rows == len(train.examples) + len(train.bad_rows)
    with pytest.raises(InputError) as caught:
        read("classify", path, max_bad_share=0.4)
    assert str(caught.value) == (
        f"{path}: 3 of 7 rows cannot be used (row 6 'text' is empty; row 7 has broken quoting (unexpected end of "
        "data); row 8 has 1 field for 2 columns); correct them, or raise --data.max-bad-share (now 0.4)"
    )


def test_a_label_that_training_never_saw_is_a_bad_row(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", REVIEWS)
    write(tmp_path / "dev.csv", "text,label\nodd,neutral\nfine,pos\n")
    with pytest.raises(InputError, match=r"dev.csv: 1 of 2 rows .*row 2 has the unknown label 'neutral'"):
        read("classify", tmp_path)


@pytest.mark.parametrize(
    ("task", "name", "text", "message"),
    [
        ("classify", "train.csv", "text,label\n", "holds no row that can be used; add rows"),
        ("classify", "train.csv", "text,label\na,x\nb,x\n", "every row has the label 'x'; there is nothing to tell"),
        ("classify", "train.csv", "text,label\na,\nb,\n", "has no labels to learn from"),
        ("classify", "train.csv", "text,label\na\nb\n", r"no row that can be used \(row 2 has 1 field for 2 columns"),
        ("sst2", "train.tsv", "text\tlabel\na\t1\n", "has no column 'sentence', which its task needs"),
        ("sst2", "train.tsv", "sentence\tlabel\na\t1\nb\t1\n", "every row has the label '1'"),
        ("label", "train.txt", "a O\n\nb O\n", "every row has the label 'O'"),
        ("classify", "train.csv", "text,label\na,0\na,1\n", "too few different rows to hold some out"),
    ],
)
def test_data_that_cannot_be_learnt_from_are_refused(
    tmp_path: Path, task: str, name: str, text: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read(task, write(tmp_path / name, text).parent)


def test_fractions_are_no_classes_even_if_there_are_few(tmp_path: Path) -> None:
    rows = [f"text {n},{n / 8}\n" for n in range(8)]
    with pytest.raises(InputError, match="column 'label' has 8 different values in 8 rows, which are no classes"):
        read("classify", write(tmp_path / "a" / "train.csv", "text,label\n" + "".join(rows)).parent)
    halves = "".join(f"text {n},{n % 2 / 2}\n" for n in range(8))
    assert read("classify", write(tmp_path / "b" / "train.csv", "text,label\n" + halves).parent).labels == (
        "0.0",
        "0.5",
    )


def test_texts_taken_for_classes_are_found_out(tmp_path: Path) -> None:
    rows = "".join(f"text {n},{n}.5\n" for n in range(200))
    with pytest.raises(InputError, match="column 'score' has 200 different values in 200 rows, which are no classes"):
        read("classify", write(tmp_path / "a.csv", "text,score\n" + rows))


def test_a_dev_file_without_labels_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "train.csv", REVIEWS)
    write(tmp_path / "dev.csv", "text\nfine\n")
    with pytest.raises(InputError, match=r"dev.csv: has no labels to score by; add its column 'label'"):
        read("classify", tmp_path)


def test_identity_follows_content_columns_and_share_but_not_tolerance(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", REVIEWS)
    first = read("classify", path).identity
    assert read("classify", path, max_bad_share=0.2).identity == first
    assert read("classify", path, dev_share=0.5).identity != first
    both = write(tmp_path / "both.csv", "text,title,label\na,b,0\nc,d,1\n")
    assert read("classify", both).identity != read("classify", both, text="title").identity
    write(path, REVIEWS + "more,pos\n")
    assert read("classify", path).identity != first


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"text_a": "a"}, "give both, or text alone"),
        ({"text": "t", "text_a": "a", "text_b": "b"}, "give the one or the others"),
        ({"encoding": "utf-9"}, "no such encoding"),
        ({"dev_share": 1.0}, "less than 1"),
    ],
)
def test_settings_that_contradict_themselves_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        TaskDataConfig(**settings)


def test_plain_text_to_predict_for_is_one_text_per_line(tmp_path: Path) -> None:
    split = read_inputs(KINDS["classify"], 1, write(tmp_path / "a.txt", "good, film\nbad film\n"), TaskDataConfig())
    assert split.examples == [
        ClassificationExample("1", ("good, film",), ""),
        ClassificationExample("2", ("bad film",), ""),
    ]
    assert not split.is_labelled


def test_a_line_that_does_not_decode_is_a_bad_row_among_those_to_predict_for(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", b"good\nb\xe4d\n")
    split = read_inputs(KINDS["classify"], 1, path, TaskDataConfig(max_bad_share=0.5))
    assert split.bad_rows == (BadRow(2, "holds bytes that do not decode (--data.encoding says how)"),)


def test_plain_sentences_to_label_are_split_at_white_space(tmp_path: Path) -> None:
    split = read_inputs(KINDS["label"], 1, write(tmp_path / "a.txt", "EU left .\nPeter did\n"), TaskDataConfig())
    assert split.examples[0] == TaggingExample("1", ("EU", "left", "."), ())
    columns = write(tmp_path / "b.txt", "EU B-ORG\nleft O\n")
    (example,) = read_inputs(KINDS["label"], 1, columns, TaskDataConfig()).examples
    assert example == TaggingExample("1", ("EU", "left"), ("B-ORG", "O"))


def test_a_text_file_with_tabs_is_a_table_to_predict_for_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.txt", "id\tdocument\n7\tfine\n")
    assert read_inputs(KINDS["classify"], 1, path, TaskDataConfig()).examples == [
        ClassificationExample("7", ("fine",), "")
    ]


def test_a_table_to_predict_for_may_lack_some_labels_and_the_wished_column(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", REVIEWS)
    assert read_inputs(KINDS["classify"], 1, path, TaskDataConfig()).is_labelled
    partly = read_inputs(KINDS["classify"], 1, write(path, "text,label\na,pos\nb,\n"), TaskDataConfig(label="stars"))
    assert [e.id for e in partly.examples] == ["2", "3"]
    partly = read_inputs(KINDS["classify"], 1, path, TaskDataConfig())
    assert [e.id for e in partly.examples] == ["2", "3"]
    assert not partly.is_labelled


def test_questions_to_predict_for_need_no_answers(tmp_path: Path) -> None:
    row = {"question": "Who?", "context": "He.", "answers": "She", "is_impossible": True}
    split = read_inputs(KINDS["qa"], 2, write(tmp_path / "a.jsonl", json.dumps(row)), TaskDataConfig())
    assert len(split.examples) == 1
    path = write(tmp_path / "b.jsonl", json.dumps({"question": "Who?", "context": "He."}))
    assert read_inputs(KINDS["qa"], 2, path, TaskDataConfig()).examples == [QAExample("1", "Who?", "He.", (), False)]


def test_a_blank_file_to_predict_for_is_refused(tmp_path: Path) -> None:
    for kind in ("classify", "label"):
        with pytest.raises(InputError):
            read_inputs(KINDS[kind], 1, write(tmp_path / "a.txt", "\n \n"), TaskDataConfig())


# Symbols

EVENTS = train_symbol_vocab(
    Counter({"open": 9, "read": 5, "cl ose": 3, "200": 2, "500": 1}), TokenizerConfig(vocab_size=64)
)
SESSIONS: list[dict[str, Any]] = [
    {"events": ["open", "cl ose", 200], "label": "fine"},
    {"events": ["open", 500], "label": "failed"},
    {"events": ["read", "read"], "label": "fine"},
    {"events": ["open", "500"], "label": "failed"},
]


def write_json_lines(path: Path, rows: Sequence[Any]) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


def read_symbols(path: Path, task: str = "classify", **settings: Any) -> TaskData:
    return read_task(find_task(task), path, TaskDataConfig(**settings), tokenizer=EVENTS)


@pytest.mark.parametrize("name", ["events", "text", "symbols", "what happened"])
def test_a_model_of_symbols_reads_lists_whatever_their_column_is_called(tmp_path: Path, name: str) -> None:
    rows = [{"note": "a text beside it", name: row["events"], "label": row["label"]} for row in SESSIONS]
    for split in ("train", "dev"):
        write_json_lines(tmp_path / f"{split}.jsonl", rows)
    data = read_symbols(tmp_path)
    assert data.train.columns == {"text": name, "label": "label"}
    assert data.train.examples[0] == ClassificationExample("1", ('["open", "cl ose", "200"]',), "fine")
    assert data.train.examples[1:] == data.devs[0].examples[1:]
    first, second = (data.train.examples[index] for index in (1, 3))
    assert isinstance(first, ClassificationExample)
    assert isinstance(second, ClassificationExample)
    assert first.texts == second.texts
    assert data.train.bad_rows == ()


def test_lists_may_be_scored_or_stand_in_pairs(tmp_path: Path) -> None:
    scored = [{"events": row["events"], "score": place / 2} for place, row in enumerate(SESSIONS)]
    data = read_symbols(write_json_lines(tmp_path / "scored.jsonl", scored), "regress")
    assert {example.score for example in data.train.examples if isinstance(example, RegressionExample)} <= {
        0,
        0.5,
        1,
        1.5,
    }
    pairs = [{"text_a": row["events"], "text_b": ["read"], "label": row["label"]} for row in SESSIONS]
    data = read_symbols(write_json_lines(tmp_path / "pairs.jsonl", pairs), "pair")
    texts = [example.texts for example in data.train.examples if isinstance(example, ClassificationExample)]
    assert {second for _, second in texts} == {'["read"]'}


def test_strings_are_read_by_a_model_of_symbols_as_before(tmp_path: Path) -> None:
    """With white space between, or as the text of a JSON list."""
    table = 'text,label\nopen read 7,fine\nopen 500,failed\n"[""cl ose"", 200]",fine\nread 500,failed\n'
    data = read_symbols(write(tmp_path / "a.csv", table))
    assert ClassificationExample("4", ('["cl ose", 200]',), "fine") in [*data.train.examples, *data.devs[0].examples]
    assert data.identity == read("classify", tmp_path / "a.csv").identity


@pytest.mark.parametrize(
    ("symbols", "reason"),
    [
        ([], "'events' is empty"),
        (["open", ""], "'events' holds ''; a symbol is a non-empty string or an integer"),
        ([True], "'events' holds 'True'; a symbol is a non-empty string or an integer"),
        ([["open"]], "'events' holds \"['open']\"; a symbol is a non-empty string or an integer"),
        ([1.5], "'events' holds '1.5'; a symbol is a non-empty string or an integer"),
        (["half \ud83d"], "'events' holds half a character"),
    ],
)
def test_a_list_that_holds_no_symbols_is_a_bad_row(tmp_path: Path, symbols: list[Any], reason: str) -> None:
    rows = [*SESSIONS, {"events": symbols, "label": "fine"}]
    data = read_symbols(write_json_lines(tmp_path / "train.jsonl", rows), max_bad_share=0.5)
    assert data.train.bad_rows == (BadRow(5, reason),)


def test_columns_of_lists_that_cannot_be_told_apart_are_asked_for(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "a.jsonl", [{"a": ["open"], "b": ["read"], **row} for row in SESSIONS])
    assert read_symbols(path).train.columns["text"] == "events"
    path = write_json_lines(path, [{"a": row["events"], "b": ["read"], "label": row["label"]} for row in SESSIONS])
    with pytest.raises(UsageError, match=r"several columns hold lists \('a', 'b'\); give --data.text"):
        read_symbols(path)
    assert read_symbols(path, text="a").train.columns["text"] == "a"


@pytest.mark.parametrize("name", ["events", "text"])
@pytest.mark.parametrize("settings", [{}, {"label": "label"}])
def test_a_model_of_text_refuses_lists_in_one_sentence(tmp_path: Path, name: str, settings: dict[str, str]) -> None:
    rows = [
        {"id": f"session-{place}", name: row["events"], "label": row["label"]} for place, row in enumerate(SESSIONS)
    ]
    path = write_json_lines(tmp_path / "a.jsonl", rows)
    words = f"column '{name}' holds lists, which a model of text does not read; give a column of text"
    with pytest.raises(InputError, match=words):
        read("classify", path, **settings)
    with pytest.raises(InputError, match=words):
        read("classify", path, text=name)
    with pytest.raises(InputError, match=words):
        read_inputs(KINDS["classify"], 1, path, TaskDataConfig())


def test_a_model_of_symbols_refuses_text_in_one_sentence(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", REVIEWS)
    words = "a.csv: holds text, most of whose words the model of symbols does not know; give lists of symbols"
    with pytest.raises(InputError, match=words):
        read_symbols(path)
    with pytest.raises(InputError, match=words):
        read_inputs(KINDS["classify"], 1, path, TaskDataConfig(), EVENTS)


def test_lists_without_a_name_are_inputs_of_a_model_of_symbols_alone(tmp_path: Path) -> None:
    path = write_json_lines(tmp_path / "a.jsonl", [["open", 500], ["never", "seen"]])
    split = read_inputs(KINDS["classify"], 1, path, TaskDataConfig(), EVENTS)
    assert split.examples == [
        ClassificationExample("1", ('["open", "500"]',), ""),
        ClassificationExample("2", ('["never", "seen"]',), ""),
    ]
    with pytest.raises(InputError, match="row 1 is a JSON list, not an object with fields"):
        read_inputs(KINDS["classify"], 1, path, TaskDataConfig())


def table(*records: dict[str, str]) -> LabelledTable:
    return LabelledTable(
        Path("a.csv"), tuple(records[0]), [Row(number, fields) for number, fields in enumerate(records, 2)]
    )


def named(*columns: str) -> LabelledTable:
    return table(dict.fromkeys(columns, "x"))


def choose(
    rows: LabelledTable,
    kind: str = "classify",
    num_texts: int = 0,
    wish: Columns | None = None,
    *,
    needs_label: bool = True,
) -> Columns:
    task = replace(KINDS[kind].own_tasks()[0], num_texts=num_texts)
    return choose_columns(rows, task, wish or Columns(), needs_label=needs_label)


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        (("label", "text"), Columns(("text",), "label")),
        (("id", "document", "label"), Columns(("document",), "label", "id")),
        (("Review", "Stars"), Columns(("Review",), "Stars")),
        (("title", "category", "body"), Columns(("body",), "category")),
        (("text_a", "text_b", "label"), Columns(("text_a", "text_b"), "label")),
        (("idx", "premise", "hypothesis", "label"), Columns(("premise", "hypothesis"), "label", "idx")),
        (("text", "question", "sentence", "label"), Columns(("text",), "label")),
    ],
)
def test_columns_are_known_by_their_names(columns: tuple[str, ...], chosen: Columns) -> None:
    assert choose(named(*columns)) == chosen


@pytest.mark.parametrize(
    ("kind", "columns", "chosen"),
    [
        ("regress", ("sentence1", "sentence2", "label", "score"), Columns(("sentence1", "sentence2"), "score")),
        ("label", ("tokens", "ner_tags"), Columns(("tokens",), "ner_tags")),
        ("qa", ("id", "title", "context", "question", "answers"), Columns(("question", "context"), "answers", "id")),
    ],
)
def test_every_kind_has_names_of_its_own(kind: str, columns: tuple[str, ...], chosen: Columns) -> None:
    assert choose(named(*columns), kind) == chosen


def test_failing_names_the_content_decides() -> None:
    rows = [{"k": str(n), "lang": "en", "c": "pos" if n % 2 else "neg", "t": f"film number {n}"} for n in range(8)]
    assert choose(table(*rows)) == Columns(("t",), "c")


def test_a_score_is_the_only_column_of_numbers() -> None:
    assert choose(table({"a": "a film", "b": "2.5"}, {"a": "another", "b": "1"}), "regress").label == "b"
    with pytest.raises(UsageError, match="cannot tell which column holds the label; it has 'a', 'b', 'c'; give --data"):
        choose(table({"a": "a film", "b": "2.5", "c": "3"}), "regress")


def test_a_first_line_that_is_a_row_is_found_out() -> None:
    rows = [{"1": label, "A good film": f"text {number}"} for number, label in enumerate("0101")]
    with pytest.raises(UsageError, match="its first line seems to be a row"):
        choose(table(*rows))


def test_a_wish_wins_over_names() -> None:
    wish = Columns(("title",), "stars", "url")
    assert choose(named("text", "title", "label", "stars", "id", "url"), wish=wish) == wish


def test_a_text_is_not_looked_for_in_the_wished_label() -> None:
    assert choose(named("text", "title"), wish=Columns(label="text")) == Columns(("title",), "text")


def test_a_wish_that_is_no_column_is_met_with_a_suggestion_and_all_names() -> None:
    with pytest.raises(
        UsageError, match=r"a.csv: has no column 'labels'; did you mean 'label'\? it has 'text', 'label'"
    ):
        choose(named("text", "label"), wish=Columns(label="labels"))


def test_a_pair_needs_two_columns_of_text() -> None:
    with pytest.raises(UsageError, match=r"the task reads 2 columns of text; give --data.text-a and --data.text-b"):
        choose(named("text", "label"), num_texts=2, wish=Columns(("text",)))
    with pytest.raises(UsageError, match="cannot tell which column holds the text"):
        choose(named("text", "label"), num_texts=2)


def test_without_need_a_label_is_taken_by_name_only() -> None:
    rows = table({"t": "one film", "c": "0"}, {"t": "two films", "c": "1"})
    assert choose(rows, num_texts=1, needs_label=False) == Columns(("t",))
    assert choose(rows, num_texts=1, wish=Columns(("t",), "stars"), needs_label=False) == Columns(("t",))


def test_another_file_may_lack_the_label_but_not_the_text() -> None:
    trained = Columns(("sentence",), "label")
    assert match_columns(named("index", "sentence"), trained) == Columns(("sentence",), "", "index")
    with pytest.raises(InputError, match=r"has no column 'sentence', which its task needs; did you mean 'sentences'\?"):
        match_columns(named("sentences", "label"), trained)


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
