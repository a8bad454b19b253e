"""How fast are graphs? PyTorch, ONNX in 32 bits and ONNX in 8 bits on the same rows, in turn; ratios of medians.

python benchmarks/graphs.py                   networks of the sizes tiny and small with first weights
python benchmarks/graphs.py --model RUN       a model of yours
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
from torch import Tensor

from electralab.artifacts import write_json
from electralab.exporting.onnx_graphs import quantize, write_graph
from electralab.model.electra import Discriminator, build_electra
from electralab.model.folders.folder import load_network, locate_model
from electralab.model.folders.hf_config import CONFIG, SpecialTokenIds, export_encoder_config
from electralab.model.folders.native_format import GRAPH, export_own_config
from electralab.model.settings import SIZES, GeneratorConfig, ModelConfig

_PAUSE = 0.05
VOCAB_SIZES = {"tiny": 8192, "small": 30522}


def build(size: str, length: int) -> Discriminator:
    model = ModelConfig.model_validate(SIZES[size]["model"])
    generator = GeneratorConfig.model_validate(SIZES[size]["generator"])
    pair = build_electra(model, generator, vocab_size=VOCAB_SIZES[size], sequence_length=length, seed=0)
    return pair.discriminator.eval()


def make_variants(network: Discriminator, folder: Path) -> dict[str, Discriminator]:
    variants = {"torch": network}
    for name in ("onnx", "onnx-int8"):
        target = folder / name
        target.mkdir()
        if name == "onnx":
            write_graph(network, target / GRAPH)
        else:
            quantize(folder / "onnx" / GRAPH, target / GRAPH, "dynamic", [])
        write_json(
            target / CONFIG, export_own_config(network, export_encoder_config(network.config, SpecialTokenIds(0)))
        )
        graph = load_network(target)
        assert isinstance(graph, Discriminator)
        variants[name] = graph
    return variants


@torch.inference_mode()
def time_variants(variants: dict[str, Discriminator], ids: Tensor, turns: int) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    segments = torch.zeros_like(ids)
    for turn in range(turns + 2):
        for name, network in variants.items():
            # Threads of the one before go on turning for a while, waiting for more work, and would take the cores.
            time.sleep(_PAUSE)
            started = time.perf_counter()
            network(ids, segments, None)
            if turn > 1:  # the first two warm up
                seconds[name].append(time.perf_counter() - started)
    return seconds


def report(name: str, network: Discriminator, turns: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        variants = make_variants(network, Path(scratch))
        sizes = {kind: (Path(scratch) / kind / GRAPH).stat().st_size / 1e6 for kind in ("onnx", "onnx-int8")}
    print(f"{name}: onnx {sizes['onnx']:.1f} MB, onnx-int8 {sizes['onnx-int8']:.1f} MB")
    length = network.config.sequence_length
    for rows, width in ((1, 32), (1, length), (32, 32), (32, length)):
        ids = torch.randint(5, network.config.vocab_size, (rows, width), generator=torch.Generator().manual_seed(0))
        seconds = time_variants(variants, ids, turns)
        median = {kind: statistics.median(of) for kind, of in seconds.items()}
        told = "  ".join(f"{kind} {1000 * of:8.2f} ms" for kind, of in median.items())
        print(
            f"  {rows:>2} x {width:<4} {told}   onnx / torch {median['torch'] / median['onnx']:.2f}x   "
            f"int8 / onnx {median['onnx'] / median['onnx-int8']:.2f}x",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", metavar="RUN", help="a run or model folder with a discriminator")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--threads", type=int, default=0, help="default: the cores there are")
    arguments = parser.parse_args()
    from electralab.runtime import use_threads

    use_threads(arguments.threads)
    if arguments.model:
        network = load_network(locate_model(Path(arguments.model), "discriminator"))
        assert isinstance(network, Discriminator)
        report(arguments.model, network, arguments.turns)
        return
    for size in ("tiny", "small"):
        report(size, build(size, arguments.length), arguments.turns)


if __name__ == "__main__":
    main()
