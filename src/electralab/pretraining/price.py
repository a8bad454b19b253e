"""The account of a run as a plain dictionary, with the time that this machine would take for it.

settings, data or its sizes -> dictionary
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from electralab.config import ConfigLayer, resolve
from electralab.errors import UsageError
from electralab.pretraining.account import draw_up, stand_in
from electralab.pretraining.identity import Budget
from electralab.pretraining.settings import PretrainConfig
from electralab.runtime import estimate_speed
from electralab.tokens.packing import PackingConfig
from electralab.tokens.shards import PreparedData, open_data
from electralab.tokens.tokenizer import TokenizerConfig


def price_run(config: PretrainConfig, budget: Budget, rows: PreparedData) -> dict[str, Any]:
    account = draw_up(config, rows, budget)
    minutes = account.flops / estimate_speed() / 60
    return {**asdict(account), "total_parameters": account.total_parameters, "estimated_minutes": minutes}


def choose_rows(
    config: PretrainConfig, data: str | Path | None, vocab_size: int | None, sequence_length: int | None
) -> PreparedData:
    """Without data, sizes that are not given are those that `electra prepare` takes by itself."""
    if data is not None and (vocab_size or sequence_length):
        raise UsageError("flops: --data has a vocabulary and a row length of its own; leave out the flags for them")
    if data is not None:
        return open_data(Path(data))
    length = {} if sequence_length is None else {"sequence_length": sequence_length}
    entries = {} if vocab_size is None else {"vocab_size": vocab_size}
    packing = resolve(PackingConfig, [ConfigLayer("flops", length)])
    tokenizer = resolve(TokenizerConfig, [ConfigLayer("flops", entries)])
    return stand_in(config, tokenizer.vocab_size, packing.sequence_length)
