"""What can be measured of a model: one file for each measure, with its arithmetic, its words and its pictures as data.

AnalysisModel, AnalysisData -> Finding | Skipped | Figure | Projection ...

To add a measure, add a file here that defines `MEASURE`: it is found by listing this folder.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from electralab.analysis.data import AnalysisData, AnalysisModel
from electralab.analysis.finding import Finding, Skipped
from electralab.reporting.plots import Figure, Projection

__all__ = ["AnalysisData", "AnalysisModel", "Measure", "Outputs", "list_measures"]
Outputs = Iterator[Finding | Skipped | Figure | Projection]


@dataclass(frozen=True, slots=True)
class Measure:
    claim: str
    """The claim that it serves, as files and `--only` name it; its own id where there is none."""
    title: str
    run: Callable[[AnalysisModel, AnalysisData], Outputs]
    """Its docstring is the question that the measure answers."""
    answers: tuple[str, ...] = ()
    """Findings that answer the question, the first that is there; none means the first finding."""
    reads: tuple[str, ...] = ()
    """Settings that name files beside the data."""
    version: int = 1
    """Raised where it measures more, or otherwise, than before: what earlier versions measured is measured again."""

    @property
    def id(self) -> str:
        """The name of its file, and the first part of the ids of its findings."""
        return self.run.__module__.rpartition(".")[2]


@cache
def list_measures() -> dict[str, Measure]:
    """By claim, in the order of claims."""
    modules = [import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)]
    measures: list[Measure] = [module.MEASURE for module in modules]
    return {measure.claim: measure for measure in sorted(measures, key=lambda measure: measure.claim)}
