"""The pair: a generator that guesses masked tokens, a discriminator that judges every token, and what they share.

two encoder configs -> Electra
"""

from torch import Tensor, nn

from electralab.model.encoder import Encoder, EncoderConfig, Trace
from electralab.model.heads import GuessHead, VerdictHead, VerdictKind
from electralab.model.settings import GeneratorConfig, ModelConfig, Sharing, derive_encoders
from electralab.model.tuned import Tuned
from electralab.model.weights import initialise


class Generator(nn.Module):
    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.head = GuessHead(config)

    @property
    def reads_masked(self) -> bool:
        """Whether the row it reads hides what it is asked for; a causal one has not come to it yet."""
        return not self.config.is_causal

    def forward(
        self,
        input_ids: Tensor,
        segment_ids: Tensor,
        is_pad: Tensor | None,
        positions: Tensor,
        trace: Trace | None = None,
    ) -> Tensor:
        """(B, T) ids and (M,) flat positions, row * T + column -> (M, V) logits at those positions only.

        A causal one answers from the position before, so that the first of a row cannot be asked for.
        """
        states = self.encoder(input_ids, segment_ids, is_pad, trace)  # (B, T, D)
        if self.config.is_causal:
            assert bool((positions % input_ids.shape[1] > 0).all()), "nothing stands before the first token of a row"
            positions = positions - 1
        gathered = states.flatten(0, 1).index_select(0, positions)  # (M, D)
        guesses: Tensor = self.head(gathered, self.encoder.embeddings)  # (M, V)
        return guesses


class Discriminator(nn.Module):
    def __init__(self, config: EncoderConfig, verdict_head: VerdictKind = "dense") -> None:
        super().__init__()
        self.config = config
        self.encoder = Encoder(config)
        self.head = VerdictHead(config, verdict_head)

    def forward(
        self, input_ids: Tensor, segment_ids: Tensor, is_pad: Tensor | None, trace: Trace | None = None
    ) -> Tensor:
        """(B, T) ids -> (B, T) logits; above 0 means replaced."""
        verdicts: Tensor = self.head(self.encoder(input_ids, segment_ids, is_pad, trace))
        return verdicts


class Electra(nn.Module):
    """Both networks. What they share has two names in `state_dict`, but one, the discriminator's, as a parameter."""

    def __init__(self, generator: Generator, discriminator: Discriminator, sharing: Sharing) -> None:
        super().__init__()
        self.sharing = sharing
        # First, so that a shared parameter goes by the discriminator's name and is drawn as if it were its own.
        self.discriminator = discriminator
        self.generator = generator
        _share(generator, discriminator, sharing)


def _share(generator: Generator, discriminator: Discriminator, sharing: Sharing) -> None:
    if sharing == "everything":
        generator.encoder = discriminator.encoder
        return
    ours, theirs = generator.encoder.embeddings, discriminator.encoder.embeddings
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
    pair = Electra(Generator(guessing), Discriminator(judging, model.verdict_head), model.sharing)
    initialise(pair, seed)
    return pair


def parameter_depths(network: Electra | Generator | Discriminator | Tuned) -> dict[str, int]:
    """Parameter -> how high it stands: embeddings 0, layer i at i + 1, heads above the last layer.

    Of a pair with different depths the heads stand level, so that decay ** (top - depth) is right for both.
    """
    if not isinstance(network, Electra):
        return {name: _depth(name, network.config.num_layers) for name, _ in network.named_parameters()}
    layers = {
        "discriminator": network.discriminator.config.num_layers,
        "generator": network.generator.config.num_layers,
    }
    depths: dict[str, int] = {}
    for name, _ in network.named_parameters():
        part, _, inner = name.partition(".")
        depths[name] = _depth(inner, layers[part]) + max(layers.values()) - layers[part]
    return depths


def _depth(name: str, num_layers: int) -> int:
    match name.split("."):
        case ["encoder", "embeddings", *_]:
            return 0
        case ["encoder", "layers", index, *_]:
            return int(index) + 1
        case ["encoder", "final_norm", *_]:
            return num_layers
        case _:
            return num_layers + 1
