"""Pre-training speed: ours against the straightforward loop on transformers, step by step in one run.

    OMP_WAIT_POLICY=passive python benchmarks/pretrain_throughput.py [--shapes tiny small] [--steps 8] [--json]

The peer is what people write: generator `ElectraForMaskedLM`, discriminator `ElectraForPreTraining`, shared embeddings,
default dropout, [MASK]ed copies of the rows, Gumbel sampling over the vocabulary, AdamW. Both see random rows of one
shape. Steps are interleaved, so that a noisy machine is noisy for both; the figure is the median of paired ratios. The
share of the peak is our matrix-product FLOPs per second over those of a large square product measured in the same run:
"of peak" by the product measured beside each step, "of best" by the fastest one of the run.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count

import numpy as np
import torch
from torch import Tensor
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

from electralab.config import ConfigLayer
from electralab.model.electra import build_electra, parameter_depths
from electralab.model.flops import step_flops
from electralab.model.settings import derive_encoders
from electralab.objective.corruption import SamplingConfig
from electralab.objective.electra import electra_forward
from electralab.objective.masking import MaskingConfig, MaskVocabulary, mask_tokens
from electralab.pretraining.settings import PretrainConfig, read_settings, resolve_pretrain
from electralab.pretraining.task import hidden_matrices
from electralab.randomness import Rng
from electralab.runtime import default_threads, describe_waiting, use_exact_arithmetic
from electralab.stopping import StopSignal
from electralab.tokens.batches import Batch
from electralab.training.loop import LossScale, StepReport, TrainStep, train
from electralab.training.optimizer import Optimizer, group_parameters

LENGTH = 128
SPECIAL = 5  # ids below are [PAD] [UNK] [CLS] [SEP] [MASK]
MASK_ID = 4


@dataclass(frozen=True)
class Shape:
    name: str
    preset: str
    vocab_size: int
    rows: int


SHAPES = {
    "tiny": Shape("tiny", "tiny", 8192, 32),
    "small": Shape("small", "small", 30522, 32),
    "tiny-preset": Shape("tiny-preset", "tiny", 8192, 32),
}
# As many rows a step as the preset has.
PRESET_BATCH = Shape("preset-batch", "tiny", 8192, 8)

# The tiny sizes on the released architecture, with a generator of half the width: like for like with the peer.
TINY = {
    "model": {"backbone": "electra", "feedforward_size": 512, "local_attention": 0, "sharing": "embeddings"},
    "generator": {"width_share": 0.5, "num_heads": 1},
}


def settings_of(shape: Shape) -> PretrainConfig:
    layers = [read_settings(shape.preset)]
    if shape.name == "tiny":
        layers.append(ConfigLayer("benchmark", TINY))
    return resolve_pretrain(layers)


def random_rows(shape: Shape, step: int) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    rng = np.random.default_rng(step)
    ids = rng.integers(SPECIAL, shape.vocab_size, size=(shape.rows, LENGTH))
    ids[:, 0], ids[:, -1] = 2, 3
    return ids


def our_steps(shape: Shape, config: PretrainConfig) -> Iterator[StepReport]:
    model = build_electra(config.model, config.generator, vocab_size=shape.vocab_size, sequence_length=LENGTH, seed=0)
    groups = group_parameters(
        model.named_parameters(), parameter_depths(model), hidden_matrices(model), config.optimizer
    )
    vocabulary = MaskVocabulary(
        MASK_ID, np.arange(SPECIAL, shape.vocab_size), np.zeros(shape.vocab_size, dtype=np.bool_)
    )
    prohibition = torch.zeros(shape.vocab_size)
    prohibition[:SPECIAL] = -torch.inf

    def parts(step: int) -> Iterator[Tensor]:
        ids = torch.from_numpy(random_rows(shape, step))
        is_pad = torch.zeros_like(ids, dtype=torch.bool)
        rows = np.arange(shape.rows)
        batch = Batch(rows, ids, torch.zeros_like(ids), is_pad, ids >= SPECIAL, False, rows)
        masked = mask_tokens(batch, vocabulary, MaskingConfig(), 0.15, Rng(0, step))
        trial = electra_forward(model, masked, prohibition, SamplingConfig())
        counts = {"generator": len(masked.positions), "discriminator": batch.token_count}
        yield trial.losses.weigh(counts, {"generator": 1.0, "discriminator": 50.0})

    return train(
        TrainStep(model, Optimizer(groups, config.optimizer), lambda step, _: parts(step)),
        lambda _: 1.0,
        steps=count(1),
        clip_norm=1.0,
        scale=LossScale(),
        stop=StopSignal(),
    )


def peer_step(shape: Shape, config: PretrainConfig, dropout: float) -> Callable[[int], None]:
    """The loop on transformers, at the discriminator's and generator's sizes, on its own ELECTRA classes."""
    ours_g, ours_d = derive_encoders(
        config.model, config.generator, vocab_size=shape.vocab_size, sequence_length=LENGTH
    )

    def peer_config(hidden: int, layers: int, heads: int, feedforward: int) -> ElectraConfig:
        return ElectraConfig(
            vocab_size=shape.vocab_size,
            embedding_size=config.model.embedding_size,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            # A gated feed-forward has three matrices where the peer has two: give it as many numbers.
            intermediate_size=feedforward * 3 // 2 if ours_d.is_modern else feedforward,
            max_position_embeddings=LENGTH,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
        )

    generator = ElectraForMaskedLM(
        peer_config(ours_g.hidden_size, ours_g.num_layers, ours_g.num_heads, ours_g.feedforward_size)
    )
    discriminator = ElectraForPreTraining(
        peer_config(ours_d.hidden_size, ours_d.num_layers, ours_d.num_heads, ours_d.feedforward_size)
    )
    discriminator.electra.embeddings = generator.electra.embeddings
    parameters = list({id(p): p for m in (generator, discriminator) for p in m.parameters()}.values())
    optimizer = torch.optim.AdamW(parameters, lr=5e-4)
    generator.train()
    discriminator.train()

    def step(number: int) -> None:
        ids = torch.from_numpy(random_rows(shape, number))
        is_masked = (torch.rand(ids.shape) < 0.15) & (ids >= SPECIAL)
        masked = ids.masked_fill(is_masked, MASK_ID)
        attention = torch.ones_like(ids)
        guessed = generator(input_ids=masked, attention_mask=attention, labels=ids.masked_fill(~is_masked, -100))
        with torch.no_grad():
            logits = guessed.logits[is_masked]
            noise = -torch.log(-torch.log(torch.rand_like(logits) + 1e-9) + 1e-9)
            sampled = (logits + noise).argmax(dim=-1)
        corrupted = ids.clone()
        corrupted[is_masked] = sampled
        judged = discriminator(input_ids=corrupted, attention_mask=attention, labels=(corrupted != ids).long())
        loss = guessed.loss + 50 * judged.loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


def measure_peak() -> float:
    matrix = torch.randn(2048, 2048)
    matrix @ matrix
    times = []
    for _ in range(5):
        started = time.perf_counter()
        matrix @ matrix
        times.append(time.perf_counter() - started)
    return 2 * 2048**3 / statistics.median(times)


def timed(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def run(shape: Shape, steps: int, peer_dropout: float) -> dict[str, float | str]:
    config = settings_of(shape)
    ours, peer = our_steps(shape, config), peer_step(shape, config, peer_dropout)
    next(ours)
    torch.use_deterministic_algorithms(False)
    peer(0)
    ours_times, peer_times, peaks = [], [], []
    for number in range(1, steps + 1):
        torch.use_deterministic_algorithms(True)
        ours_times.append(timed(lambda: next(ours)))
        torch.use_deterministic_algorithms(False)  # the peer does not ask for exactness
        peer_times.append(timed(lambda number=number: peer(number)))  # type: ignore[misc]
        peaks.append(measure_peak())
    generator, discriminator = derive_encoders(
        config.model, config.generator, vocab_size=shape.vocab_size, sequence_length=LENGTH
    )
    masked = shape.rows * round(0.15 * (LENGTH - 2))
    flops = step_flops(generator, discriminator, shape.rows, LENGTH, masked)
    tokens = shape.rows * LENGTH
    return {
        "shape": shape.name,
        "tokens_per_second": tokens / statistics.median(ours_times),
        "peer_tokens_per_second": tokens / statistics.median(peer_times),
        "ratio": statistics.median(p / o for o, p in zip(ours_times, peer_times, strict=True)),
        "share_of_peak": statistics.median(flops / o / peak for o, peak in zip(ours_times, peaks, strict=True)),
        "share_of_best_peak": flops / statistics.median(ours_times) / max(peaks),
        "peak_gflops": statistics.median(peaks) / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--peer-dropout", type=float, default=0.1, help="0.1 is what transformers' configs say")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    use_exact_arithmetic(arguments.threads, torch.device("cpu"))
    results = [run(SHAPES[name], arguments.steps, arguments.peer_dropout) for name in arguments.shapes]
    if arguments.json:
        print(json.dumps(results))
        return
    print(f"threads wait by {describe_waiting()}, ours and the peer's")
    print(f"{'shape':<14}{'ours tok/s':>12}{'peer tok/s':>12}{'ratio':>8}{'of peak':>9}{'of best':>9}")
    for row in results:
        print(
            f"{row['shape']:<14}{row['tokens_per_second']:>12,.0f}{row['peer_tokens_per_second']:>12,.0f}"
            f"{row['ratio']:>8.2f}{row['share_of_peak']:>9.0%}"
            f"{row['share_of_best_peak']:>9.0%}"
        )


if __name__ == "__main__":
    main()
