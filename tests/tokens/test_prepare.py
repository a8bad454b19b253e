"""Text in, the same folder out: whatever was interrupted, and nothing of it damaged unnoticed."""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from watching_events import notes, result_of, warnings

from electralab.artifacts import MANIFEST, describe_files, read_json
from electralab.config import ConfigLayer, resolve
from electralab.errors import (
    DamagedArtifact,
    FolderInUse,
    IdentityMismatch,
    InputError,
    Stopped,
    StorageError,
    UsageError,
)
from electralab.events import Event, Progress
from electralab.records.prepared import PreparedPass, PreparedReport
from electralab.stopping import StopSignal
from electralab.tokens import shards
from electralab.tokens.prepare import plan_prepare, prepare
from electralab.tokens.prepare_settings import PrepareConfig, fingerprint_data, without_rule
from electralab.tokens.shards import PreparedData, Rows, open_data, shard_dtype

TINY: dict[str, Any] = {"tokenizer": {"vocab_size": 200}, "packing": {"sequence_length": 16}, "heldout_share": 0.2}


def config(**changes: Any) -> PrepareConfig:
    return resolve(PrepareConfig, [ConfigLayer("defaults", TINY), ConfigLayer("test", changes)])


def given(tokenizer: Path) -> PrepareConfig:
    changes = {"tokenizer": {"path": str(tokenizer)}, "packing": {"sequence_length": 16}}
    return resolve(PrepareConfig, [ConfigLayer("test", changes)])


def run(source: Path | str, out: Path, **changes: Any) -> list[Event[PreparedReport | PreparedPass]]:
    return list(prepare([str(source)], out, config(**changes), StopSignal()))


def write_corpus(path: Path, documents: int = 60) -> Path:
    words = ["river", "stone", "cloud", "green", "walks", "under", "seven", "old"]
    lines = [" ".join(words[(number * step + step) % 8] for step in range(1, 30)) for number in range(documents)]
    path.write_text("\n\n".join(f"document {number}\n{line}" for number, line in enumerate(lines)) + "\n")
    return path


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "corpus.txt")


def read_back(data: PreparedData, rows: Rows) -> str:
    return data.tokenizer.decode(rows.take(np.arange(len(rows))).ravel())


def test_every_document_is_in_one_of_the_two_parts(tmp_path: Path, corpus: Path) -> None:
    counts = result_of(run(corpus, tmp_path / "data"))["counts"]
    data = open_data(tmp_path / "data")
    train, heldout = read_back(data, data.train), read_back(data, data.heldout)
    sides = {number: (f"document {number} " in train, f"document {number} " in heldout) for number in range(60)}
    assert all(sum(side) == 1 for side in sides.values())
    assert counts["documents"] == 60
    assert counts["heldout_documents"] == sum(heldout for _, heldout in sides.values()) > 0
    assert data.train.take(np.array([0])).dtype == np.int64


def test_progress_names_its_phases_and_never_passes_its_total(tmp_path: Path, corpus: Path) -> None:
    events = run(corpus, tmp_path / "data")
    progress = [event for event in events if isinstance(event, Progress)]
    phases = list(dict.fromkeys(event.phase for event in progress))
    assert phases == ["hashing", "counting", "merging", "sampling", "learning", "encoding", "finished"]
    assert all(0 <= event.done <= event.total == corpus.stat().st_size for event in progress)
    assert progress[-1].values["documents"] == 60
    assert progress[-1].line.startswith("finished: 60 documents, ")
    assert result_of(events)["counts"]["documents"] == 60


