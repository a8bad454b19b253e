"""Our own formats, for what no class of `transformers` expresses: network <-> config.json and tensors, or a graph.

config.json says what to build, under "electralab_network"; the tensors have our parameters' names, a shared one once.
The model_type begins with "electralab-", so that no other library takes the folder for what it is not.

A graph is asked like the network it was made of, whose class it has as far as answers go: ids -> logits, by ONNX
Runtime. It has no weights, so nothing can be taught to it.
"""

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn

from electralab.errors import DamagedArtifact, InputError, quote, shorten
from electralab.model.electra import CopyMLM, Discriminator, Generator, TwoStream, TwoTower
from electralab.model.encoder import Encoder, HiddenStates, merge_tables
from electralab.model.folders.hf_config import OURS, AnyFile, ConfigTree, FilePart, describe_invalid, validate
from electralab.model.folders.hf_weights import fill, gather
from electralab.model.settings import EncoderConfig, RTDHeadKind
from electralab.model.task_model import HeadConfig, SpanLogits, TaskModel

OWN = "electralab_network"
# Shared layers cost no tensors, so that their number says nothing about the file; beyond this it is a damaged one.
_MOST_SHARED_LAYERS = 1000

# Files keep the names that these classes had when the format was made.
_SAVED_NAMES = {
    "CopyMLM": "Copying",
    "TaskModel": "Tuned",
    "OnnxDiscriminator": "GraphDiscriminator",
    "OnnxGenerator": "GraphGenerator",
    "OnnxTaskModel": "GraphTuned",
}


class NetworkFile(FilePart):
    """A network in config.json, under "electralab_network"."""

    name: object = Field(default=None, alias="class")
    encoder: object = None
    verdict_head: RTDHeadKind | None = None
    """Of a discriminator, as the next one."""
    verdict_adds_cls: bool = False
    head: object = None
    """Of a tuned network."""


def _build_discriminator(config: EncoderConfig, own: NetworkFile) -> Discriminator:
    if own.verdict_head is None:
        raise KeyError("verdict_head")
    return Discriminator(config, own.verdict_head, adds_cls=own.verdict_adds_cls)


# By its name on disk, how a network is built from its encoder's settings and its own. A new class needs one line here,
# and an EncoderConfig as its `config`.
_BUILDERS: dict[str, Callable[[EncoderConfig, NetworkFile], nn.Module]] = {
    "Generator": lambda config, _: Generator(config),
    "Discriminator": _build_discriminator,
    "Copying": lambda config, _: CopyMLM(config),
    "TwoTower": lambda config, _: TwoTower(config),
    "TwoStream": lambda config, _: TwoStream(config),
    "Tuned": lambda config, own: TaskModel(Encoder(config), HeadConfig.model_validate(own.head)),
}


def network_name(network: nn.Module) -> str:
    """The network's class by the name that config.json and `--json` have for it."""
    name = type(network).__name__
    return _SAVED_NAMES.get(name, name)


def _own_settings(network: nn.Module) -> ConfigTree:
    """What the network has beside its encoder's settings."""
    if isinstance(network, Discriminator):
        return {"verdict_head": network.head.kind, "verdict_adds_cls": network.head.adds_cls}
    return {"head": network.head_config.model_dump(mode="json")} if isinstance(network, TaskModel) else {}


def rebuild(network: nn.Module, config: EncoderConfig) -> nn.Module:
    """A network of the same class with another encoder; its weights are zeros."""
    return _BUILDERS[network_name(network)](config, NetworkFile.model_validate(_own_settings(network)))


def export_own_config(network: nn.Module, described: ConfigTree) -> ConfigTree:
    """`described` says sizes, ids and labels in the words of Hugging Face, for people and cards; nothing reads it."""
    name, config = network_name(network), network.config
    assert isinstance(config, EncoderConfig)
    encoder = config.model_dump(mode="json", exclude=None if config.shapes else {"shapes"})
    tree = {key: value for key, value in described.items() if key != "architectures"}
    tree["model_type"] = OURS + str(AnyFile.model_validate(described).model_type).removeprefix(OURS)
    return tree | {OWN: {"class": name, "encoder": encoder} | _own_settings(network)}


def export_own_weights(network: nn.Module) -> dict[str, Tensor]:
    weights = merge_tables(network, {name: parameter.detach() for name, parameter in network.named_parameters()})
    return {name: weight.clone(memory_format=torch.contiguous_format) for name, weight in weights.items()}


def _read_own(tree: Mapping[str, object], where: str) -> tuple[str, EncoderConfig, NetworkFile]:
    """The name of the class, its encoder's settings, and all that config.json says of the network."""
    own = validate(NetworkFile, tree.get(OWN) if isinstance(tree.get(OWN), dict) else {}, where)
    if not isinstance(own.encoder, dict):
        raise InputError(f"{where}: {OWN} in config.json does not describe a network; restore the file")
    name = str(own.name)
    if name not in _BUILDERS:
        raise InputError(f"{where}: config.json names the class {quote(own.name)}; known are {', '.join(_BUILDERS)}")
    return name, validate(EncoderConfig, own.encoder, where), own


