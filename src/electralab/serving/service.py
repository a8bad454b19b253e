"""Where requests meet models: which model is asked, whether the texts are fit to ask about, what the answer looks like.

Body -> JSON
"""

import asyncio
import difflib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pydantic import Field

from electralab.config import Settings
from electralab.finetuning.rows import is_damaged
from electralab.serving.api_errors import ApiError, shutting_down
from electralab.serving.batching import BadText, Batcher, BatchHandler, BatchingConfig
from electralab.serving.corruption_demo import PlayResult
from electralab.serving.detector import Detection
from electralab.serving.mask_filler import FillResult
from electralab.serving.metrics import Metrics
from electralab.serving.model import Capability, Model
from electralab.serving.schemas import Body, count_characters, list_strings

Json = dict[str, Any]


class LimitsConfig(Settings):
    body_bytes: int = Field(2**20, ge=1)
    text_characters: int = Field(100_000, ge=1)
    batch_texts: int = Field(256, ge=1)
    seconds: float = Field(10.0, gt=0)
    """Until a request without an answer is given up."""
    body_seconds: float = Field(10.0, gt=0)
    """Until the whole body must be here."""
    header_seconds: float = Field(10.0, gt=0)
    """Until a connection must have sent all headers of a request: since it began, or since its last answer."""
    connections: int = Field(1000, ge=1)
    """At once; fewer where the process may not open so many files."""
    open_requests: int = Field(1024, ge=1)


class InferenceService:
    def __init__(
        self, models: Mapping[str, Model], limits: LimitsConfig, batching: BatchingConfig, *, needs_key: bool
    ) -> None:
        self.models = models
        self.limits = limits
        self.needs_key = needs_key
        self.is_stopping = False
        self.metrics = Metrics()
        self.batcher = Batcher(batching, self.metrics)
        # Model now: the first request must not wait for it, and what is wrong with a folder shows at the start.
        self._handlers = {
            (name, ability): _handler(model, ability) for name, model in models.items() for ability in model.can
        }

    async def answer(self, ability: Capability, body: Body) -> Json:
        if self.is_stopping:
            raise shutting_down()
        name = self._choose(ability, body.model)
        inputs = body.inputs()
        if len(inputs) > self.limits.batch_texts:
            raise ApiError(
                "too_many_texts", f"texts: are {len(inputs)}, at most {self.limits.batch_texts} go in one body"
            )
        for place, given in enumerate(inputs):
            self._check(f"texts[{place}]" if body.is_batch else "text", given)
        cost, most = sum(map(body.weigh, inputs)), self.batcher.config.queue_characters
        if cost > most:
            raise ApiError(
                "text_too_long", f"the request is as much work as {cost:,} characters, at most {most:,} are; send less"
            )
        ticket = self.batcher.submit(
            ability,
            self._handlers[name, ability],
            [body.ask(given) for given in inputs],
            cost=cost,
            seconds=self.limits.seconds,
        )
        try:
            answers = await asyncio.wait_for(asyncio.wrap_future(ticket.answers), self.limits.seconds)
        except asyncio.CancelledError:
            self.batcher.give_up(ticket)
            raise
        except TimeoutError:
            self.batcher.give_up(ticket)
            wait = self.batcher.estimate_wait()
            raise ApiError("too_slow", f"took over {self.limits.seconds:g} s; try again in {wait} s", wait) from None
        except BadText as bad:
            where = f"texts[{bad.place}]" if body.is_batch else "text"
            raise ApiError("bad_text", f"{where}: {bad.reason}") from None
        described = [describe(answer) for answer in answers]
        return {"model": name, "results": described} if body.is_batch else {"model": name, **described[0]}

    def _check(self, where: str, given: Any) -> None:
        texts = list_strings(given)
        if not any(text.strip() for text in texts):
            raise ApiError("text_empty", f"{where}: is empty; give a text")
        if any(map(is_damaged, texts)):
            raise ApiError("bad_text", f"{where}: holds half a character (a lone surrogate); give whole ones")
        length, most = count_characters(given), self.limits.text_characters
        if length > most:
            raise ApiError("text_too_long", f"{where}: has {length:,} characters, at most {most:,} are taken; cut it")

    def _choose(self, ability: Capability, name: str | None) -> str:
        able = [known for known, model in self.models.items() if ability in model.can]
        if name is None:
            if len(able) == 1:
                return able[0]
            if able:
                raise ApiError("model_needed", f"model: {', '.join(able)} can all {ability}; say which")
            raise ApiError("model_cannot", f"no model here can {ability}; GET /v1/models says what they can")
        if name not in self.models:
            close = difflib.get_close_matches(name[:80], self.models, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(self.models)}"
            raise ApiError("unknown_model", f"model: none is named {name[:80]!r}; {hint}")
        if name not in able:
            can = ", ".join(self.models[name].can)
            raise ApiError("model_cannot", f"model: {name!r} cannot {ability}; it can {can}")
        return name

    def list_models(self) -> Json:
        limits = self.limits.model_dump(include={"body_bytes", "text_characters", "batch_texts", "seconds"})
        models = [view_model(name, model) for name, model in self.models.items()]
        return {"models": models, "limits": limits, "needs_key": self.needs_key}

    def list_examples(self) -> Json:
        return {
            "models": [
                {"name": name, "examples": [asdict(example) for example in model.examples]}
                for name, model in self.models.items()
            ]
        }

    def render_metrics(self) -> str:
        return self.metrics.render(
            {
                "electralab_queue_texts": ("Texts that wait for a worker.", self.batcher.waiting_texts),
                "electralab_ready": ("1 while new requests are taken.", float(self.is_ready)),
            }
        )

    @property
    def is_ready(self) -> bool:
        return not self.is_stopping and not self.batcher.is_full


def view_model(name: str, model: Model) -> Json:
    has_task = "predict" in model.can
    head = model.predictor.models[0].network.head_config if has_task else None
    return {
        "name": name,
        "can": list(model.can),
        "task": head.kind if head else None,
        "labels": list(head.labels) if head else [],
        "num_texts": model.predictor.num_texts if has_task else 1,
        "is_symbols": model.is_symbols,
        "runtime": model.runtime,
        "sequence_length": model.sequence_length,
        "heldout": asdict(model.strength) if model.strength else None,
        "warning": model.strength.warning if model.strength else None,
    }


def _handler(model: Model, ability: Capability) -> BatchHandler:
    handlers: dict[Capability, str] = {
        "detect": "detector",
        "fill": "filler",
        "play": "game",
        "embed": "embedder",
        "predict": "predictor",
    }
    handler: BatchHandler = getattr(model, handlers[ability])
    return handler


def describe(answer: Any) -> Json:
    match answer:
        case Detection():
            # By hand: this is most of what the server says, and `asdict` copies everything first.
            tokens = [
                {
                    "text": token.text,
                    "start": token.start,
                    "end": token.end,
                    "p_replaced": token.p_replaced,
                    "p_original": token.p_original,
                    "unknown": token.unknown,
                }
                for token in answer.tokens
            ]
            return {
                "text": answer.text,
                "tokens": tokens,
                "suspicious": list(answer.suspicious),
                "is_relative": answer.is_relative,
                "warning": answer.warning,
            }
        case FillResult() | PlayResult():
            return asdict(answer)
        case dict():
            return {key: value for key, value in answer.items() if key not in ("id", "texts", "words", "question")}
        case _:
            return {"embedding": answer.tolist()}