def stop_before_the_end(source: Path | str, out: Path, **changes: Any) -> None:
    """Everything is encoded, and nothing says so yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("electralab.tokens.prepare._Build._finish", fail)
        with pytest.raises(Stopped):
            run(source, out, **changes)


def fail(*_: object) -> None:
    raise Stopped(9)


def run_until(phase: str, times: int, source: Path, out: Path, **changes: Any) -> None:
    """As `run`, but a signal arrives when the phase has reported so many times."""
    stop = StopSignal()
    for step in prepare([str(source)], out, config(**changes), stop):
        times -= isinstance(step, Progress) and step.phase == phase
        stop.number = 15 if times <= 0 else 0


@pytest.mark.parametrize(
    ("phase", "times"), [("hashing", 1), ("counting", 2), ("sampling", 2), ("encoding", 1), ("encoding", 9)]
)
@pytest.mark.parametrize("kind", ["contiguous", "pairs"])
def test_a_stopped_build_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, times: int, kind: str
) -> None:
    monkeypatch.setattr(shards, "SHARD_SIZE", 4000)
    monkeypatch.setattr("electralab.corpus.documents.BATCH_CHARS", 1000)
    corpus = write_corpus(tmp_path / "corpus.txt", 100)
    changes = {"packing": {"kind": kind}}
    run(corpus, tmp_path / "whole", **changes)
    assert len(list((tmp_path / "whole/shards").glob("train-*"))) >= 4
    with pytest.raises(Stopped):
        run_until(phase, times, corpus, tmp_path / "broken", **changes)
    assert not (tmp_path / "broken/manifest.json").exists()
    run(corpus, tmp_path / "broken", **changes)
    assert describe_files(tmp_path / "broken") == describe_files(tmp_path / "whole")
    assert open_data(tmp_path / "broken").identity == open_data(tmp_path / "whole").identity


def test_a_source_that_changes_while_it_is_read_gives_no_data(tmp_path: Path, corpus: Path) -> None:
    events = prepare([str(corpus)], tmp_path / "data", config(), StopSignal())
    next(step for step in events if isinstance(step, Progress) and step.phase == "encoding")
    write_corpus(corpus, 61)
    with pytest.raises(InputError, match="changed while it was read; run the same command again"):
        list(events)
    assert not (tmp_path / "data/manifest.json").exists()


def test_a_finished_part_is_not_encoded_again(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_before_the_end(corpus, tmp_path / "data")
    monkeypatch.setattr("electralab.tokens.prepare.make_encoder", fail)
    run(corpus, tmp_path / "data")
    assert len(open_data(tmp_path / "data").train) > 0


def test_the_same_command_again_does_nothing_and_other_settings_are_refused(tmp_path: Path, corpus: Path) -> None:
    run(corpus, tmp_path / "data")
    before = describe_files(tmp_path / "data")
    assert notes(run(corpus, tmp_path / "data")) == ["the data is there already, nothing to do"]
    with pytest.raises(IdentityMismatch, match=r"packing\.sequence_length = 16, not 32"):
        run(corpus, tmp_path / "data", packing={"sequence_length": 32})
    with pytest.raises(IdentityMismatch, match="other sources"):
        run(write_corpus(tmp_path / "other.txt", 50), tmp_path / "data")
    assert describe_files(tmp_path / "data") == before


def test_a_begun_build_with_other_settings_starts_over_and_says_so(tmp_path: Path, corpus: Path) -> None:
    for step in prepare([str(corpus)], tmp_path / "data", config(), StopSignal()):
        if isinstance(step, Progress) and step.phase == "encoding":
            break
    told = notes(run(corpus, tmp_path / "data", seed=5))
    assert f"{tmp_path / 'data'}: the unfinished build was begun with seed = 0, not 5; the build starts over" in told
    run(corpus, tmp_path / "fresh", seed=5)
    assert open_data(tmp_path / "data").identity == open_data(tmp_path / "fresh").identity


def test_damage_is_found_named_and_mended_by_running_again(tmp_path: Path, corpus: Path) -> None:
    run(corpus, tmp_path / "data")
    identity = open_data(tmp_path / "data").identity
    shard = tmp_path / "data/shards/train-00000.npy"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    with pytest.raises(DamagedArtifact, match=r"train-00000\.npy: does not match its manifest"):
        open_data(tmp_path / "data")
    (told,) = notes(run(corpus, tmp_path / "data"))
    assert told.startswith(f"{shard}: does not match its manifest")
    assert told.endswith("; the data is built again")
    assert open_data(tmp_path / "data").identity == identity


def test_damaged_data_of_other_settings_is_left_to_its_owner(tmp_path: Path, corpus: Path) -> None:
    run(corpus, tmp_path / "data")
    shard = tmp_path / "data/shards/train-00000.npy"
    shard.write_bytes(shard.read_bytes()[:-1])
    before = describe_files(tmp_path / "data")
    with pytest.raises(IdentityMismatch, match=r"is damaged \(.*train-00000.*\) and was prepared with seed = 0, not 5"):
        run(corpus, tmp_path / "data", seed=5)
    assert describe_files(tmp_path / "data") == before


@pytest.mark.parametrize("text", ["", "[]", '{"made_from": {"seed": 3}, "sha256": ""}', "9" * 5000])
@pytest.mark.parametrize(
    "record", ["build.json", "count-00000.json", "merge.json", "tokenizer.json", "part-00000.json"]
)
def test_a_damaged_record_of_an_unfinished_build_is_not_taken_for_other_settings(
    tmp_path: Path, corpus: Path, record: str, text: str
) -> None:
    run(corpus, tmp_path / "whole")
    stop_before_the_end(corpus, tmp_path / "data")
    (tmp_path / "data/.build" / record).write_text(text)
    told = notes(run(corpus, tmp_path / "data"))
    assert len(told) == (record == "build.json")
    assert all(f"{record}: " in note and note.endswith("; the build starts over") for note in told)
    assert describe_files(tmp_path / "data") == describe_files(tmp_path / "whole")


@pytest.mark.parametrize(
    ("documents", "share"), [(1, 0.0), (1, 0.999999), (2, 1e-9), (2, 0.999999), (3, 1e-9), (30, 1e-9)]
)
def test_both_sides_get_a_document_where_there_are_two(tmp_path: Path, documents: int, share: float) -> None:
    run(write_corpus(tmp_path / "c.txt", documents), tmp_path / "data", heldout_share=share)
    data = open_data(tmp_path / "data")
    assert len(data.train) > 0
    assert (len(data.heldout) > 0) == (documents > 1)
    assert read_json(data.path / MANIFEST)["counts"]["documents"] == documents


def test_dropped_documents_are_reported_by_reason(tmp_path: Path) -> None:
    path, filters = tmp_path / "c.txt", {"min_characters": 5}
    path.write_bytes(b"one good document\n\none good document\n\nb\xffd\n\nxy\n\nanother good document")
    report = result_of(run(path, tmp_path / "data", filters=filters))
    assert report["dropped"] == {"duplicate": 1, "too_short": 1, "undecodable": 1}
    path.write_text("ab\n\ncd\n\n")
    with pytest.raises(InputError, match=r"\(2 too_short: 2 in .*c\.txt\); give other text or loosen the filters"):
        run(path, tmp_path / "other", filters=filters)


def test_text_with_nothing_left_is_refused_with_the_reasons_and_the_worst_files(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for name, count in (("a.txt", 1), ("b.txt", 3), ("c.txt", 2), ("d.txt", 1), ("e.txt", 1)):
        (tmp_path / "texts" / name).write_bytes(b"\n\n".join(b"\xff%d" % place for place in range(count)))
    folder = tmp_path / "texts"
    sentence = (
        f"no document left to prepare (8 undecodable: 3 of 3 in {folder / 'b.txt'}, 2 of 2 in {folder / 'c.txt'}, "
        f"1 of 1 in {folder / 'a.txt'} and 2 more files); give text, name its encoding with --reading.encoding, "
        "or repair it with --repair"
    )
    with pytest.raises(InputError) as caught:
        run(folder, tmp_path / "data")
    assert str(caught.value) == sentence


def test_files_that_do_not_decode_are_named_though_others_do(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    write_corpus(tmp_path / "texts/a.txt")
    (tmp_path / "texts/b.txt").write_bytes(b"\xff\n\n\xfe")
    told = notes(run(tmp_path / "texts", tmp_path / "data", heldout_share=0.3))
    (warning,) = PreparedReport.read(tmp_path / "data")["warnings"]
    assert told == [f"warning: {warning}"]
    assert f"2 documents are no text in the expected encoding and were dropped (2 of 2 in {tmp_path}" in warning
    run(tmp_path / "texts", tmp_path / "mended", heldout_share=0.3, repair=True)
    assert PreparedReport.read(tmp_path / "mended")["warnings"] == []


def heldout_warnings(folder: Path, documents: int, **changes: Any) -> list[str]:
    out = folder / f"data-{documents}-{len(list(folder.iterdir()))}"
    told = warnings(run(write_corpus(folder / "c.txt", documents), out, **changes))
    assert told == PreparedReport.read(out)["warnings"]
    return told


def test_few_documents_held_out_get_a_warning_with_the_share_that_is_enough(tmp_path: Path) -> None:
    (warning,) = heldout_warnings(tmp_path, 219, heldout_share=0.01)
    found = re.fullmatch(
        r"only (\d) of 219 documents held out, so scores on held-out text say little; "
        r"--heldout-share 0\.05 holds out about 10",
        warning,
    )
    assert found
    assert 0 < int(found[1]) < 10
    assert heldout_warnings(tmp_path, 219, heldout_share=0.1) == []
    assert heldout_warnings(tmp_path, 219, heldout_share=0) == []
    (lone,) = heldout_warnings(tmp_path, 1, heldout_share=0.01)
    assert lone.startswith("none of 1 documents held out")


def test_whole_documents_that_are_far_more_than_the_share_asked_for_get_a_warning(tmp_path: Path) -> None:
    few, much = heldout_warnings(tmp_path, 4, heldout_share=0.01)
    assert few.startswith("only 1 of 4 documents held out")
    assert "(of plain text --documents lines makes one of each line)" in few
    data = next(tmp_path.glob("data-4-*"))
    counts = PreparedReport.read(data)["counts"]
    share = counts["heldout_rows"] / (counts["heldout_rows"] + counts["train_rows"])
    assert much.startswith(f"{share:.0%} of the rows are held out where 0.01 was asked for")


@pytest.mark.parametrize("text", ["\u200b", "\u200b\n\n\u200b\u200b\n\n\u200b\u200b\u200b"])
def test_text_without_a_token_is_one_sentence_and_no_data(tmp_path: Path, text: str) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nriver\n")
    (tmp_path / "c.txt").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"no token left to train on \(\d documents for training gave none\); give"):
        list(prepare([str(tmp_path / "c.txt")], tmp_path / "data", given(tmp_path / "vocab.txt"), StopSignal()))
    assert not (tmp_path / "data/manifest.json").exists()


def test_names_that_are_not_utf8_are_read_passed_over_and_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    write_corpus(folder / os.fsdecode(b"\xff\xfe.txt"))
    passed_over = folder / os.fsdecode(b"\xff.doc")
    passed_over.write_bytes(b"no text we know")
    run(folder, tmp_path / "data")
    assert PreparedReport.read(tmp_path / "data")["passed_over"] == [str(passed_over)]
    assert read_json(tmp_path / "data" / MANIFEST)["sources"][0]["path"] == str(folder / os.fsdecode(b"\xff\xfe.txt"))


def test_the_report_tells_fertility_and_the_longest_words(tmp_path: Path, corpus: Path) -> None:
    report = result_of(run(corpus, tmp_path / "data"))["tokenizer"]
    assert 1.0 <= report["tokens_per_word"] < 2.0
    assert report["unknown_share"] == 0.0
    assert report["longest_words"][0]["word"] == "document"


def test_paragraphs_of_chinese_are_not_called_words(tmp_path: Path) -> None:
    lines = [f"港口很平静，年老的水手们在灯塔旁边修补渔网{number}次，船名是Lighthouse。" for number in range(40)]
    (tmp_path / "c.txt").write_text("\n\n".join(lines), encoding="utf-8")
    report = result_of(run(tmp_path / "c.txt", tmp_path / "data"))["tokenizer"]
    assert report["longest_words"][0]["word"] == "Lighthouse"
    assert max(len(found["word"]) for found in report["longest_words"]) <= 10
    assert report["tokens_per_word"] < 2
    assert report["characters_per_word"] < 2


def test_the_tokenizer_files_of_data_keep_their_bytes_because_they_are_part_of_its_identity(
    tmp_path: Path, corpus: Path
) -> None:
    """A run made before resumes on data prepared again: a model folder may tell other libraries more, data may not."""
    run(corpus, tmp_path / "data")
    assert json.loads((tmp_path / "data" / "tokenizer" / "tokenizer_config.json").read_text()) == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
        "model_max_length": 16,
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "is_symbols": False,
    }


def test_prepared_data_gives_its_tokenizer_to_other_data(tmp_path: Path, corpus: Path) -> None:
    run(corpus, tmp_path / "first")
    for place in ("first", "first/tokenizer"):
        out = tmp_path / place.replace("/", "-from-")
        list(prepare([str(corpus)], tmp_path / f"{out.name}-data", given(tmp_path / place), StopSignal()))
        tokenizer = open_data(tmp_path / f"{out.name}-data").tokenizer
        assert tokenizer.to_json() == open_data(tmp_path / "first").tokenizer.to_json()
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: holds neither tokenizer\.json nor vocab\.txt; give a folder"):
        list(prepare([str(corpus)], tmp_path / "other", given(tmp_path / "empty"), StopSignal()))


@pytest.mark.parametrize("name", ["lowercase", "strip_accents", "vocab_size", "kind"])
def test_a_setting_that_a_given_tokenizer_settles_is_not_ignored_silently(
    tmp_path: Path, corpus: Path, name: str
) -> None:
    run(corpus, tmp_path / "first")
    settings = {"path": str(tmp_path / "first/tokenizer"), name: {"vocab_size": 300, "kind": "bpe"}.get(name, False)}
    settings.setdefault("vocab_size", open_data(tmp_path / "first").tokenizer.vocab_size)  # no conflict
    with pytest.raises(UsageError, match=rf"tokenizer\.json: settles tokenizer\.{name} by itself \(got .*\); leave"):
        run(corpus, tmp_path / "data", tokenizer=settings)
    assert not (tmp_path / "data").exists()
    run(
        corpus, tmp_path / "data", tokenizer={**settings, name: None} if name != "vocab_size" and name != "kind" else {}
    )


def test_a_vocab_file_takes_case_but_not_size_from_the_settings(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nriver\nstone\n")
    path = {"path": str(tmp_path / "vocab.txt")}
    with pytest.raises(UsageError, match=r"vocab\.txt: settles tokenizer\.vocab_size by itself \(got 200\)"):
        run(corpus, tmp_path / "data", tokenizer=path)
    config = resolve(
        PrepareConfig, [ConfigLayer("test", {"tokenizer": {**path, "lowercase": False, "kind": "wordpiece"}})]
    )
    list(prepare([str(corpus)], tmp_path / "data", config, StopSignal()))
    tokenizer = open_data(tmp_path / "data").tokenizer
    assert tokenizer.vocab_size == 7
    assert tokenizer.encode("River river").ids.tolist() == [1, 5]


def test_symbols_go_through_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps([f"user {number}", "log in", "log out", 7]) + "\n" for number in range(20)))
    run(path, tmp_path / "data", symbols=True)
    data = open_data(tmp_path / "data")
    assert data.tokenizer.is_symbols
    assert "log in log out 7" in read_back(data, data.train)


def write_log(path: Path, sessions: int = 40) -> Path:
    """Sessions of which each occurs several times, of 1 to 30 events."""
    kinds = [[f"event {(number * step) % 7}" for step in range(1, 2 + 7 * (number % 5))] for number in range(10)]
    path.write_text("".join(json.dumps(kinds[number % 10]) + "\n" for number in range(sessions)))
    return path


def read_rows(out: Path) -> list[list[str]]:
    data = open_data(out)
    rows = [*data.train.take(np.arange(len(data.train))), *data.heldout.take(np.arange(len(data.heldout)))]
    special = data.tokenizer.special
    assert all(row[0] == special.cls for row in rows)
    return [[data.tokenizer.token(int(token)) for token in row if data.tokenizer.is_ordinary[token]] for row in rows]


def test_sessions_of_symbols_are_kept_as_often_as_they_occur_one_a_row(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl")
    run(log, tmp_path / "data", symbols=True)
    expected: list[list[str]] = []
    for session in map(json.loads, log.read_text().splitlines()):
        whole = [session[start : start + 14] for start in range(0, len(session) - 13, 14)]
        expected += [*whole, *([session[-14:]] if len(session) % 14 else [])]
    assert sorted(read_rows(tmp_path / "data")) == sorted(expected)
    assert PreparedReport.read(tmp_path / "data")["counts"]["documents"] == 40
    assert open_data(tmp_path / "data").packing == "documents"


def test_what_is_said_wins_over_the_defaults_of_symbols(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl")
    report = result_of(run(log, tmp_path / "data", symbols=True, **EARLIER))
    assert open_data(tmp_path / "data").packing == "contiguous"
    assert report["dropped"] == {"duplicate": 30}


EARLIER = {"filters": {"duplicates": True}, "packing": {"kind": "contiguous"}}
"""What --symbols took before it had defaults of its own."""


@pytest.mark.parametrize("harm", ["none", "damage", "stop"])
def test_symbols_prepared_before_they_had_defaults_of_their_own_stay_what_they_are(tmp_path: Path, harm: str) -> None:
    log = write_log(tmp_path / "log.jsonl")
    run(log, tmp_path / "whole", symbols=True, **EARLIER)
    make = stop_before_the_end if harm == "stop" else run
    make(log, tmp_path / "data", symbols=True, **EARLIER)
    if harm == "damage":
        (tmp_path / "data/shards/train-00000.npy").unlink()
    told = notes(run(log, tmp_path / "data", symbols=True))
    assert ("the data is there already, nothing to do" in told) == (harm == "none")
    assert open_data(tmp_path / "data").identity == open_data(tmp_path / "whole").identity


def test_data_whose_near_duplicates_were_found_by_the_earlier_rule_stays_valid(
    tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"filters": {"near_duplicates": True}}
    with monkeypatch.context() as patch:  # an identity as it was written then
        patch.setattr(
            "electralab.tokens.prepare.fingerprint_data", lambda *given: without_rule(fingerprint_data(*given))
        )
        run(corpus, tmp_path / "data", **changes)
    before = describe_files(tmp_path / "data")
    assert notes(run(corpus, tmp_path / "data", **changes)) == ["the data is there already, nothing to do"]
    assert describe_files(tmp_path / "data") == before
    (tmp_path / "data/shards/train-00000.npy").unlink()
    with pytest.raises(IdentityMismatch, match=r"is damaged .* and was prepared with another rule for near-duplicates"):
        run(corpus, tmp_path / "data", **changes)


def test_standard_input_is_kept_until_it_is_done(tmp_path: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(corpus, tmp_path / "from-file")
    for _ in range(2):  # the second time only to be told that all is there
        with corpus.open() as file, monkeypatch.context() as patch:
            patch.setattr(sys, "stdin", file)
            run("-", tmp_path / "from-pipe")
        assert open_data(tmp_path / "from-pipe").identity == open_data(tmp_path / "from-file").identity
        assert not (tmp_path / "from-pipe/.build").exists()
    with corpus.open() as file, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", file)
        with pytest.raises(IdentityMismatch):
            run("-", tmp_path / "from-pipe", seed=5)
    assert not (tmp_path / "from-pipe/.build").exists()


def test_a_folder_with_other_things_or_in_use_and_a_path_below_a_file_are_refused(tmp_path: Path, corpus: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/thesis.doc").write_text("years of work")
    with pytest.raises(UsageError, match="holds files that are not prepared data"):
        run(corpus, tmp_path / "mine")
    with pytest.raises(StorageError, match="is a file, not a folder"):
        run(corpus, corpus / "data")
    building = prepare([str(corpus)], tmp_path / "data", config(), StopSignal())
    next(building)
    with pytest.raises(FolderInUse):
        run(corpus, tmp_path / "data")
    building.close()  # type: ignore[attr-defined]


def test_a_plan_reads_sizes_and_writes_nothing(tmp_path: Path, corpus: Path) -> None:
    plan = plan_prepare([str(corpus)], tmp_path / "data", config(), cores=2)
    assert plan.bytes == corpus.stat().st_size
    assert plan.seconds > 0
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.txt"]


def test_large_vocabularies_take_four_bytes_a_token() -> None:
    assert shard_dtype(65_536) is np.uint16
    assert shard_dtype(65_537) is np.uint32


def test_rows_of_several_shards_are_one_table() -> None:
    shards = [np.arange(6, dtype=np.uint16).reshape(2, 3), np.arange(6, 15, dtype=np.uint16).reshape(3, 3)]
    rows = Rows.over(shards, 3)
    assert len(rows) == 5
    assert rows.take(np.array([4, 0, 2])).tolist() == [[12, 13, 14], [0, 1, 2], [6, 7, 8]]
