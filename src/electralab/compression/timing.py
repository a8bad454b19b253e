"""How long networks take, in turn, so that whatever else the machine does befalls all of them alike.

networks, inputs -> milliseconds
"""

import time
from collections.abc import Callable, Mapping
from statistics import median

import torch

from electralab.compression.exam import Inputs, Network

_WARM_UP = 2


@torch.inference_mode()
def time_networks(
    networks: Mapping[str, Network], inputs: Mapping[int, Inputs], rounds: int, check: Callable[[], None]
) -> dict[str, dict[int, float]]:
    """The median of each network by the size of the batch."""
    taken: dict[str, dict[int, list[float]]] = {name: {size: [] for size in inputs} for name in networks}
    for number in range(_WARM_UP + rounds):
        for size, batch in inputs.items():
            for name, network in networks.items():
                check()
                started = time.perf_counter()
                network(*batch)
                if number >= _WARM_UP:
                    taken[name][size].append(1000 * (time.perf_counter() - started))
    return {name: {size: median(times) for size, times in of.items()} for name, of in taken.items()}
