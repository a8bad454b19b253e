"""The forms of a model that are tried: settings -> Variant..."""

from collections.abc import Iterator
from dataclasses import dataclass

from electralab.compression.settings import CompressConfig, Graph
from electralab.compression.tradeoff import BASELINE
from electralab.model.folder import Storage


@dataclass(frozen=True, slots=True)
class Variant:
    name: str
    share: float = 0.0
    drop_layers: int = 0
    is_recovered: bool = False
    storage: Storage = "fp32"
    graph: Graph | None = None
    origin: str = BASELINE
    """Of a graph or a recovered variant: the variant that it is made from."""

    @property
    def is_pruned(self) -> bool:
        return self.share > 0


def list_variants(config: CompressConfig) -> list[Variant]:
    """The model as it is first; what another is made from before it."""
    return list(dict.fromkeys(_list(config)))


def _list(config: CompressConfig) -> Iterator[Variant]:
    yield Variant(BASELINE)
    for storage in config.storage:
        if storage != BASELINE:
            yield Variant(storage, storage=storage)
    for graph in config.graphs:
        yield Variant(graph, graph=graph)
    for share in config.prune:
        name = f"pruned-{100 * share:g}" + (f"-drop-{config.drop_layers}" if config.drop_layers else "")
        best = Variant(name, share, config.drop_layers)
        yield best
        if config.recovery.steps:
            best = Variant(f"{name}-recovered", share, config.drop_layers, is_recovered=True, origin=name)
            yield best
        for graph in config.graphs:
            yield Variant(f"{best.name}-{graph}", share, config.drop_layers, graph=graph, origin=best.name)
