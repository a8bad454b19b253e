"""What a pre-training step consists of, and how the networks do on held-out rows.

settings, data -> Objective, TrainingState; step -> micro losses; held-out questions -> scores by name
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from electralab.errors import UsageError
from electralab.model.electra import parameter_depths
from electralab.model.encoder import Encoder
from electralab.model.flops import count_masked
from electralab.objective.losses import Counts, add_counts
from electralab.objective.metrics import BatchMetrics, Row, RtdScores, describe_rows, loss_metrics
from electralab.objective.objective import Objective, ObjectiveOutput, StepInfo
from electralab.objective.procedures import discriminator_progress, step_in_stage
from electralab.objective.registry import build_objective, measure_unigram
from electralab.pretraining.balance import YOUNG, check_balance, drop_numbers
from electralab.pretraining.curves import Curve
from electralab.pretraining.settings import PretrainConfig
from electralab.randomness import Rng
from electralab.records.run import RunLength, StepRecord
from electralab.runtime import autocast, choose_device, find_rank, share_numbers, spread, use_exact_arithmetic
from electralab.tokens.batches import batch_at, heldout_batches
from electralab.tokens.shards import PreparedData, open_data
from electralab.tokens.tokenizer import Tokenizer
from electralab.training.checkpoint import TrainingProgress, TrainingState
from electralab.training.group import Parallel
from electralab.training.loop import LossScale, TrainStep
from electralab.training.optimizer import Optimizer, OptimizerConfig, group_parameters, orthogonalise_flops
from electralab.training.ranks import RankStep, Through, compute_here
from electralab.training.schedule import StepPlan, learning_rate_factor
from electralab.training.trainer import EvalRecord, StepStats
from electralab.training.workers import WorkerJob, start_workers

# Held-out rows are masked as if at this step, which training never reaches.
_HELDOUT_STEP = -1
_EXAMPLE_ROWS = 8
_SAMPLED_RATES = 200
_RTD_SCORES = ("auc", "precision", "recall", "called_replaced", "replaced_share")


def build_state(objective: Objective[Any], config: PretrainConfig) -> TrainingState:
    """Step 0 of a run."""
    networks = objective.networks
    if config.runtime.compile:
        for module in networks.modules():
            if isinstance(module, Encoder):
                module.compile()
    trained = [(name, parameter) for name, parameter in networks.named_parameters() if parameter.requires_grad]
    lr_factors = _lr_factors([name for name, _ in trained], config.optimizer)
    groups = group_parameters(
        trained, parameter_depths(networks), hidden_matrices(networks), config.optimizer, lr_factors
    )
    product_dtype = torch.bfloat16 if config.runtime.precision == "bf16" else torch.float32
    scale = LossScale(2.0**16, is_adaptive=True) if config.runtime.precision == "fp16" else LossScale()
    return TrainingState(networks, Optimizer(groups, config.optimizer, product_dtype), scale, TrainingProgress(), None)


def _lr_factors(names: Iterable[str], config: OptimizerConfig) -> dict[str, float]:
    """Of parameters that learn at a rate of their own; what both networks share goes by the discriminator's name."""
    factors: dict[str, float] = {}
    for name in names:
        rate = 0.0
        if ".embeddings.tokens." in name:
            rate = config.table_learning_rate
        elif ".head." in name or name.startswith(("heads.", "head.")):
            rate = config.head_learning_rate
        factor = rate / config.learning_rate if rate else 1.0
        factors[name] = factor * (config.generator_rate_factor if name.startswith("generator.") else 1.0)
    return factors


def hidden_matrices(networks: nn.Module) -> frozenset[str]:
    """What Muon may orthogonalise: the matrices inside the layers, not tables, projections of tables, or heads."""
    return frozenset(name for name, p in networks.named_parameters() if p.ndim == 2 and ".layers." in name)


