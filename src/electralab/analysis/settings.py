"""What an analysis looks at, and how closely.

file, flags -> AnalysisSettings
"""

import zlib
from typing import Annotated

import numpy as np
from pydantic import Field

from electralab.analysis.finding import Resampler
from electralab.config import Alias, Settings
from electralab.corpus.readers import ReadingConfig
from electralab.randomness import mix


class AnalysisSettings(Settings):
    seed: int = Field(0, ge=0, lt=2**31)
    rows: int = Field(256, ge=1)
    """The most rows of text to look at."""
    row_length: int = Field(128, ge=8)
    """Of rows made of text, where the model could take longer ones; prepared rows have a length of their own."""
    vectors: int = Field(1000, ge=8)
    """The most states of a layer that enter one figure."""
    points: int = Field(600, ge=8)
    """The most points of a picture."""
    mask_share: float = Field(0.15, gt=0, lt=1)
    times: Annotated[int, Alias("num_resamples")] = Field(200, ge=1)
    """How often rows, words or pairs are drawn again for an interval."""
    untrained: bool = True
    """Whether the same network as first drawn is measured beside each model."""
    tagged: str = ""
    """Sentences of words with tags in CoNLL columns; empty for the English ones that come along."""
    pairs: str = ""
    """A table of sentences and changed ones, likewise."""
    analogies: str = ""
    """A table of a, b, c, d, likewise."""
    senses: str = ""
    """A table of words, their senses and sentences, likewise."""
    domains: tuple[str, ...] = ()
    """Texts of other domains, to see how far they are and what a model loses there."""
    runs: str = ""
    """A folder of pre-training runs of several sizes, for the law that they follow."""
    tradeoff: str = ""
    """The folder of an 'electra compress', for what the model's smaller variants cost and gain."""
    examples: str = ""
    """The data of the task that a tuned model was tuned on, to be damaged."""
    classes: str = ""
    """A table of texts with labels; empty for none."""
    batch_tokens: int = Field(4096, ge=1)
    """Tokens that go through a network at once, padding included."""
    device: str = "auto"
    reading: ReadingConfig = ReadingConfig()
    """How text is found in files that are not prepared."""

    def make_rng(self, *stream: str) -> np.random.Generator:
        """By the seed and what it is for, so that no figure depends on which others are asked for."""
        # Stream names are seeds: another name gives other intervals.
        return np.random.default_rng(int(mix(self.seed, *(zlib.crc32(name.encode()) for name in stream))))

    def resampler(self, *stream: str) -> Resampler:
        return Resampler(self.make_rng(*stream), self.times)
