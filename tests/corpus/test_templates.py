"""Templates of a small log that can be checked by eye."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electralab.corpus.templates import TemplateMiner, TemplateTree, split_message
from electralab.records.logs import LogTemplate


def mine(*messages: str) -> list[LogTemplate]:
    miner = TemplateMiner()
    for message in messages:
        miner.add(message)
    return miner.find()


def templates_of(*messages: str) -> list[str]:
    return [template.template for template in mine(*messages)]


@pytest.mark.parametrize(
    ("message", "pieces"),
    [
        ("took 3.5 ms", "took <*>"),
        ("from /10.0.0.7:50010 to node-3.lab.org:22", "from <*> to <*>"),
        ("open /var/log/syslog.1 failed", "open <*> failed"),
        ("uid=0 user=root tty=", "uid = <*> user = <*> tty ="),
        ("id 01:3f:22:aa", "id <*>"),
        ("size 64 KB, free 2.1 GB", "size <*> , free <*>"),
        ("args () and (x)", "args ( <*> ) and ( x )"),
        ("blocks blk_1 <ok> blk_2 <ok> blk_3 <ok>", "blocks <*> < ok >"),
        ("at Sun Jul 17 15:09:16 2005", "at <*>"),
    ],
)
def test_what_looks_like_a_value_is_masked(message: str, pieces: str) -> None:
    assert " ".join(split_message(message).pieces) == pieces


def test_a_word_is_a_value_where_others_in_its_place_hold_digits() -> None:
    assert templates_of("Invalid user admin from 1.2.3.4", "Invalid user test1 from 1.2.3.4") == [
        "Invalid user <*> from <*>"
    ]


def test_two_words_in_a_place_are_two_events_unless_something_shows_that_they_are_values() -> None:
    messages = ("cupsd startup succeeded", "cupsd shutdown succeeded")
    assert templates_of(*messages) == list(messages)


def test_a_word_that_is_a_value_elsewhere_is_a_value() -> None:
    messages = ("session opened for user root", "session opened for user news", "login failed user=root")
    assert templates_of(*messages) == ["session opened for user <*>", "login failed user=<*>"]


def test_many_different_words_in_one_place_are_values() -> None:
    assert len(templates_of(*(f"no such host {chr(97 + number)}lpha" for number in range(9)))) == 9
    assert templates_of(*(f"no such host {chr(97 + number)}lpha" for number in range(10))) == ["no such host <*>"]


def test_the_first_word_says_what_a_message_is_about() -> None:
    assert len(templates_of(*(f"{chr(97 + number)}lpha started" for number in range(20)))) == 20


def test_templates_are_counted_and_named_in_their_order() -> None:
    first, second = mine("b 1", "a x", "b 2")
    assert (first.event, first.template, first.lines, first.example) == ("E1", "b <*>", 2, "b 1")
    assert (second.event, second.lines) == ("E2", 1)


def test_a_new_message_finds_its_event_and_an_unknown_one_finds_none() -> None:
    tree = TemplateTree(mine("Invalid user admin from 1.2.3.4", "Invalid user test1 from 1.2.3.4", "done"))
    assert tree.find("Invalid user somebody from 9.9.9.9") == "E1"
    assert tree.find("Invalid user from 9.9.9.9") is None
    assert tree.find("done now") is None


def test_the_more_exact_of_two_templates_is_found() -> None:
    tree = TemplateTree(mine("open 7 for all", "open door for 8"))
    assert [tree.find(f"open {what}") for what in ("window for all", "door for all", "door for us")] == [
        "E1",
        "E2",
        "E2",
    ]


@given(st.lists(st.text(max_size=40), max_size=20))
def test_every_message_finds_an_event_among_its_own_templates(messages: list[str]) -> None:
    tree = TemplateTree(mine(*messages))
    assert None not in [tree.find(message) for message in messages]


def test_a_message_without_end_is_cut_between_words() -> None:
    pieces = split_message("word " * 10_000).pieces
    assert set(pieces) == {"word"}
    assert len(pieces) < 1000
