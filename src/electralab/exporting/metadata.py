"""An exported network -> README.md: what it is, how it is loaded, how well it answers like its model, on what terms.

export.json, config.json -> README.md, LICENSE
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electralab.artifacts import read_json, write_file
from electralab.errors import InputError, suggest
from electralab.model.folders.hf_config import CONFIG
from electralab.records.export import ExportRecord

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
    """A file's text, or the identifier of a known license."""
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


# By what a network is asked for.
_SUBJECTS = {
    "verdicts": "ELECTRA's discriminator: for every token a logit, above 0 where the token looks replaced.",
    "energies": "Electric's discriminator: for every token an energy, minus the logarithm of how likely the text makes "
    "it, up to a constant. It does not say which tokens were replaced.",
    "guesses": "A network that guesses tokens: logits over the vocabulary.",
    "classes": "A text encoder tuned to classify texts: a logit for each class.",
    "numbers": "A text encoder tuned to give each text a number, in the units of the labels it was tuned on.",
    "tags": "A text encoder tuned to tag words: for every token a logit for each tag.",
    "spans": "A text encoder tuned to answer questions: for every token how likely the answer begins, and ends, there.",
}
_INPUTS = """- `input_ids`, `attention_mask` (1 for tokens, 0 for padding) and, where the network has segments,
  `token_type_ids`: int64, rows × length, any number of rows, up to {length} tokens"""


def write_metadata(folder: Path, record: ExportRecord, license: License) -> None:
    """What an export says of itself, for programs and for people, and its terms."""
    record.write(folder)
    write_license(folder, license)


def write_license(folder: Path, license: License) -> None:
    """The terms and the card of a folder that has its export.json."""
    export = ExportRecord.read(folder).to_json()
    write_file(folder / LICENSE, license.text)
    write_file(folder / "README.md", compose_portable_card(export, read_json(folder / CONFIG), license.name))


def compose_portable_card(export: dict[str, Any], config: dict[str, Any], license: str) -> str:
    is_graph = export["format"].startswith("onnx")
    classes = config.get("architectures") or []
    # The one output of a number or an energy has a name in config.json too, which says nothing.
    names = {} if export["subject"] in ("numbers", "energies") else config.get("id2label") or {}
    labels = f"\nLabels, in the order of the logits: {', '.join(f'`{name}`' for name in names.values())}.\n"
    return f"""---
license: {license}
library_name: {"onnx" if is_graph else "transformers" if classes else "electralab"}
tags: [electra, {export["network"]}, electralab]
---

# {export["network"]}

{_SUBJECTS[export["subject"]]} {config["num_hidden_layers"]} layers, hidden size {config["hidden_size"]}, \
{config["vocab_size"]:,} tokens, as {_FORMATS[export["format"]]}. Exported with electralab.
{labels if names else ""}
## Use

{_describe_graph(export, config) if is_graph else _describe_class(classes)}

Every verb of electralab that asks a model takes this folder too; `manifest.json` has the size and SHA-256 of each
file, which are checked when it is loaded.

{_describe_check(export) if "words" in export else ""}## Limits

It knows the text it was trained on, with its errors and its bias, and nothing else.
"""


_FORMATS = {
    "hf": "a folder for `transformers`",
    "fp32": "weights in 32 bits",
    "fp16": "weights in 16 bits (fp16)",
    "bf16": "weights in 16 bits (bf16)",
    "onnx": "an ONNX graph in 32 bits",
    "onnx-int8": "an ONNX graph in 8 bits",
}


def _describe_check(export: dict[str, Any]) -> str:
    origin = export.get("of", "the model it was made of")
    lines = "\n".join(f"| {what} | {value} |" for what, value in export["words"].items())
    return f"""## Checked when it was exported

On {export["rows"]:,} rows of text ({export["answers"]:,} answers) against {origin}:

| | |
|---|---|
{lines}

"""


def _describe_class(classes: list[str]) -> str:
    if not classes:
        return "No class of transformers expresses this network as it is."
    names = ", ".join(["AutoTokenizer", *classes])
    loading = "\n".join(f'network = {name}.from_pretrained("FOLDER")' for name in classes)
    return f"""```python
from transformers import {names}

tokenizer = AutoTokenizer.from_pretrained("FOLDER")
{loading}
```"""


def _describe_graph(export: dict[str, Any], config: dict[str, Any]) -> str:
    lines = [_INPUTS.format(length=config["max_position_embeddings"])]
    if export["kind"] == "generator":
        lines.append("- `positions`: int64, row × length of the row + column of each masked token to guess")
        lines.append("- out come `logits`, positions × vocabulary")
    elif export["kind"] == "discriminator":
        what = "`logits`, the energies," if export["subject"] == "energies" else "`logits`,"
        lines.append(f"- out come {what} rows × length, and `states`, rows × length × hidden size")
    else:
        lines.append("- out come `logits`")
    inputs = "\n".join(lines)
    return f"""```python
import onnxruntime

session = onnxruntime.InferenceSession("FOLDER/model.onnx")
```

{inputs}"""