def import_own(tree: Mapping[str, object], tensors: Mapping[str, Tensor], where: str) -> nn.Module:
    """The network of one of the classes above; `where` begins every error."""
    name, config, own = _read_own(tree, where)
    if config.num_layers > (_MOST_SHARED_LAYERS if config.share_layers else len(tensors)):
        raise InputError(f"{where}: config.json says {config.num_layers} layers, but the weights are fewer")
    try:
        with torch.device("meta"):
            blueprint = _BUILDERS[name](config, own)
    except ValidationError as error:
        raise InputError(f"{where}: {describe_invalid(error)}; this model cannot be built") from None
    except KeyError as error:
        raise InputError(f"{where}: {OWN} in config.json lacks {error}; restore the file") from None
    saved = {id(parameter): name for name, parameter in blueprint.named_parameters()}
    named = blueprint.named_parameters(remove_duplicate=False)
    weights = gather({name: (saved[id(parameter)],) for name, parameter in named}, tensors, "", where)
    strangers = sorted(tensors.keys() - saved.values())
    if strangers:
        raise InputError(
            f"{where}: holds the tensor {shorten(strangers[0])}, which this architecture lacks; cannot be read"
        )
    return fill(lambda: _BUILDERS[name](config, own), weights, where)


# --------------------------------------------------------------------------------------------------------- ONNX graphs

GRAPH = "model.onnx"
# The names of inputs and outputs, as other libraries have them.
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
POSITIONS = "positions"
LOGITS, STATES, ANSWERABLE = "logits", "states", "answerable"


def is_onnx(folder: Path) -> bool:
    """A folder whose network is a graph; other libraries put one beside weights, where it is left alone."""
    return (folder / GRAPH).is_file() and not any(folder.glob("*.safetensors"))


class OnnxSession:
    """A graph that is ready to run on as many threads as torch has."""

    def __init__(self, path: Path) -> None:
        try:
            runtime: Any = importlib.import_module("onnxruntime")
        except ModuleNotFoundError:
            remedy = "install it with pip install 'electralab[onnx]'"
            raise InputError(f"{path}: needs onnxruntime to run; {remedy}") from None
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
        fed = {name: tensor.cpu().numpy() for name, tensor in feeds.items() if name in self._inputs}
        outputs = zip(self.outputs, self._session.run(self.outputs, fed), strict=True)
        return {name: torch.from_numpy(output).to(input_ids.device) for name, output in outputs}


class _OnnxNetwork(nn.Module):
    """In place of the constructor of the class it stands for, which would make weights."""

    def __init__(self, config: EncoderConfig, session: OnnxSession) -> None:
        nn.Module.__init__(self)
        self.config, self.session = config, session
        # Of no size: so that whoever asks a parameter where the network lives gets an answer.
        self.anchor = nn.Parameter(torch.zeros(0), requires_grad=False)


class OnnxDiscriminator(_OnnxNetwork, Discriminator):
    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, hidden_states: HiddenStates | None = None
    ) -> Tensor:
        outputs = self.session.run(input_ids, segment_ids, is_pad)
        if hidden_states is not None:
            hidden_states[STATES] = outputs[STATES]
        return outputs[LOGITS]


class OnnxGenerator(_OnnxNetwork, Generator):
    is_frozen = True

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


class OnnxTaskModel(_OnnxNetwork, TaskModel):
    def __init__(self, config: EncoderConfig, session: OnnxSession, head: HeadConfig) -> None:
        super().__init__(config, session)
        self.head_config = head

    def forward(self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None) -> Tensor | SpanLogits:
        outputs = self.session.run(input_ids, segment_ids, is_pad)
        if self.head_config.shape != "span":
            return outputs[LOGITS]
        start, end = outputs[LOGITS].unbind(-1)  # (B, T) each
        return SpanLogits(start, end, outputs.get(ANSWERABLE))


OnnxModel = OnnxDiscriminator | OnnxGenerator | OnnxTaskModel


def load_onnx(folder: Path, tree: Mapping[str, object]) -> OnnxModel:
    name, config, own = _read_own(tree, str(folder))
    session = OnnxSession(folder / GRAPH)
    match name:
        case "Discriminator":
            network: OnnxModel = OnnxDiscriminator(config, session)
        case "Generator":
            network = OnnxGenerator(config, session)
        case "Tuned":
            head = validate(HeadConfig, own.head, str(folder), "restore the file")
            network = OnnxTaskModel(config, session, head)
        case _:
            raise InputError(f"{folder}: config.json names the class {name!r}, of which there are no graphs")
    return network.eval()
