"""Whatever answers examples of a task: tuned networks, a linear model, or both; and the folder that holds them.

folder <-> Answerer; Example... -> PredictionRow...
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from electralab.artifacts import MANIFEST, new_folder, verify_folder
from electralab.errors import DamagedArtifact, InputError
from electralab.events import Event, Result
from electralab.finetuning.task_model import LoadedTaskModel, load_model, predict_examples
from electralab.records.fitted import FittedModel
from electralab.records.tuned import PredictionRow
from electralab.stopping import StopSignal
from electralab.tasks import blending
from electralab.tasks.baselines import load_linear, save_linear
from electralab.tasks.kind import AnyKind, Example
from electralab.tasks.kinds import KINDS
from electralab.tokens.tokenizer import Tokenizer

LINEAR = "linear"


@dataclass(frozen=True, slots=True)
class Answerer:
    about: FittedModel
    models: Sequence[LoadedTaskModel] = ()
    """They answer together; none where the linear model answers alone."""
    linear: blending.LinearModel | None = None

    @property
    def kind(self) -> AnyKind:
        if self.models:
            return self.models[0].kind
        if self.about.kind not in KINDS:
            raise InputError(f"the model is fitted for a kind of task that is not known here, {self.about.kind!r}")
        return KINDS[self.about.kind]

    @property
    def tokenizer(self) -> Tokenizer | None:
        """None: no network reads the texts."""
        return self.models[0].tokenizer if self.models else None

    def predict(
        self, examples: Sequence[Example], *, batch_tokens: int, stop: StopSignal
    ) -> Iterator[Event[list[PredictionRow]]]:
        """An answer for every example, in order."""
        about, answers = self.about, []
        if about.entry != "linear":
            for event in predict_examples(self.models, examples, batch_tokens=batch_tokens, stop=stop):
                if isinstance(event, Result):
                    answers.append(event.value)
                else:
                    yield event
        if self.linear is not None and about.entry != "encoder":
            # The weights of a blend were fitted to margins as they are.
            temperature = about.temperature if about.entry == "linear" else 1.0
            pooled = blending.pooled_examples(examples)
            answers.append(blending.answer_linear(self.linear, pooled, about.labels, temperature))
        if about.blend is not None and about.entry == "blend":
            answers = [blending.answer_blend(about.blend, about.labels, answers)]
        yield Result(answers[0])


def answer_with(models: Sequence[LoadedTaskModel]) -> Answerer:
    """Tuned networks alone."""
    first = models[0]
    about = FittedModel(
        entry="encoder",
        kind=first.network.head_config.kind,
        task=first.config.task,
        labels=first.network.head_config.labels,
        num_texts=first.num_texts,
        sequence_length=first.config.sequence_length,
    )
    return Answerer(about, models)


def save_fitted(
    folder: Path, about: FittedModel, model_folders: Mapping[str, Path], linear: blending.LinearModel | None
) -> None:
    """`model_folders`: of the networks, by the names that they get."""
    with new_folder(folder, kind="fitted model") as temporary:
        for name, source in model_folders.items():
            shutil.copytree(source, temporary / name, ignore=shutil.ignore_patterns(MANIFEST, ".*"))
        if linear is not None:
            (temporary / LINEAR).mkdir()
            save_linear(temporary / LINEAR, linear)
        about.write(temporary)


def locate_fitted(path: Path) -> Path | None:
    """The folder of the fitted model that a path means, a run or the folder itself; None where there is none."""
    return next((place for place in (path / "export" / "model", path) if (place / FittedModel.FILE).is_file()), None)


def load_fitted(folder: Path) -> Answerer:
    verify_folder(folder, "restore it, or run the 'electra fit' that wrote it again")
    about = FittedModel.read(folder)
    models = [load_model(folder / name) for name in about.encoders]
    linear = load_linear(folder / LINEAR) if about.entry != "encoder" else None
    if (about.entry != "linear" and not models) or (about.entry == "blend" and about.blend is None):
        raise DamagedArtifact(f"{folder / FittedModel.FILE}: names no network for {about.entry!r}; restore the file")
    return Answerer(about, models, linear)
