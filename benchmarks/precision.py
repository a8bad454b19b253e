"""What bf16 costs in quality and gains in speed: runs of one preset in both precisions, seeds side by side.

    python benchmarks/precision.py --data DATA [--config tiny] [--steps 1500] [--seeds 3] [--out DIR] [--json FILE]

Without --data the sample text that comes with the package is prepared. Each run is `electra pretrain` with one worker
in a process of its own, so that a seed has the same rows, masks and first weights in both precisions; they take turns.
A run that is finished is not repeated where --out is given. Shown are the held-out losses and AUC at equal steps, by
seed; the mean difference between precisions; and the spread between seeds, which a difference has to exceed to mean
anything.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PRECISIONS = ("fp32", "bf16")
SCORES = ("generator_loss", "discriminator_loss", "auc")


def train(arguments: argparse.Namespace, data: Path, out: Path, seed: int, precision: str) -> dict[str, float]:
    run = out / f"{precision}-{seed}"
    words = ["pretrain", "--data", str(data), "--out", str(run), "--config", arguments.config]
    words += ["--steps", str(arguments.steps), "--seed", str(seed), "--runtime.precision", precision]
    words += ["--workers", "1", "--threads", "1", "--evaluation.times", "1", "--keep", "1", "--json"]
    done = subprocess.run([sys.executable, "-m", "electralab", *words], check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"{run}: ended with status {done.returncode}")
    result = json.loads(done.stdout)
    heldout = {name: result["heldout"][name] for name in SCORES if name in result["heldout"]}
    return heldout | {"seconds": result["seconds"]}


def prepare_sample(folder: Path) -> Path:
    import electralab
    from electralab.corpus.samples import write_bundled_text
    from electralab.display import Display

    write_bundled_text(folder / "text")
    electralab.prepare(sorted((folder / "text").glob("*.txt")), folder / "data", display=Display(quiet=True))
    return folder / "data"


def compare(by_precision: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Of each score: means, the mean difference of pairs of one seed, and how far seeds of fp32 lie apart."""
    rows: dict[str, dict[str, float]] = {}
    for name in by_precision["fp32"][0]:
        values = {precision: [scores[name] for scores in seeds] for precision, seeds in by_precision.items()}
        pairs = [low - full for low, full in zip(values["bf16"], values["fp32"], strict=True)]
        rows[name] = {precision: statistics.mean(some) for precision, some in values.items()}
        rows[name] |= {"difference": statistics.mean(pairs)}
        if len(pairs) > 1:
            rows[name] |= {"of_pairs": statistics.stdev(pairs), "of_seeds": statistics.stdev(values["fp32"])}
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--config", default="tiny")
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = arguments.data or prepare_sample(Path(folder))
        by_precision: dict[str, list[dict[str, float]]] = {precision: [] for precision in PRECISIONS}
        for seed in range(arguments.seeds):
            for precision in PRECISIONS:
                scores = train(arguments, data, arguments.out or Path(folder), seed, precision)
                by_precision[precision].append(scores)
                shown = ", ".join(f"{name} {value:.4f}" for name, value in scores.items())
                print(f"seed {seed} {precision}: {shown}", flush=True)
    rows: dict[str, Any] = compare(by_precision)
    print(f"{'':<22}{'fp32':>10}{'bf16':>10}{'difference':>12}{'+- of pairs':>13}{'+- of seeds':>13}")
    for name, row in rows.items():
        spread = "".join(f"{row.get(key, float('nan')):>13.4f}" for key in ("of_pairs", "of_seeds"))
        print(f"{name:<22}{row['fp32']:>10.4f}{row['bf16']:>10.4f}{row['difference']:>+12.4f}{spread}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"runs": by_precision, "compared": rows}, indent=1))


if __name__ == "__main__":
    main()
