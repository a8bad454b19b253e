"""Numbers by name as a text file, written on a known machine: held to the last bit there, nearly elsewhere."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from golden_losses import describe_machine


def write_lines(path: Path, lines: Mapping[str, Sequence[str]]) -> None:
    head = [f"# {name} {value}" for name, value in describe_machine().items()]
    rows = [f"{name}\t{' '.join(values)}" for name, values in lines.items()]
    path.write_text("\n".join([*head, *rows, ""]))


def read_lines(path: Path) -> tuple[bool, dict[str, list[str]]]:
    """Whether they were written on a machine like this one, and each name with its values."""
    text = path.read_text().splitlines()
    head = dict(line.split()[1:3] for line in text if line.startswith("# "))
    rows = (line.split("\t") for line in text if not line.startswith("# "))
    return head == describe_machine(), {name: values.split() for name, values in rows}


def assert_near(values: Sequence[str], golden: Sequence[str], rel: float, name: str) -> None:
    """Numbers that are near each other; what is no number is the same."""
    assert len(values) == len(golden), name
    for value, wanted in zip(values, golden, strict=True):
        try:
            number = float(wanted)
        except ValueError:
            assert value == wanted, name
        else:
            assert float(value) == pytest.approx(number, rel=rel, abs=rel, nan_ok=True), name
