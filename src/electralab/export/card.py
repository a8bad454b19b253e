"""A finished run -> README.md, a model card filled in from what the run wrote down itself.

run folder -> README.md
"""

from pathlib import Path
from typing import Any

from electralab.artifacts import read_json, write_file


def write_card(run_dir: Path) -> None:
    run, results = read_json(run_dir / "run.json"), read_json(run_dir / "results.json")
    judge, guesser = (
        read_json(run_dir / "export" / role / "config.json")["architectures"][0]
        for role in ("discriminator", "generator")
    )
    write_file(run_dir / "README.md", compose_card(run_dir.name, run, results, judge=judge, guesser=guesser))


def compose_card(name: str, run: dict[str, Any], results: dict[str, Any], *, judge: str, guesser: str) -> str:
    settings, heldout, baselines = run["settings"], results["heldout"], results["baselines"]
    model = settings["model"]
    return f"""---
library_name: transformers
tags: [electra, replaced-token-detection, electralab]
---

# {name}

An ELECTRA of size `{settings["size"]}` on the `{model["backbone"]}` backbone, pre-trained with electralab: a generator
guesses masked tokens, a discriminator says for every token whether it was replaced.

| | |
|---|---|
| discriminator | {model["num_layers"]} layers, hidden {model["hidden_size"]}, {model["num_heads"]} heads |
| steps, tokens, FLOPs | {results["step"]:,}, {results["tokens"]:,}, {results["flops"]:.3g} |
| batch, mask share, λ | {settings["batch"]["size"]}, {settings["masking"]["mask_share"]}, \
{settings["loss"]["discriminator_weight"]:g} |
| optimizer, learning rate | {settings["optimizer"]["kind"]}, {settings["optimizer"]["learning_rate"]:g} |
| seed, threads | {settings["seed"]}, {run["threads"]} |
| data | sha256 {run["data"][:16]}… |

## Held-out scores

| | model | baseline |
|---|---|---|
| generator loss (nats) | {heldout["generator_loss"]:.3f} | {baselines["generator_loss"]:.3f}, token frequencies |
| generator accuracy | {heldout["generator_accuracy"]:.3f} | {baselines["generator_accuracy"]:.3f}, the most frequent |
| discriminator loss | {heldout["discriminator_loss"]:.4f} | {baselines["discriminator_loss"]:.4f}, share of replaced |
| discriminator AUC | {heldout["auc"]:.3f} | 0.500 |
| recall on replaced | {heldout["recall"]:.3f} | {heldout["called_replaced"]:.3f}, as many at random |

Held-out AUC depends on the generator it is measured against: compare it between runs only where that is the same.

## Use

```python
from transformers import AutoTokenizer, {judge}, {guesser}

tokenizer = AutoTokenizer.from_pretrained("export/discriminator")
discriminator = {judge}.from_pretrained("export/discriminator")
generator = {guesser}.from_pretrained("export/generator")
```

Or in the shell: `electra detect {name} "some text"`.

## Limits

Trained on the data named above and nothing else; it knows what that text shows, with its errors and its bias. A high
p_replaced says that a token is unexpected in its context, not that it is wrong.
"""
