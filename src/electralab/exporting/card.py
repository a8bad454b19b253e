"""A finished run -> README.md, a model card filled in from what the run wrote down itself.

run folder -> README.md
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from electralab.artifacts import read_json, write_file
from electralab.exporting.scores import describe_scores

# What was learned, by the name of the objective.
_LEARNED = {
    "electra": "a generator guesses masked tokens, a discriminator says for every token whether it was replaced",
    "electra-15": "a generator guesses masked tokens, a discriminator says of these whether each was replaced",
    "electric": "a discriminator tells tokens from samples of a two-tower noise by how likely the text makes each",
    "replace-mlm": "a generator replaces masked tokens, a model guesses what stood where it did",
    "all-tokens-mlm": "a generator replaces masked tokens, a model guesses every token, replaced or not",
    "mlm": "a model guesses masked tokens",
    "bert": "a model guesses masked tokens, and whether one segment follows the other",
    "causal": "a model guesses each token from those before it",
    "permutation": "a model guesses tokens from those before them in a random order",
}


def write_card(run_dir: Path) -> None:
    run, results = read_json(run_dir / "run.json"), read_json(run_dir / "results.json")
    networks = {
        path.parent.name: next(iter(read_json(path).get("architectures") or []), "")
        for path in sorted((run_dir / "export").glob("*/config.json"))
    }
    write_file(run_dir / "README.md", compose_card(run_dir.resolve().name, run, results, networks))


def compose_card(name: str, run: dict[str, Any], results: dict[str, Any], networks: Mapping[str, str]) -> str:
    """`networks`: for each folder of the export the class of transformers that loads it, or ""."""
    settings = run["settings"]
    model, objective = settings["model"], settings.get("objective", "electra")
    return f"""---
library_name: {"transformers" if any(networks.values()) else "electralab"}
tags: [electra, {objective}, electralab]
---

# {name}

A text encoder of size `{settings["size"]}` on the `{model["backbone"]}` backbone, pre-trained with electralab by the
objective `{objective}`: {_LEARNED[objective]}.

| | |
|---|---|
| {"discriminator" if "discriminator" in networks else "model"} | {model["num_layers"]} layers, \
hidden {model["hidden_size"]}, {model["num_heads"]} heads |
| steps, tokens, FLOPs | {results["step"]:,}, {results["tokens"]:,}, {results["flops"]:.3g} |
{_describe_batch(settings, networks)}
| optimizer, learning rate | {settings["optimizer"]["kind"]}, {settings["optimizer"]["learning_rate"]:g} |
| seed, threads | {settings["seed"]}, {run["threads"]} |
| data | sha256 {run["data"][:16]}… |

## Held-out scores

{_tabulate_scores(results)}

## Use

{_describe_loading(networks)}

{_describe_asking(name, objective, networks)}

## Limits

Trained on the data named above and nothing else; it knows what that text shows, with its errors and its bias.{
        _LIMIT if _passes_verdicts(objective, networks) else ""
    }
"""


_LIMIT = """ A high
p_replaced says that a token is unexpected in its context, not that it is wrong."""


def _describe_batch(settings: dict[str, Any], networks: Mapping[str, str]) -> str:
    parts = {"batch": str(settings["batch"]["size"])}
    if settings.get("objective") != "causal":
        parts["mask share"] = str(settings["masking"]["mask_share"])
    if "discriminator" in networks:
        parts["λ"] = f"{settings['loss']['discriminator_weight']:g}"
    return f"| {', '.join(parts)} | {', '.join(parts.values())} |"


def _tabulate_scores(results: dict[str, Any]) -> str:
    rows = ["| | model | baseline |", "|---|---|---|"]
    for line in describe_scores(results):
        baseline = f"{line.baseline}, {line.meaning}" if line.baseline else ""
        rows.append(f"| {line.name} | {line.value} | {baseline} |")
    if "auc" in results["heldout"]:
        rows += ["", "Held-out AUC depends on the generator it is measured against: compare it between runs only where"]
        rows.append("that is the same.")
    return "\n".join(rows)


def _describe_loading(networks: Mapping[str, str]) -> str:
    """The classes of transformers that load the folders, in code, and what loads the others."""
    classes = {role: kind for role, kind in networks.items() if kind}
    lines = []
    if classes:
        first = next(iter(classes))
        lines += ["```python", f"from transformers import {', '.join(['AutoTokenizer', *sorted({*classes.values()})])}"]
        lines += ["", f'tokenizer = AutoTokenizer.from_pretrained("export/{first}")']
        lines += [f'{role} = {kind}.from_pretrained("export/{role}")' for role, kind in classes.items()]
        lines.append("```")
    for role in (role for role, kind in networks.items() if not kind):
        lines += [""] if lines else []
        lines.append(f"No class of transformers expresses `export/{role}`; the verbs of electralab take it as it is.")
    return "\n".join(lines)


def _passes_verdicts(objective: str, networks: Mapping[str, str]) -> bool:
    """Energies are none."""
    return "discriminator" in networks and objective != "electric"


def _describe_asking(name: str, objective: str, networks: Mapping[str, str]) -> str:
    if _passes_verdicts(objective, networks):
        return f'Or in the shell: `electra detect {name} "some text"`.'
    return f"Or in the shell: `electra finetune {name} --task TASK --data FOLDER --out RUN`."
