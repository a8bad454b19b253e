"""What a fine-tuning run would do, without doing it.

FinetuneRequest -> plan
"""

from electralab.finetuning.encoding import Framer
from electralab.finetuning.identity import read_identity
from electralab.finetuning.reading import read_task
from electralab.finetuning.settings import resolve_finetune
from electralab.finetuning.stage import FinetuneRequest
from electralab.finetuning.starting import load_origin
from electralab.finetuning.work import count_steps
from electralab.model.flops import encoder_flops, training_bytes
from electralab.records.tuned import FinetunePlan
from electralab.runtime import estimate_speed, use_threads


def plan_finetune(request: FinetuneRequest) -> FinetunePlan:
    """Everything is read and checked as for training. FLOPs and time are those of the steps, padding left out."""
    origin = load_origin(request.model, request.init_from)
    stored = read_identity(request.run_dir)
    begun = stored.settings if stored else None
    config = resolve_finetune(request.task, origin.encoder.config, request.layers, begun)
    data = read_task(request.task, request.data_dir, config.data, config.train_rows, origin.tokenizer)
    framer = Framer(origin.tokenizer, data.labels, config.sequence_length, config.spans)
    encoded = framer.encode(data.train.examples, is_labelled=True)
    rows = len(encoded.features) * (2 if config.double_pairs else 1)
    steps = count_steps(config, rows)
    tokens = sum(len(feature.ids) for feature in encoded.features) / max(len(encoded.features), 1)
    encoder = origin.encoder.config
    flops = 3 * encoder_flops(encoder, 1, round(tokens)) * steps * config.batch.size * request.seeds
    parameters = sum(parameter.numel() for parameter in origin.encoder.parameters())
    at_once = (config.batch.micro_size or config.batch.size) * max(len(feature.ids) for feature in encoded.features)
    use_threads(request.threads)
    return FinetunePlan(
        task=request.task.name,
        out=str(request.run_dir),
        labels=data.labels,
        examples={split.name: len(split.examples) for split in (data.train, *data.devs, *data.tests)},
        bad_rows={split.name: len(split.bad_rows) for split in (data.train, *data.devs, *data.tests)},
        columns=data.train.columns,
        notes=data.notes,
        rows=rows,
        tokens_per_row=round(tokens, 1),
        too_long=len(encoded.too_long),
        steps_per_seed=steps,
        seeds=request.seeds,
        parameters=parameters,
        flops=flops,
        estimated_minutes=round(flops / estimate_speed() / 60, 1),
        estimated_memory_mb=training_bytes([encoder], parameters, at_once) >> 20,
        settings=config.model_dump(mode="json"),
    )
