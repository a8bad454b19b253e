"""What have the energies of an Electric run learned? On held-out rows, beside its own generator and the frequencies.

python benchmarks/energies.py --data DATA RUN RUN
"""

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from electralab.model.electra import Discriminator, TwoTower
from electralab.model.folders.folder import load_any
from electralab.objective.corruption import SamplingConfig, sampled_log_probs, special_token_bias
from electralab.objective.registry import measure_unigram
from electralab.tokens.batches import heldout_batches
from electralab.tokens.shards import PreparedData, open_data

Floats = NDArray[np.float64]
SWAPPED = 0.1


def explain_away(values: Floats, by: Floats) -> Floats:
    """What is left of values after the best line through `by`."""
    slope, start = np.polyfit(by, values, 1)
    left: Floats = values - slope * by - start
    return left


@torch.no_grad()
def measure(run: Path, data: PreparedData, rows: int) -> dict[str, float]:
    discriminator, generator = (load_any(run / "export" / name).eval() for name in ("discriminator", "generator"))
    assert isinstance(discriminator, Discriminator)
    assert isinstance(generator, TwoTower)
    log_shares = torch.from_numpy(measure_unigram(data)).float()
    prohibition = special_token_bias(data.tokenizer, torch.device("cpu"))
    rng = torch.Generator().manual_seed(0)
    names = ("energy", "noise", "unigram", "after", "unigram_after", "swapped")
    columns: dict[str, list[torch.Tensor]] = {name: [] for name in names}
    for batch in heldout_batches(data, data.heldout, limit=rows, batch_size=16):
        segments, pad = batch.segment_ids, batch.attention_pad
        positions = batch.is_ordinary.flatten().nonzero().squeeze(1)
        ids = batch.original_ids.flatten()[positions]
        columns["energy"].append(discriminator(batch.original_ids, segments, pad).flatten()[positions])
        guesses = generator(batch.original_ids, segments, pad, positions)
        columns["noise"].append(-sampled_log_probs(guesses, ids, prohibition, SamplingConfig().temperature_at(1.0)))
        columns["unigram"].append(-log_shares[ids])
        is_swapped = (torch.rand(batch.original_ids.shape, generator=rng) < SWAPPED) & batch.is_ordinary
        swapped = batch.original_ids.clone()
        count = int(is_swapped.sum())
        swapped[is_swapped] = torch.multinomial(log_shares.exp(), count, replacement=True, generator=rng)
        columns["after"].append(discriminator(swapped, segments, pad).flatten()[positions])
        columns["unigram_after"].append(-log_shares[swapped.flatten()[positions]])
        columns["swapped"].append((swapped != batch.original_ids).flatten()[positions])
    found = {name: torch.cat(parts).double().numpy() for name, parts in columns.items()}
    energy, noise, unigram = found["energy"], found["noise"], found["unigram"]
    left = explain_away(energy, unigram), explain_away(noise, unigram)
    return {
        "rank correlation of E with -log q": float(spearmanr(energy, noise)[0]),
        "of frequencies with -log q": float(spearmanr(unigram, noise)[0]),
        "correlation, frequencies taken out": float(np.corrcoef(*left)[0, 1]),
        "AUC of E on swapped tokens": float(roc_auc_score(found["swapped"], found["after"])),
        "of frequencies on swapped tokens": float(roc_auc_score(found["swapped"], found["unigram_after"])),
        "mean E": float(energy.mean()),
        "mean -log q": float(noise.mean()),
        "mean of frequencies": float(unigram.mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a finished run of --objective electric")
    parser.add_argument("--data", required=True, type=Path, help="what 'electra prepare' wrote")
    parser.add_argument("--rows", type=int, default=96, help="held-out rows (96)")
    asked = parser.parse_args()
    data = open_data(asked.data)
    for run in asked.runs:
        print(run)
        for name, value in measure(run, data, asked.rows).items():
            print(f"  {name:<36}{value:8.3f}")


if __name__ == "__main__":
    main()
