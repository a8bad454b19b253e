"""A network as an ONNX graph, asked like the network it was made of: ids -> logits, by ONNX Runtime.

config.json, model.onnx -> OnnxDiscriminator | GraphGenerator | GraphTuned

Each is the class it stands for as far as answers go; it has no weights, so nothing can be taught to it.
"""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from electralab.config import SettingsTree
from electralab.errors import DamagedArtifact, InputError
from electralab.model.electra import Discriminator, Generator
from electralab.model.encoder import EncoderConfig, HiddenStates
from electralab.model.folders.hf_config import describe
from electralab.model.folders.native_format import read_own
from electralab.model.task_model import HeadConfig, SpanLogits, TaskModel

GRAPH = "model.onnx"

# The names of inputs and outputs, as other libraries have them.
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POSITIONS = "positions"
LOGITS, STATES, ANSWERABLE = "logits", "states", "answerable"


class OnnxSession:
    """A graph that is ready to run on as many threads as torch has."""

    def __init__(self, path: Path) -> None:
        runtime = _import_runtime(path)
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3
        # Its threads would go on turning after an answer, waiting for more, and take the cores from whatever runs next.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        try:
            self._session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # noqa: BLE001 its exceptions have no class in common
            reason = str(error).splitlines()[0]
            raise DamagedArtifact(f"{path}: cannot be run ({reason}); the file is damaged, export it again") from None
        self._inputs = {slot.name for slot in self._session.get_inputs()}
        self.outputs = [slot.name for slot in self._session.get_outputs()]

    def run(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, positions: Tensor | None = None
    ) -> dict[str, Tensor]:
        """An input that the network does not look at is none of the graph's."""
        is_seen = torch.ones_like(input_ids) if is_pad is None else (~is_pad).to(input_ids.dtype)
        feeds = dict(zip(INPUTS, (input_ids, is_seen, segment_ids), strict=True))
        if positions is not None:
            feeds[POSITIONS] = positions
        outputs = self._session.run(
            self.outputs, {name: fed.cpu().numpy() for name, fed in feeds.items() if name in self._inputs}
        )
        return {
            name: torch.from_numpy(part).to(input_ids.device) for name, part in zip(self.outputs, outputs, strict=True)
        }


def _import_runtime(path: Path) -> Any:
    try:
        return importlib.import_module("onnxruntime")
    except ModuleNotFoundError:
        raise InputError(f"{path}: needs onnxruntime to run; install it with pip install 'electralab[onnx]'") from None


class OnnxDiscriminator(Discriminator):
    session: OnnxSession

    def __init__(self, config: EncoderConfig, session: OnnxSession) -> None:
        _begin(self, config, session)

    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, hidden_states: HiddenStates | None = None
    ) -> Tensor:
        outputs = self.session.run(input_ids, segment_ids, is_pad)
        if hidden_states is not None:
            hidden_states[STATES] = outputs[STATES]
        return outputs[LOGITS]


class OnnxGenerator(Generator):
    session: OnnxSession

    def __init__(self, config: EncoderConfig, session: OnnxSession) -> None:
        _begin(self, config, session)
        self.is_frozen = True

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        assert hidden_states is None, "a graph shows no intermediates"
        return self.session.run(input_ids, segment_ids, is_pad, positions)[LOGITS]


class OnnxTaskModel(TaskModel):
    session: OnnxSession

    def __init__(self, config: EncoderConfig, session: OnnxSession, head: HeadConfig) -> None:
        _begin(self, config, session)
        self.head_config = head

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None) -> Tensor | SpanLogits:
        outputs = self.session.run(input_ids, segment_ids, is_pad)
        if self.head_config.shape != "span":
            return outputs[LOGITS]
        start, end = outputs[LOGITS].unbind(-1)  # (B, T) each
        return SpanLogits(start, end, outputs.get(ANSWERABLE))


OnnxModel = OnnxDiscriminator | OnnxGenerator | OnnxTaskModel


def is_onnx(folder: Path) -> bool:
    """A folder whose network is a graph; other libraries put one beside weights, where it is left alone."""
    return (folder / GRAPH).is_file() and not any(folder.glob("*.safetensors"))


def _begin(network: OnnxModel, config: EncoderConfig, session: OnnxSession) -> None:
    """In place of the constructor of the class it stands for, which would make weights."""
    nn.Module.__init__(network)
    network.config = config
    network.session = session
    # Of no size: so that whoever asks a parameter where the network lives gets an answer.
    network.anchor = nn.Parameter(torch.zeros(0), requires_grad=False)


def load_onnx(folder: Path, tree: Mapping[str, Any]) -> OnnxModel:
    name, config, own = read_own(tree, str(folder))
    session = OnnxSession(folder / GRAPH)
    match name:
        case "Discriminator":
            network: OnnxModel = OnnxDiscriminator(config, session)
        case "Generator":
            network = OnnxGenerator(config, session)
        case "Tuned":  # its name on disk, as it always was
            network = OnnxTaskModel(config, session, _read_head(own, str(folder)))
        case _:
            raise InputError(f"{folder}: config.json names the class {name!r}, of which there are no graphs")
    return network.eval()


def _read_head(own: SettingsTree, where: str) -> HeadConfig:
    try:
        return HeadConfig.model_validate(own.get("head"))
    except ValidationError as error:
        raise InputError(f"{where}: {describe(error)}; restore the file") from None
