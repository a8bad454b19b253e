"""The pair: a generator that guesses masked tokens, a discriminator that judges every token, and what they share.

two encoder configs -> Electra
"""

from typing import Self

from torch import Tensor, nn

from electralab.model.encoder import DisentangledTable, Encoder, EncoderConfig, HiddenStates
from electralab.model.heads import MLMHead, RTDHead, RTDHeadKind
from electralab.model.settings import GeneratorConfig, ModelConfig, Sharing, derive_encoders
from electralab.model.token_models import CopyMLM, TwoStream, TwoTower
from electralab.model.weights import init_weights


class Generator(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.is_frozen = False
        self.encoder = Encoder(config)
        self.head = MLMHead(config)

    def freeze(self) -> Self:
        """Only to play from now on: without gradient, and without dropout whatever the mode of what it is part of."""
        self.is_frozen = True
        return self.requires_grad_(False).eval()

    def train(self, mode: bool = True) -> Self:
        return super().train(mode and not self.is_frozen)

    @property
    def reads_masked(self) -> bool:
        """Whether the row it reads hides what it is asked for; a causal one has not come to it yet."""
        return not self.config.is_causal

    @property
    def state_size(self) -> int:
        return self.config.hidden_size

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        """(B, T) ids and (M,) flat positions, row * T + column -> (M, V) logits at those positions only.

        A causal one answers from the position before, so that the first of a row cannot be asked for.
        """
        return self.logits(self.hidden_states_at(input_ids, segment_ids, is_pad, positions, hidden_states))

    def hidden_states_at(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        hidden_states: HiddenStates | None = None,
    ) -> Tensor:
        """(M, D) the states that the guesses at those positions are made from."""
        states: Tensor = self.encoder(input_ids, segment_ids, is_pad, hidden_states)  # (B, T, D)
        if self.config.is_causal:
            assert bool((positions % input_ids.shape[1] > 0).all()), "nothing stands before the first token of a row"
            positions = positions - 1
        return states.flatten(0, 1).index_select(0, positions)  # (M, D)

    def logits(self, states: Tensor) -> Tensor:
        logits: Tensor = self.head(states, self.encoder.embeddings)  # (M, V)
        return logits


class Discriminator(nn.Module):
    def __init__(self, config: EncoderConfig, verdict_head: RTDHeadKind = "dense", *, adds_cls: bool = False) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.head = RTDHead(config, verdict_head, adds_cls=adds_cls)

    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, hidden_states: HiddenStates | None = None
    ) -> Tensor:
        """(B, T) ids -> (B, T) logits; above 0 means replaced."""
        logits: Tensor = self.head(self.encoder(input_ids, segment_ids, is_pad, hidden_states))
        return logits


class FixedGenerator(nn.Module):
    """Guesses without looking: the same (V,) log-probabilities everywhere, and nothing to learn."""

    reads_masked = True
    log_shares: Tensor

    def __init__(self, log_shares: Tensor) -> None:
        super().__init__()
        self.register_buffer("log_shares", log_shares, persistent=False)

    def forward(self, _input_ids: Tensor, _segment_ids: Tensor, _is_pad: Tensor | None, positions: Tensor) -> Tensor:
        return self.log_shares.expand(len(positions), -1)  # (M, V)


# Every network that guesses tokens: called with (input_ids, segment_ids, is_pad, positions), it says (M, V) logits.
TokenModel = Generator | TwoTower | TwoStream | CopyMLM
AnyGenerator = TokenModel | FixedGenerator


class Electra(nn.Module):
    """Both networks. What they share has two names in `state_dict`, but one, the discriminator's, as a parameter."""

    def __init__(self, generator: AnyGenerator, discriminator: Discriminator, sharing: Sharing) -> None:
        super().__init__()
        self.sharing = sharing
        # First, so that a shared parameter goes by the discriminator's name and is drawn as if it were its own.
        self.discriminator = discriminator
        self.generator = generator
        # What an objective asks of the discriminator's states beside verdicts.
        self.heads = nn.ModuleDict()
        # A graph has no encoder to ask for.
        if sharing != "none":
            share_weights(generator, discriminator.encoder, sharing)


def share_weights(generator: AnyGenerator, judge: Encoder, sharing: Sharing) -> None:
    """Let a generator use what is the judging encoder's."""
    if sharing == "none":
        return
    assert not isinstance(generator, FixedGenerator), "it has nothing to share"
    if isinstance(generator, TwoTower):
        assert sharing == "token", "towers share the token table only"
        for encoder in generator.encoders:
            encoder.embeddings.tokens = judge.embeddings.tokens
        return
    if sharing == "everything":
        generator.encoder = judge
        return
    if sharing == "lower-layers":
        # Its own are the last norm and the head.
        generator.encoder.embeddings = judge.embeddings
        for index in range(generator.config.num_layers):
            generator.encoder.layers[index] = judge.layers[index]
        return
    ours, theirs = generator.encoder.embeddings, judge.embeddings
    if sharing == "disentangled":
        assert isinstance(ours.tokens, nn.Embedding)
        theirs.tokens = DisentangledTable(ours.tokens)
    if sharing in ("token", "embeddings"):
        ours.tokens = theirs.tokens
    if sharing == "embeddings":
        ours.positions, ours.segments = theirs.positions, theirs.segments
        # On `modern` the norm has the hidden size, which the two networks seldom have in common.
        if ours.norm.normalized_shape == theirs.norm.normalized_shape:
            ours.norm = theirs.norm


def build_electra(
    model: ModelConfig, generator: GeneratorConfig, *, vocab_size: int, sequence_length: int, seed: int
) -> Electra:
    guessing, judging = derive_encoders(model, generator, vocab_size=vocab_size, sequence_length=sequence_length)
    guesser = TwoTower(guessing) if generator.kind == "two-tower" else Generator(guessing)
    discriminator = Discriminator(judging, model.verdict_head, adds_cls=model.verdict_adds_cls)
    pair = Electra(guesser, discriminator, model.sharing)
    init_weights(pair, seed)
    return pair


def parameter_depths(network: nn.Module) -> dict[str, int]:
    """Parameter -> how high it stands: embeddings 0, layer i at i + 1, heads above the last layer.

    Layers that are one stand where the last of them does. Of several networks with different depths the heads stand
    level, so that decay ** (top - depth) is right for all.
    """
    config = getattr(network, "config", None)
    if isinstance(config, EncoderConfig):
        return {name: _depth(name, config) for name, _ in network.named_parameters()}
    parts = {name: getattr(part, "config", None) for name, part in network.named_children()}
    configs = {name: config for name, config in parts.items() if isinstance(config, EncoderConfig)}
    top = max(config.num_layers for config in configs.values())
    depths: dict[str, int] = {}
    for name, _ in network.named_parameters():
        part, _, inner = name.partition(".")
        config = configs.get(part)
        depths[name] = top + 1 if config is None else _depth(inner, config) + top - config.num_layers
    return depths


def _depth(name: str, config: EncoderConfig) -> int:
    match name.split("."):
        case ["encoder" | "left" | "right", "embeddings", *_] | ["blank", *_]:
            return 0
        case ["encoder" | "left" | "right", "layers", index, *_]:
            return config.num_layers if config.share_layers else int(index) + 1
        case ["encoder" | "left" | "right", "final_norm", *_]:
            return config.num_layers
        case _:
            return config.num_layers + 1
