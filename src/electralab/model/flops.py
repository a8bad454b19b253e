"""What a step costs, computed from sizes alone, in two conventions: configs -> floating-point operations, bytes.

Ours: matrix products only, 2 operations for each multiply-add, a backward pass costs two forward ones.
The paper's, to compare with its numbers: every element-wise operation counts too, embeddings are looked up by a dense
product with the whole table, and a backward pass costs one forward one.
"""

import math
from collections.abc import Sequence

from electralab.model.settings import EncoderConfig, LayerShape, RTDHeadKind

# Operations per element in the paper's convention.
_DROPOUT, _NORM, _ACTIVATION, _SOFTMAX = 4, 5, 8, 5
# The paper predicts 20 of 128 tokens, a little more than it masks.
PAPER_OUTPUT_SHARE = 0.15625


def _product(inputs: int, outputs: int) -> int:
    return 2 * inputs * outputs


def _attention_products(config: EncoderConfig, shape: LayerShape, length: int) -> int:
    """One layer, one token: projections, scores and weighted sum over `length` keys, those hidden included.

    Discrepancies enter the scores by one more coordinate of each head, which values have too.
    """
    width = shape.num_heads * config.head_size
    mixed = width + (shape.num_heads if config.discrepancy_attention else 0)
    return 4 * _product(config.hidden_size, width) + 2 * _product(mixed, length)


def _feedforward_products(config: EncoderConfig, shape: LayerShape) -> int:
    return (3 if config.is_gated else 2) * _product(config.hidden_size, shape.feedforward_size)


def _projection_products(config: EncoderConfig) -> int:
    narrow, wide = config.embedding_size, config.hidden_size
    return _product(narrow, wide) if narrow != wide else 0


def count_masked(length: int, share: float) -> int:
    """Of a full row: [CLS] and [SEP] are never masked, one token always is, and a half is rounded up."""
    # Not round(): that takes a half to the even number, masking takes it up.
    return max(1, math.floor(share * (length - 2) + 0.5))


def encoder_parts(config: EncoderConfig, length: int) -> dict[str, int]:
    """Forward, of one token, by what it is spent on; layers that share their weights are computed all the same.

    A local or causal layer counts in full, because the kernel computes what it then hides. An adaptive norm, of
    which a layer has two, is a matrix product with a single column.
    """
    norms = 2 * _product(config.hidden_size, 1) if config.adaptive_norm else 0
    return {
        "attention": sum(_attention_products(config, shape, length) for shape in config.layer_shapes),
        "feed_forward": sum(_feedforward_products(config, shape) for shape in config.layer_shapes),
        "embeddings": _projection_products(config),
        "norms": config.num_layers * norms,
    }


def encoder_flops(config: EncoderConfig, rows: int, length: int) -> int:
    """Forward."""
    return rows * length * sum(encoder_parts(config, length).values())


def first_state_flops(config: EncoderConfig, rows: int, length: int) -> int:
    """Forward, up to the state of each row's first token: in the last layer it alone asks, and goes on."""
    last = config.shape_of(config.num_layers - 1)
    offered = 3 * _product(config.hidden_size, last.num_heads * config.head_size)
    spared = _attention_products(config, last, length) + _feedforward_products(config, last) - offered
    return encoder_flops(config, rows, length) - rows * (length - 1) * spared


def mlm_head_flops(config: EncoderConfig, num_predicted: int) -> int:
    """Forward, of the head alone."""
    head = _product(config.hidden_size, config.head_width) + _product(config.embedding_size, config.vocab_size)
    back = _projection_products(config) if config.head_width != config.embedding_size else 0
    return num_predicted * (head + back)


def generator_flops(config: EncoderConfig, rows: int, length: int, num_masked: int) -> int:
    """Forward, with predictions at the masked positions only."""
    return encoder_flops(config, rows, length) + mlm_head_flops(config, num_masked)


def two_tower_flops(config: EncoderConfig, rows: int, length: int, num_predicted: int) -> int:
    """Forward: both towers read the row, their states are joined where a token is predicted."""
    join = _product(2 * config.hidden_size, config.hidden_size)
    return (
        encoder_flops(config, rows, length)
        + generator_flops(config, rows, length, num_predicted)
        + num_predicted * join
    )


