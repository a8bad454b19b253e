"""The submission files of GLUE's tasks -> a zip as GLUE's server takes it.

RUN/TASK/submission/CoLA.tsv... -> RUN/submission-best-seed.zip, RUN/submission-ensemble.zip
"""

import io
import zipfile
from pathlib import Path

from electralab.artifacts import write_file
from electralab.finetuning.tasks import GLUE, TASKS
from electralab.records.glue import SubmissionZip

BEST_SEED = "submission"
"""The folder, in the run of a task, of what its best seed predicts."""
ENSEMBLE = "submission-ensemble"
"""The folder of what all its seeds predict together."""

_ZIPS = {"best_seed": (BEST_SEED, "submission-best-seed.zip"), "ensemble": (ENSEMBLE, "submission-ensemble.zip")}

# By the name that the server expects, the task whose run writes the file.
_TASK_OF = {file: name for name in GLUE for file in TASKS[name].submissions.values()} | {TASKS["ax"].submission: "mnli"}

# The earliest that the format knows.
_NO_TIME = (1980, 1, 1, 0, 0, 0)


def write_submission_zips(run_dir: Path) -> dict[str, SubmissionZip]:
    """By what predicted them, `best_seed` or `ensemble`; none where no task has submission files."""
    written = {}
    for name, (folder, file) in _ZIPS.items():
        paths = {wanted: run_dir / task / folder / wanted for wanted, task in _TASK_OF.items()}
        found = {wanted: path.read_bytes() for wanted, path in paths.items() if path.is_file()}
        if not found:
            continue
        write_file(run_dir / file, _zip(found))
        written[name] = SubmissionZip(
            file=file, holds=tuple(found), missing=tuple(wanted for wanted in paths if wanted not in found)
        )
    return written


def _zip(files: dict[str, bytes]) -> bytes:
    """The same bytes for the same files: no times, and stored, because what deflate writes depends on its version."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _NO_TIME)
            entry.create_system = 3  # Unix on every system, so that the permissions are read as such
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content)
    return packed.getvalue()
