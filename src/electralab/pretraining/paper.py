"""The paper's own runs, counted by us and beside what its authors' script prints.

presets -> PaperRun...
"""

from dataclasses import dataclass
from typing import Any

from electralab.config import ConfigLayer, SettingsTree
from electralab.pretraining.account import Account, draw_up, stand_in
from electralab.pretraining.identity import Budget
from electralab.pretraining.settings import read_settings, resolve_pretrain

_VOCABULARY = 30_522


@dataclass(frozen=True, slots=True)
class PaperRun:
    model: str
    published: float
    """Total training FLOPs, as the released script prints them."""
    account: Account

    @property
    def ratio(self) -> float:
        assert self.account.paper_flops is not None
        return self.account.paper_flops / self.published


# Model, preset, what it has of its own, row length, published FLOPs.
_RUNS: tuple[tuple[str, str, SettingsTree, int, float], ...] = (
    ("ELECTRA-Small", "paper-small", {}, 128, 1.29e18),
    ("BERT-Small", "paper-small", {"objective": "mlm", "steps": 1_450_000}, 128, 1.42e18),
    ("ELECTRA-Base", "paper-base", {}, 512, 6.42e19),
    ("BERT-Base", "paper-base", {"objective": "mlm", "steps": 1_000_000}, 512, 6.43e19),
    ("ELECTRA-400K", "paper-large", {}, 512, 7.12e20),
    ("ELECTRA-1.75M", "paper-large", {"steps": 1_750_000}, 512, 3.11e21),
)


def count_paper_runs() -> list[PaperRun]:
    found = []
    for model, preset, own, length, published in _RUNS:
        config = resolve_pretrain([read_settings(preset), ConfigLayer(model, own)])
        data = stand_in(config, _VOCABULARY, length)
        found.append(PaperRun(model, published, draw_up(config, data, Budget("steps", float(config.steps)))))
    return found


def price_paper() -> dict[str, Any]:
    """The table of the runs as a plain dictionary."""
    return {
        run.model: {
            "parameters": run.account.total_parameters,
            "steps": run.account.steps,
            "paper_flops": run.account.paper_flops,
            "published_flops": run.published,
            "ratio": run.ratio,
            "flops": run.account.flops,
        }
        for run in count_paper_runs()
    }