def content_stream_flops(config: EncoderConfig, rows: int, length: int) -> int:
    """Forward, of all layers but the last, which only offers keys and values to the query stream."""
    parts = encoder_parts(config, length)
    layer = (sum(parts.values()) - parts["embeddings"]) // config.num_layers
    spared = layer - 2 * _product(config.hidden_size, config.hidden_size)
    return encoder_flops(config, rows, length) - rows * length * spared


def query_stream_flops(config: EncoderConfig, length: int, num_predicted: int) -> int:
    """Forward, of positions that ask every layer and offer nothing to it."""
    keys_and_values = 2 * _product(config.hidden_size, config.hidden_size)
    return num_predicted * (sum(encoder_parts(config, length).values()) - config.num_layers * keys_and_values)


def two_stream_flops(config: EncoderConfig, rows: int, length: int, num_predicted: int) -> int:
    """Forward: the row is read, and asked at the positions of the predictions only."""
    asked = query_stream_flops(config, length, num_predicted) + mlm_head_flops(config, num_predicted)
    return content_stream_flops(config, rows, length) + asked


def discriminator_flops(config: EncoderConfig, rows: int, length: int, verdict_head: RTDHeadKind = "dense") -> int:
    """Forward, with a logit for every token."""
    hidden = config.hidden_size
    head = _product(hidden, 1) + (_product(hidden, hidden) if verdict_head == "dense" else 0)
    return encoder_flops(config, rows, length) + rows * length * head


def step_flops(
    generator: EncoderConfig,
    discriminator: EncoderConfig,
    rows: int,
    sequence_length: int,
    num_masked: int,
    verdict_head: RTDHeadKind = "dense",
) -> int:
    """Forward and backward of both networks on one batch, in our convention."""
    forward = generator_flops(generator, rows, sequence_length, num_masked)
    return 3 * (forward + discriminator_flops(discriminator, rows, sequence_length, verdict_head))


def training_bytes(
    encoders: Sequence[EncoderConfig], parameters: int, tokens: int, *, workers: int = 1, slices: int = 1
) -> int:
    """An estimate: the interpreter, weights with gradients and two moments, and what so many tokens keep to go back.

    Weights and moments are there once for all workers, and gradients once more for each slice.
    """
    per_token = sum(
        4 * encoder.num_layers * (12 * encoder.hidden_size + 3 * encoder.feedforward_size) for encoder in encoders
    )
    shared = 12 * parameters + (4 * parameters * slices if slices > 1 else 0)
    return workers * (400 * 2**20 + 4 * parameters + tokens * per_token) + shared


def _paper_encoder(config: EncoderConfig, length: int) -> int:
    hidden, width, size = config.hidden_size, config.feedforward_size, config.embedding_size
    scores = length * config.num_heads * (_SOFTMAX + _DROPOUT + 1)
    attention = 3 * hidden + scores + hidden * (1 + _DROPOUT + 1) + _NORM  # the released script's norm is one element
    feedforward = width * (_ACTIVATION + 1) + hidden * (1 + _DROPOUT + 1 + _NORM)
    shape = config.shape_of(0)
    products = _attention_products(config, shape, length) + _feedforward_products(config, shape)
    lookup = _product(size, config.vocab_size) + _product(size, length + 2) + size * (2 + _NORM + _DROPOUT)
    projection = _projection_products(config)
    projection += hidden if projection else 0
    return config.num_layers * (products + attention + feedforward) + lookup + projection


def paper_generator_flops(
    config: EncoderConfig, rows: int, length: int, output_share: float = PAPER_OUTPUT_SHARE
) -> float:
    """Training a masked language model on so many rows, in the paper's convention: BERT, or ELECTRA's generator."""
    size, vocab = config.embedding_size, config.vocab_size
    head = _product(size, vocab) + _product(config.hidden_size, size) + size * (1 + _ACTIVATION + _NORM)
    head += vocab * (_SOFTMAX + 2)
    return 2.0 * rows * length * (_paper_encoder(config, length) + output_share * head)


def paper_discriminator_flops(config: EncoderConfig, rows: int, length: int) -> float:
    """Training a discriminator on so many rows, in the paper's convention."""
    hidden = config.hidden_size
    head = _product(hidden, hidden) + hidden * (1 + _ACTIVATION) + _product(hidden, 1)
    return 2.0 * rows * length * (_paper_encoder(config, length) + head)
