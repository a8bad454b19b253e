"""What a discriminator is scored on when it is compressed."""

from pathlib import Path

import torch
from little_compression import open_pair
from torch import Tensor

from electralab.model.electra import Discriminator


class KnowsSpecials(Discriminator):
    """Sure of the five special tokens, and of nothing else."""

    def forward(self, input_ids: Tensor, *_: object) -> Tensor:
        return torch.where(input_ids >= 5, 0.0, -20.0)


def test_knowing_only_special_tokens_scores_as_guessing(tmp_path: Path) -> None:
    task = open_pair(tmp_path)
    assert isinstance(task.network, Discriminator)
    assert task.score(KnowsSpecials(task.network.config), 0).value == 0.5
