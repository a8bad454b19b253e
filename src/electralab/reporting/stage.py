"""Folders -> a page, as a file.

RUN... -> report.html
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from electralab.artifacts import write_file
from electralab.reporting.composing import Advice, advise_nothing, compose_page
from electralab.reporting.subjects import Subject, Tree, find_kind, name_subjects, read_subject


def read_subjects(paths: Sequence[Path], examples: Sequence[Tree] = ()) -> list[Subject]:
    """`examples` are those of the first, in place of what its folder holds."""
    subjects = [read_subject(path, name) for path, name in zip(paths, name_subjects(paths), strict=True)]
    return [replace(subjects[0], examples=list(examples)), *subjects[1:]] if examples else subjects


def write_report(
    paths: Sequence[Path], out: Path, advise: Advice = advise_nothing, examples: Sequence[Tree] = ()
) -> dict[str, Any]:
    """The page of one folder or the comparison of several; returns what it is about and what could not be read."""
    subjects = read_subjects(paths, examples)
    page = compose_page(subjects, advise)
    write_file(out, page)
    return {
        "out": str(out),
        "bytes": len(page.encode()),
        "subjects": [{"name": one.name, "kind": one.kind, "path": str(one.path)} for one in subjects],
        "warnings": [text for one in subjects for text in (*advise(one), *one.troubles)],
    }


def plan_report(paths: Sequence[Path], out: Path | None) -> dict[str, Any]:
    kinds = {str(path): find_kind(path) for path in paths}
    return {"subjects": kinds, "out": None if out is None else str(out)}
