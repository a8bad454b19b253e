"""The statuses that scripts rely on, and the tree in the docstring that tells people about them."""

import inspect
import re
import signal

import pytest

from electralab import errors
from electralab.errors import ElectraError, Stopped, UsageError, suggest

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, ElectraError)]


@pytest.mark.parametrize("kind", KINDS)
def test_only_wrong_usage_has_status_two(kind: type[ElectraError]) -> None:
    assert kind("sentence").status == (2 if kind is UsageError else 1)


def test_tree_in_the_docstring_names_every_exception() -> None:
    drawn = set(re.findall(r"^[ │├└─]*([A-Z]\w+)  ", errors.__doc__ or "", flags=re.MULTILINE))
    assert drawn == {kind.__name__ for kind in KINDS} | {"Stopped"}


def test_stopped_carries_the_status_a_shell_expects() -> None:
    assert Stopped(signal.SIGINT).status == 130
    assert Stopped(signal.SIGTERM).status == 143


def test_handler_of_failures_does_not_swallow_a_stop() -> None:
    assert not issubclass(Stopped, Exception)


@pytest.mark.parametrize(
    ("name", "sentence"), [("mask_shares", "did you mean 'mask_share'?"), ("zzz", "known are mask_share")]
)
def test_a_name_that_nobody_knows_is_answered_with_the_nearest(name: str, sentence: str) -> None:
    assert suggest(name, ["mask_share", "seed"], "known are mask_share") == sentence
