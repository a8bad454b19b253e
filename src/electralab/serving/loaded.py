"""A model folder as an object: `electralab.load(path)`, then whatever the model can do.

MODEL -> Loaded -> detections, predictions
"""

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path

from electralab.finetuning.predictions import PredictionRow
from electralab.serving.detector import DetectConfig, Detection, Detector
from electralab.serving.predictor import Input, PredictConfig, Predictor


class Loaded:
    """Networks are read when first needed: a pre-trained pair detects, a tuned model predicts."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def _predictor(self) -> Predictor:
        return Predictor.load(self.path, PredictConfig())

    @cached_property
    def _detector(self) -> Detector:
        return Detector.load(self.path, DetectConfig())

    def predict(self, texts: Iterable[Input]) -> list[PredictionRow]:
        """For each text (or pair, list of words, (question, context)) a prediction with its probabilities, in order."""
        return self._predictor.predict(texts)

    def detect(self, text: str) -> Detection:
        """Each token of the text with the probability that it was replaced."""
        return self._detector.detect(text)
