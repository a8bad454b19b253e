"""What reaches disk, wire or `--json` is a record: a frozen type, written and read in one place, validated once.

file -> Record -> file

Records import nothing of electralab but the foundation, so that every reader (terminal, card, page, study, claims) has
the type that the writer used. Look a value up by its field or its id, never by a sentence that is printed.
"""

import math
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from electralab.artifacts import read_json, write_json
from electralab.config import first_complaint
from electralab.errors import DamagedArtifact, quote

JsonTree = dict[str, JsonValue]
"""Settings and other values that are kept as JSON has them."""


class Record(BaseModel):
    """A value of a file or an answer. Fields that were not given are not written, so what an older version wrote is
    written again as it was.

    Scripts that treat results as dictionaries go on working: `results["dev"]["accuracy"]`.
    """

    # What a newer version adds is not this version's business.
    model_config = ConfigDict(frozen=True, extra="ignore")

    def __getitem__(self, name: str) -> Any:
        if name not in type(self).model_fields:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """As of a dictionary: the default also where the field was not given."""
        return getattr(self, name) if name in self.model_fields_set else default

    def to_json(self) -> JsonTree:
        """The value as JSON has it: only what was given."""
        # Not by way of pydantic's JSON text, which takes no file name that is not UTF-8.
        value: JsonTree = _without_nan(self.model_dump(mode="json", exclude_unset=True, by_alias=True))
        return value


class PlanRecord(Record):
    """What `--dry-run` says would be done."""


class FileRecord(Record):
    """A record with a file of its own in a folder. `version` counts changes that an older reader cannot read."""

    FILE: ClassVar[str]
    version: int = 1

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The folder's file, whole and of the right shape, or one sentence that says what is wrong with it."""
        return cls.parse(read_json(folder / cls.FILE), folder / cls.FILE)

    @classmethod
    def find(cls, folder: Path) -> Self | None:
        """As `read`; None where the folder has no such file."""
        return cls.read(folder) if (folder / cls.FILE).exists() else None

    @classmethod
    def parse(cls, value: object, path: Path) -> Self:
        try:
            return cls.model_validate(value)
        except ValidationError as error:
            wrong = first_complaint(error)
            got = "" if wrong.kind == "missing" else f", got {quote(wrong.given)}"
            where = f"{wrong.name}: " if wrong.name else ""
            raise DamagedArtifact(
                f"{path}: not as electralab writes it ({where}{wrong.message}{got}); "
                "restore the file, or run the command that wrote it again"
            ) from None

    @classmethod
    def newest_version(cls) -> int:
        """What is written today."""
        return int(cls.model_fields["version"].default)

    def write(self, folder: Path) -> None:
        write_json(folder / self.FILE, self.to_json())

    def to_json(self) -> JsonTree:
        return super().to_json() | {"version": self.version}


def _without_nan(value: Any) -> Any:
    """JSON has neither NaN nor infinity: both are null, as in metrics.jsonl."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
