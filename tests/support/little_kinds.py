"""The kind of an example by its type, so that tests can speak of examples alone."""

from collections.abc import Sequence
from typing import Any

from electralab.tasks.features import EncodedSplit, FeatureEncoder
from electralab.tasks.kind import AnyKind
from electralab.tasks.kinds import KINDS
from electralab.tasks.kinds.classification import ClassificationExample
from electralab.tasks.kinds.regression import RegressionExample
from electralab.tasks.kinds.tagging import TaggingExample

_NAMES = {ClassificationExample: "classify", RegressionExample: "regress", TaggingExample: "label"}


def kind_of(examples: Sequence[Any]) -> AnyKind:
    return KINDS[_NAMES.get(type(examples[0]), "qa")]


def encode(encoder: FeatureEncoder, examples: Sequence[Any], *, is_labelled: bool) -> EncodedSplit[Any]:
    return kind_of(examples).encode(encoder, examples, is_labelled=is_labelled)
