"""The losses beside the pair's own that the settings ask for, by their names.

LossConfig -> Auxiliary...
"""

from electralab.errors import UsageError
from electralab.model.encoder import EncoderConfig
from electralab.objective.contrast import Contrast, SequenceContrast
from electralab.objective.correction import Correction, Selection
from electralab.objective.losses import LossConfig
from electralab.objective.scene import Auxiliary
from electralab.tokens.tokenizer import Tokenizer


def build_auxiliaries(config: LossConfig, judge: EncoderConfig, tokenizer: Tokenizer) -> dict[str, Auxiliary]:
    """Those whose weight is not 0."""
    return {name: _build(name, config, judge, tokenizer) for name in config.auxiliary}


def _build(name: str, config: LossConfig, judge: EncoderConfig, tokenizer: Tokenizer) -> Auxiliary:
    match name:
        case "correction":
            return Correction(judge, has_gate=config.correction_gate)
        case "selection":
            ordinary = int(tokenizer.is_ordinary.sum())
            if config.selection_negatives >= ordinary:
                raise UsageError(
                    f"loss.selection_negatives: {config.selection_negatives} tokens beside the true one, of "
                    f"{ordinary} that the vocabulary has; give at most {ordinary - 1}"
                )
            return Selection(judge, config.selection_negatives)
        case "contrast":
            return Contrast(config.contrast_temperature)
        case _:
            return SequenceContrast(config.sequence_temperature, tokenizer.special.pad)