def flops_at(objective: Objective[Any], config: PretrainConfig, data: PreparedData, moment: StepInfo) -> int:
    """Forward, backward and update."""
    update = 0
    if config.optimizer.kind == "muon":  # AdamW has no matrix products
        for name in hidden_matrices(objective.networks):
            matrix = objective.networks.get_parameter(name)
            rows, columns = matrix.shape
            update += orthogonalise_flops(rows, columns, config.optimizer.muon_iterations) * matrix.requires_grad
    share = config.masking.share_at(moment.progress)
    rows, length = config.batch.rows_at(moment.begin, moment.total_steps), data.sequence_length
    if config.batch.is_halved(moment.begin, moment.total_steps):
        rows, length = 2 * rows, length // 2
    return objective.count_flops(moment, rows, length, rows * count_masked(length, share)) + update


def mean_step_flops(objective: Objective[Any], config: PretrainConfig, data: PreparedData, after: float = 0.0) -> float:
    """Over a run, or what is left of it after a share: mask share and rows may change along it, and some procedures
    have steps of different kinds."""
    options = config.procedure_options
    # Whole turns of a procedure that alternates, and enough of them to follow what changes along the run.
    turn = options.discriminator_updates + options.generator_updates
    count, first = 100 * turn, min(int(100 * after), 99) * turn
    steps = range(first + 1, count + 1)
    return sum(flops_at(objective, config, data, StepInfo(step, count)) for step in steps) / len(steps)


