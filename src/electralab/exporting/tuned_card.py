"""A finished fine-tuning run -> README.md, a model card filled in from what the run wrote down itself.

run folder -> README.md
"""

from pathlib import Path
from typing import Any

from electralab.artifacts import read_json, write_file
from electralab.exporting.tuned_scores import BASELINE_COLUMNS, choose_report, describe_tuned


def write_tuned_card(run_dir: Path) -> None:
    run, results = read_json(run_dir / "run.json"), read_json(run_dir / "results.json")
    folder = run_dir / "export" / "model"
    model, num_texts = read_json(folder / "config.json"), read_json(folder / "task.json")["num_texts"]
    write_file(run_dir / "README.md", compose_tuned_card(run_dir.resolve().name, run, results, model, num_texts))


def compose_tuned_card(
    name: str, run: dict[str, Any], results: dict[str, Any], model: dict[str, Any], num_texts: int
) -> str:
    settings, count = run["settings"], len(results["seeds"])
    kind = next(iter(model.get("architectures") or []), "")
    # The output of a regression has a name in config.json too, which says nothing.
    names = {} if model.get("problem_type") == "regression" else model.get("id2label") or {}
    labels = ", ".join(f"`{label}`" for label in names.values())
    return f"""---
library_name: {"transformers" if kind else "electralab"}
tags: [electra, {results["task"]}, electralab]
---

# {name}

A text encoder tuned with electralab on the task `{results["task"]}`{f", for the labels {labels}" if labels else ""}.

| | |
|---|---|
| encoder | {model["num_hidden_layers"]} layers, hidden {model["hidden_size"]}, {model["num_attention_heads"]} heads\
{", random at the start" if settings["from_scratch"] else ""} |
| steps, batch | {results["steps"]:,}, {settings["batch"]["size"]} |
| learning rate, layer-wise decay | {settings["optimizer"]["learning_rate"]:g}, \
{settings["optimizer"]["layer_decay"]:g} |
| row length, head | {settings["sequence_length"]}, {settings["head"]["style"]} |
| seeds | {count}, from {settings["seed"]}; the exported model is that of seed {results["best_seed"]}, the best |
| data, model | sha256 {run["data"][:16]}…, {run["model"][:16]}… |

## Scores

{_tabulate_scores(results)}
{_explain_scores(results)}
{_tabulate_classes(*choose_report(results))}
![learning curve](learning-curve.png)

## Use

```python
import electralab

electralab.load("{name}").predict({_example(model, num_texts)})
```

{_describe_loading(kind, "electralab_network" in model)}

## Limits

It knows the examples named above and what its encoder read before. Scores on other texts can be much lower.
"""


def _tabulate_scores(results: dict[str, Any]) -> str:
    head, rows = describe_tuned(results)
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])


def _explain_scores(results: dict[str, Any]) -> str:
    baselines = results.get("baselines", {})
    lines = [f"- {BASELINE_COLUMNS.get(name, name)}: {_cell(of['what'])}" for name, of in baselines.items()]
    lines += [f"- {_cell(note)}" for note in results.get("notes", [])]
    if len(results["seeds"]) > 1:
        lines.append("- the best of several seeds, chosen by its dev scores, is flattered by them: compare medians")
    return "\n".join(["", *lines]) if lines else ""


def _tabulate_classes(split: str, report: dict[str, Any]) -> str:
    classes = report.get("classes", [])
    if not classes:
        return ""
    rows = ["", f"| class, {split} | precision | recall | F1 | examples |", "|---|---|---|---|---|"]
    rows += [
        f"| {_cell(of['name'])} | {of['precision']:.3f} | {of['recall']:.3f} | {of['f1']:.3f} | {of['support']:,} |"
        for of in classes
    ]
    return "\n".join([*rows, *_tabulate_confusion(report, [_cell(of["name"]) for of in classes]), ""])


def _cell(text: str) -> str:
    """A bar would end the cell, also behind a backslash, and a line break the row."""
    return " ".join(text.replace("|", "&#124;").split())


def _tabulate_confusion(report: dict[str, Any], names: list[str]) -> list[str]:
    if "confusion" not in report or len(names) > 12:
        return []
    return [
        "",
        f"| true, predicted as | {' | '.join(names)} |",
        "|---" * (len(names) + 1) + "|",
        *(f"| {name} | {' | '.join(map(str, row))} |" for name, row in zip(names, report["confusion"], strict=True)),
    ]


def _example(model: dict[str, Any], num_texts: int) -> str:
    if model["electralab"]["task"] == "qa":
        return '[("Who wrote it?", "It was written by Ada.")]'
    return '[("a text", "another")]' if num_texts == 2 else '["a text"]'


def _describe_loading(kind: str, is_own: bool) -> str:
    if kind:
        return f'It also loads as `transformers.{kind}.from_pretrained("export/model")`, with the same logits.'
    if is_own:
        return "No class of transformers expresses this network; the verbs of electralab take it as it is."
    return "No class of transformers has this head; tune with `--head huggingface` for a model that loads there."
