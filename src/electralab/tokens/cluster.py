"""The passes of preparing as a block of a datatrove pipeline, for its local, Slurm and Ray executors.

    inputs, out, settings, pass -> PipelineStep; task `rank` of `world_size` does part `rank + 1`

datatrove brings the launching, the logs and the repetition of failed tasks; documents do not travel between its blocks,
because every pass reads its files by itself and leaves records in `out`.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from datatrove.pipeline.base import PipelineStep

from electralab.events import run_to_end
from electralab.records.prepared import PassName, PreparedPass
from electralab.stopping import NO_STOP
from electralab.tokens.prepare import prepare
from electralab.tokens.prepare_settings import Part, PrepareConfig


class PreparingBlock(PipelineStep):  # type: ignore[misc]  # datatrove has no types, and is not installed everywhere
    """One pass; without the name of one, all that is missing, which writes report and manifest: with one task, last."""

    type = "electralab"

    def __init__(
        self,
        inputs: Sequence[str],
        out: str | Path,
        config: PrepareConfig | None = None,
        only: PassName | None = None,
        *,
        workers: int = 1,
    ) -> None:
        self.name = f"prepare: {only or 'finish'}"
        super().__init__()
        self._inputs, self._out, self._config = list(inputs), Path(out), config or PrepareConfig()
        self._only, self._workers = only, workers

    def run(self, data: Iterable[Any] | None = None, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        part = Part(rank + 1, world_size) if self._only in ("count", "encode") else None
        with self.track_time():
            work = prepare(
                self._inputs, self._out, self._config, NO_STOP, workers=self._workers, only=self._only, part=part
            )
            done = run_to_end(work)
        self.stat_update("pieces", value=done.pieces if isinstance(done, PreparedPass) else 1)
        yield from data or ()
