"""What goes along with an exported network: export.json, a card, and the terms on which it may be used.

ExportRecord, License -> export.json, README.md, LICENSE
"""

from dataclasses import dataclass
from pathlib import Path

from electralab.artifacts import write_file
from electralab.errors import InputError, suggest
from electralab.records.export import ExportRecord
from electralab.reporting.cards import write_export_card

LICENSE = "LICENSE"


@dataclass(frozen=True, slots=True)
class License:
    name: str
    """An SPDX identifier, "other" for a text of one's own, "unknown" where nothing was said."""
    text: str


# As SPDX spells them.
_KNOWN = (
    *("Apache-2.0", "MIT", "BSD-3-Clause", "GPL-3.0", "AGPL-3.0", "LGPL-3.0", "MPL-2.0", "Unlicense", "CC0-1.0"),
    *("CC-BY-4.0", "CC-BY-SA-4.0", "CC-BY-NC-4.0", "CC-BY-NC-SA-4.0", "CC-BY-ND-4.0", "OpenRAIL"),
)
_UNSAID = """No licence was stated for these weights: the rights are with those who trained them.
State one with: electra export MODEL --license NAME (such as apache-2.0, mit, cc-by-4.0) or --license FILE.
"""


def read_license(given: str) -> License:
    """A file's text, or the identifier of a known license.

    >>> read_license("MIT").name, read_license("").name
    ('mit', 'unknown')
    """
    if not given:
        return License("unknown", _UNSAID)
    path = Path(given)
    if path.is_file():
        try:
            return License("other", path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as text ({error}); give another --license") from None
    known = {name.lower(): name for name in _KNOWN}
    if given.lower() not in known:
        hint = suggest(given.lower(), known, f"known are {', '.join(known)}")
        raise InputError(f"--license: {given!r} is neither a file nor an identifier that we know; {hint}")
    return License(given.lower(), _state(known[given.lower()]))


def find_license(given: str, folder: Path) -> License:
    """The one that is given, or that the model's own folder states."""
    if given or not (folder / LICENSE).is_file():
        return read_license(given)
    stated = read_license(str(folder / LICENSE))
    known = next((name for name in _KNOWN if stated.text == _state(name)), None)
    name = known.lower() if known else "unknown" if stated.text == _UNSAID else "other"
    return License(name, stated.text)


def _state(name: str) -> str:
    return f"SPDX-License-Identifier: {name}\n"


def write_metadata(folder: Path, record: ExportRecord, license: License) -> None:
    """What an export says of itself, for programs and for people, and its terms."""
    record.write(folder)
    write_license(folder, license)


def write_license(folder: Path, license: License) -> None:
    """The terms and the card of a folder that has its export.json."""
    write_file(folder / LICENSE, license.text)
    write_export_card(folder, license.name)
