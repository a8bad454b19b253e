"""How long networks take when nothing else runs: in turn, and of each the fastest tenth.

A long call is interrupted by other work more often than a short one, so that on a busy machine no middle value is fair.

networks, inputs -> milliseconds
"""

import time
from collections.abc import Callable, Mapping

import numpy as np
import torch

from electralab.compression.task import Inputs, Network
from electralab.runtime import wait_for

_PAUSE = 0.02
_WARM_UP = 2
_QUIET = 0.1


@torch.inference_mode()
def time_networks(
    networks: Mapping[str, Network], inputs: Mapping[int, Inputs], rounds: int, check: Callable[[], None]
) -> dict[str, dict[int, float]]:
    """Of each network by the size of the batch: what a tenth of its calls stay below."""
    taken: dict[str, dict[int, list[float]]] = {name: {size: [] for size in inputs} for name in networks}
    for number in range(_WARM_UP + rounds):
        for size, batch in inputs.items():
            for name, network in networks.items():
                check()
                # Threads of the one before go on turning for a while, waiting for more work, and would take the cores.
                time.sleep(_PAUSE)
                device = batch[0].device
                wait_for(device)
                started = time.perf_counter()
                network(*batch)
                wait_for(device)
                if number >= _WARM_UP:
                    taken[name][size].append(1000 * (time.perf_counter() - started))
    return {name: {size: float(np.quantile(times, _QUIET)) for size, times in of.items()} for name, of in taken.items()}