class PretrainTask:
    def __init__(
        self,
        objective: Objective[Any],
        data: PreparedData,
        config: PretrainConfig,
        plan: StepPlan,
        device: torch.device,
        workers: int = 1,
    ) -> None:
        """`workers`: threads of Python that evaluate; steps have workers of their own."""
        self.objective = objective
        self.workers = workers
        self.data = data
        self.config = config
        self.device = device
        self.plan = plan
        if config.batch.halved_share and (data.packing != "contiguous" or data.sequence_length % 2):
            raise UsageError(
                f"batch.halved_share: {data.path} has rows of {data.sequence_length} tokens packed as {data.packing}, "
                "which cannot be read as two halves; leave it at 0, or prepare contiguous rows of an even length"
            )
        self.through: Through = compute_here
        self.stats = StepStats()
        self.part_metrics: dict[int, BatchMetrics] = {}
        self.evaluate_parts: Callable[[], dict[int, BatchMetrics]] = partial(self.evaluate_part, 0, 1)
        """Metrics of every question about held-out rows: by this process, or by ranks that each answer a part."""
        self.examples: list[Row] = []
        """Of the last evaluation, inside which a stop loses nothing."""
        self.warned: set[str] = set()
        """Warnings of the run so far, without their numbers: each is told once."""
        self.reference: tuple[str, Curve] | None = None
        """The preset whose settings the run has, and what a run of it had."""

    def locate(self, step: int) -> StepInfo:
        """Where in the run a step is."""
        length = self.plan.length_at(step)
        return StepInfo(step, length.planned_steps, self.plan.span(step))

    def rows_before(self, step: int) -> int:
        return self.config.batch.rows_before(step, self.plan.length_at(step))

    def mean_flops(self, after: float) -> float:
        return mean_step_flops(self.objective, self.config, self.data, after)

    def micro_losses(self, step: int, choose: Callable[[int], Iterable[int]] = range) -> Iterator[Tensor]:
        """The step's micro-batches, each as its part of the step's loss; the stats are complete after the last."""
        rng = Rng(self.config.seed, step)
        moment = self.locate(step)
        rows = self.config.batch
        batch = batch_at(
            self.data,
            self.rows_before(step),
            rows.rows_at(moment.begin, moment.total_steps),
            seed=self.config.seed,
            is_halved=rows.is_halved(moment.begin, moment.total_steps),
        )
        share = self.config.masking.share_at(moment.progress)
        self.objective.on_step_start(moment)
        micro_size = self.config.batch.rows_at_once
        if self.config.batch.slices > 1:  # halved rows are twice as many
            micro_size = -(-len(batch.row_numbers) // self.config.batch.slices)
        questions = self.objective.make_inputs(batch, micro_size, share, rng)
        # Of the whole step: a part must divide by these, or rows of parts with few targets would weigh more.
        counts = add_counts(self.objective.count_targets(question) for question in questions)
        tokens = sum(question.batch.token_count for question in questions)
        self.stats = StepStats(tokens, flops_at(self.objective, self.config, self.data, moment))
        self.part_metrics = {}
        for number in choose(len(questions)):
            # For each part anew: dropout must not depend on who computed the part before it.
            torch.manual_seed(rng.torch_seed("dropout", number))
            answers: list[ObjectiveOutput] = []
            yield self.through(partial(self._compute_loss, questions[number], moment, counts, answers))
            (answer,) = answers
            # The whole step's count goes with its first part, so that the parts' sums add up to the step's mean.
            own_counts = counts if number == 0 else dict.fromkeys(counts, 0)
            self.part_metrics[number] = answer.metrics + loss_metrics(answer.losses, own_counts)

    def _compute_loss(self, question: Any, moment: StepInfo, counts: Counts, answers: list[ObjectiveOutput]) -> Tensor:
        with autocast(self.device, self.config.runtime.precision):
            answers.append(self.objective.training_step(question.to(self.device), moment))
        return answers[-1].losses.weigh(counts, self.objective.weights)

    def lr_factor(self, step: int) -> float:
        """The factor of the learning rate: every stage has a whole schedule, as if it were a run of its own."""
        place = step_in_stage(self.config.procedure, self.locate(step))
        schedule = self.config.schedule.at_length(place.total_steps)
        # A warm-up of so many steps has as many in a run whose length is decided on the way.
        is_counted = schedule is self.config.schedule and self.config.procedure != "two-stage"
        warmup_step = step if is_counted and schedule.warmup_steps else None
        return learning_rate_factor(place.begin + 1, place.total_steps, schedule, warmup_step=warmup_step)

    def step_metrics(self) -> dict[str, float]:
        seen = BatchMetrics()
        for number in sorted(self.part_metrics):  # the order of the micro-batches, whoever computed them
            seen += self.part_metrics[number]
        return seen.describe("auc", "recall", "replaced_share")

    def evaluate(self, record: StepRecord) -> EvalRecord:
        scores, self.examples = self.evaluate_heldout(), self.heldout_examples()
        step = record.step
        # The highest learning rate so far; of a long run, of steps spread over it.
        steps = (*range(1, step + 1, max(1, step // _SAMPLED_RATES)), step)
        progress = discriminator_progress(self.config.procedure, self.locate(step).end / self.locate(step).total_steps)
        advice = check_balance(
            scores,
            progress,
            baselines=self._frequencies,
            record=record.values,
            config=self.config,
            highest_rate=self.config.optimizer.learning_rate * max(map(self.lr_factor, steps)),
        )
        if self.reference is not None and progress > YOUNG:
            preset, curve = self.reference
            advice += curve.compare(preset, scores, int(record["tokens"]))
        fresh = [text for text in advice if drop_numbers(text) not in self.warned]
        return EvalRecord({f"heldout_{name}": value for name, value in scores.items()}, fresh)

    @cached_property
    def _frequencies(self) -> dict[str, float]:
        return measure_baselines(self.data, self.objective, self.heldout(), {})

    def evaluate_part(self, rank: int, num_ranks: int) -> dict[int, BatchMetrics]:
        """Metrics of a rank's share of the questions about held-out rows, by number."""
        questions = self.heldout()
        numbers = share_numbers(len(questions), rank, num_ranks)
        metrics = judge_heldout(self.objective, [questions[number] for number in numbers], self.workers)
        return dict(zip(numbers, metrics, strict=True))

    def evaluate_heldout(self) -> dict[str, float]:
        parts = self.evaluate_parts()
        # In the order of the questions, whoever answered them: sums of floats depend on it.
        return describe_heldout([parts[number] for number in sorted(parts)])

    def heldout_examples(self) -> list[Row]:
        """A few held-out rows, to be looked at."""
        return heldout_examples(self.objective, self.heldout(_EXAMPLE_ROWS), self.data.tokenizer)

    def heldout(self, limit: int = 0) -> Sequence[Any]:
        """Questions about held-out rows, or training rows where none are held out, that never change.

        As many rows as the settings say, or `limit`.
        """
        limit = limit or self.config.evaluation.rows
        rows = self.data.heldout if len(self.data.heldout) else self.data.train
        (batch,) = heldout_batches(self.data, rows, limit=limit, batch_size=len(rows))
        questions = self.objective.make_inputs(
            batch, self.config.batch.rows_at_once, self.config.masking.mask_share, Rng(self.config.seed, _HELDOUT_STEP)
        )
        return [question.to(self.device) for question in questions]


def build_worker(
    data_dir: Path, config: PretrainConfig, lengths: Sequence[RunLength]
) -> tuple[TrainingState, PretrainTask]:
    """What another process needs to compute slices of a run's steps."""
    device = choose_device(config.runtime.device)
    use_exact_arithmetic(torch.get_num_threads(), device)
    data = open_data(data_dir)
    objective = build_objective(config, data, config.seed, device)
    return build_state(objective, config), PretrainTask(objective, data, config, StepPlan(lengths), device)


def make_train_step(
    state: TrainingState,
    task: PretrainTask,
    workers: int,
    parallel: Parallel = "ddp",
    sharded_checkpoints: bool = False,
) -> TrainStep:
    """Who computes the steps: ranks where torchrun started them, else this process or its workers."""
    slices = task.config.batch.slices
    _, num_ranks = find_rank()
    job = WorkerJob(build_worker, (task.data.path, task.config, task.plan.lengths), torch.get_num_threads())
    if num_ranks > 1:
        if task.config.runtime.compile and parallel != "ddp":
            raise UsageError(f"runtime.compile: goes with --parallel ddp, and {parallel} is asked for; leave it out")
        step = RankStep(
            state,
            task,
            job,
            num_slices=slices,
            device=task.device,
            parallel=parallel,
            sharded_checkpoints=sharded_checkpoints,
        )
        task.evaluate_parts = step.evaluate
        return step
    return start_workers(state, task, job, num_slices=slices, num_workers=workers, device=task.device)


@contextmanager
def eval_mode(networks: nn.Module) -> Iterator[None]:
    """Without dropout and gradients; then as they were."""
    was_training = networks.training
    networks.eval()
    with torch.no_grad():
        yield
    networks.train(was_training)


def judge_heldout(objective: Objective[Any], questions: Sequence[Any], workers: int = 1) -> list[BatchMetrics]:
    """All networks on held-out rows, always asked the same with the same uniforms, by however many workers."""

    @torch.no_grad()
    def judge(question: Any) -> BatchMetrics:
        answer = objective.evaluation_step(question)
        return loss_metrics(answer.losses, objective.count_targets(question)) + answer.metrics

    with eval_mode(objective.networks):
        return spread(judge, questions, workers)


def describe_heldout(parts: Sequence[BatchMetrics]) -> dict[str, float]:
    seen = BatchMetrics()
    for metrics in parts:
        seen += metrics
    scores = seen.describe(*_RTD_SCORES) | seen.describe_by_confidence()
    if seen.rtd:  # of the tokens that the other scores are about, not of all that the loss is learned from
        scores["discriminator_loss"] = RtdScores.concat(seen.rtd).loss
    return scores


def heldout_examples(objective: Objective[Any], questions: Sequence[Any], tokenizer: Tokenizer) -> list[Row]:
    """What is masked, predicted, put there and thought of it; nothing of an objective that masks nothing."""
    with eval_mode(objective.networks):
        exhibits = [objective.examples(question) for question in questions]
    return [row for exhibit in exhibits if exhibit is not None for row in describe_rows(exhibit, tokenizer)]


def measure_baselines(
    data: PreparedData, objective: Objective[Any], questions: Sequence[Any], scores: Mapping[str, float]
) -> dict[str, float]:
    """What knowing only frequencies achieves: the numbers that a network must beat to have learned anything.

    Of guesses, frequencies of the training rows on the same targets; of verdicts, the entropy of the replaced share.
    """
    log_share = measure_unigram(data)
    targets = np.concatenate([question.target_ids.cpu().numpy() for question in questions])
    targets = targets[np.isfinite(log_share[targets])]  # an end of text is no token that frequencies are counted of
    baselines = {
        f"{objective.lm_loss_name}_loss": float(-log_share[targets].mean()),
        f"{objective.lm_loss_name}_accuracy": float((targets == log_share.argmax()).mean()),
    }
    if "replaced_share" not in scores:
        return baselines
    # Kept off 0 and 1, where the logarithm has no value.
    p = min(max(scores["replaced_share"], 1e-9), 1 - 1e-9)
    return baselines | {"discriminator_loss": float(-p * np.log(p) - (1 - p) * np.log(1 - p))}
