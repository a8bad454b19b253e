"""What a verb did, or would do, in a few lines of words; `--verbose` and `--json` have the rest.

result -> lines
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electralab.reporting.artifact import read_artifact
from electralab.reporting.format import (
    format_count,
    format_flops,
    format_key,
    format_percent,
    format_seconds,
    is_number,
)
from electralab.reporting.page import summarise

Record = Mapping[str, Any]
Lines = list[str]

_MOST_NAMES = 3
_DROPPED = {
    "near_duplicate": "nearly duplicate",
    "too_short": "too short",
    "undecodable": "not UTF-8",
    "language": "in another language",
}


def count_of(number: int, noun: str) -> str:
    """1, 'row' -> '1 row'; 2, 'row' -> '2 rows'."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _list_names(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")


def _say_minutes(minutes: float) -> str:
    return "less than a minute" if minutes < 1 else f"about {format_seconds(60 * minutes)}"


def _say_size(size: float) -> str:
    if size >= 1e9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.{'1' if size < 1e7 else '0'}f} MB" if size >= 1e6 else f"{size / 1e3:,.0f} kB"


def _say_effort(plan: Record) -> str:
    """Time and memory that training takes."""
    return f"{_say_minutes(plan['estimated_minutes'])}, {_say_size(plan['estimated_memory_mb'] * 2**20)} of memory"


def describe_folder(path: str, printed: Record | None = None) -> Lines:
    """A run, study, trade-off or analysis in the words of its page, without what the table of its results has said."""
    said = [] if printed is None else [*printed.get("notes", ())]
    if printed is not None and "verdict" in printed:
        said.append(f"verdict: {printed['verdict']['text']}")
    known = {sentence.rstrip(".").lower() for sentence in said}
    return [line for line in summarise(read_artifact(Path(path))) if line.rstrip(".").lower() not in known]


# Learning


def describe_data(path: str, report: Record) -> Lines:
    """What `prepare` made."""
    counts, tokenizer, dropped = report["counts"], report["tokenizer"], report.get("dropped", {})
    heldout = f"{count_of(counts['heldout_rows'], 'row')} of {count_of(counts['heldout_documents'], 'document')}"
    rows = count_of(counts["train_rows"], "training row")
    words = f", {tokenizer['tokens_per_word']:.2f} tokens a word" if "tokens_per_word" in tokenizer else ""
    share = tokenizer["unknown_share"]
    unknown = f"{100 * share:.2g} % of the tokens are unknown" if share else "no token is unknown"
    lines = [
        f"{path}: {count_of(counts['documents'], 'document')} became {count_of(counts['tokens'], 'token')} in {rows}",
        f"held out for evaluation: {heldout}",
        f"vocabulary: {tokenizer['vocab_size']:,} entries{words}; {unknown}",
    ]
    if dropped:
        reasons = ", ".join(f"{count:,} {_DROPPED.get(name, name)}" for name, count in dropped.items())
        lines.append(f"left out: {count_of(sum(dropped.values()), 'document')} ({reasons})")
    if passed := report.get("passed_over"):
        lines.append(f"not read, because it is no text that can be read: {_list_names(passed)}")
    return lines


def describe_prepare_plan(plan: Record) -> Lines:
    sources = plan["sources"]
    lines = [
        f"would prepare {count_of(len(sources), 'file')} ({_list_names(sources)}), {_say_size(plan['bytes'])}, "
        f"into {plan['out']}",
        f"about {format_count(plan['tokens'])} tokens, {_say_minutes(plan['seconds'] / 60)}, "
        f"{_say_size(plan['memory_bytes'])} of memory",
    ]
    if passed := plan["passed_over"]:
        lines.append(f"would not read, because it is no text that can be read: {_list_names(passed)}")
    return lines


def describe_pretrain_plan(plan: Record, data: str, out: str) -> Lines:
    settings, first = plan["settings"], plan["resumes_at"]
    procedure = "" if settings["procedure"] == "joint" else f", {settings['procedure']}"
    if first > plan["steps"]:
        begins = "every step is taken already"
    else:
        begins = f"would go on at step {first:,}" if first > 1 else "would begin at step 1"
    return [
        f"would pre-train {out} on {data}: {settings['objective']}{procedure}, size {settings['size']}, "
        f"{format_count(plan['parameters'])} parameters",
        f"{count_of(plan['steps'], 'step')} of {count_of(settings['batch']['size'], 'row')}: "
        f"{format_count(plan['tokens'])} tokens, {plan['epochs']:g} times through {count_of(plan['rows'], 'row')}, "
        f"{format_flops(plan['flops'])} FLOPs; {_say_effort(plan)}",
        begins,
    ]


def describe_finetune_plan(plan: Record, model: str, data: str) -> Lines:
    examples = ", ".join(f"{count:,} {name}" for name, count in plan["examples"].items())
    labels = f"; {len(plan['labels'])} labels: {_list_names(plan['labels'], 8)}" if plan["labels"] else ""
    columns = ", ".join(f"{part} from '{column}'" for part, column in plan["columns"].items())
    bad = sum(plan["bad_rows"].values())
    settings = plan["settings"]
    lines = [
        f"would fine-tune {model} for {plan['task']} on {data} into {plan['out']}",
        f"examples: {examples}" + (f" ({columns})" if columns else "") + labels,
        f"{count_of(plan['seeds'], 'seed')} of {count_of(plan['steps_per_seed'], 'step')}, "
        f"{settings['batch']['size']} rows a step, learning rate {settings['optimizer']['learning_rate']:g}; "
        f"{_say_effort(plan)}",
    ]
    if plan["too_long"]:
        lines.append(
            f"{count_of(plan['too_long'], 'training example')} longer than a row of "
            f"{settings['sequence_length']} tokens"
        )
    if bad:
        lines.append(f"{count_of(bad, 'row')} cannot be used")
    return [*lines, *plan["notes"]]


def describe_glue_plan(plan: Record, model: str, out: str) -> Lines:
    tasks = plan["tasks"]
    minutes = sum(task["estimated_minutes"] for task in tasks.values())
    return [
        f"would fine-tune {model} for {count_of(len(tasks), 'task')} of GLUE into {out}; {_say_minutes(minutes)}",
        *(
            f"{name}: {task['examples']['train']:,} training examples, {count_of(task['seeds'], 'seed')} of "
            f"{count_of(task['steps_per_seed'], 'step')}, {_say_minutes(task['estimated_minutes'])}"
            for name, task in tasks.items()
        ),
    ]


def describe_flops_plan(plan: Record) -> Lines:
    settings = plan["settings"]
    return [f"would count {settings['objective']} of size {settings['size']} with the budget {plan['budget']}"]


def describe_flops(result: Record) -> Lines:
    return [
        f"{result['objective']}: {format_count(result['total_parameters'])} parameters; "
        f"{count_of(result['steps'], 'step')} of {count_of(result['batch_size'], 'row')} are "
        f"{format_count(result['tokens'])} tokens and {format_flops(result['flops'])} FLOPs; "
        f"here {_say_minutes(result['estimated_minutes'])}, {_say_size(result['memory_bytes'])} of memory",
    ]


# Judging


def describe_evaluation_plan(plan: Record) -> Lines:
    against = f", against the generator of {plan['generator']}" if plan["generator"] else ""
    task = f", task {plan['task']}" if plan["task"] else ""
    return [f"would score {plan['model']} by {plan['suite']} on {plan['data']}{against}{task}"]


def describe_evaluation(result: Record) -> Lines:
    """The score that people look for, beside what it must beat."""
    scores, counts, groups = result["scores"], result["counts"], result["groups"]
    match result["suite"]:
        case "blimp":
            return [
                f"the {role} prefers the acceptable sentence in {format_percent(scores[role])} of "
                f"{count_of(counts[f'{role}_pairs'], 'pair')} (chance: 50 %)"
                for role in ("discriminator", "generator")
                if role in scores
            ]
        case "rtd":
            return [
                f"replaced tokens are told from original ones with AUC {scores['auc']:.3f} (chance: 0.5); "
                f"{format_percent(scores['recall'])} of them are found, as many calls at random would find "
                f"{format_percent(scores['called_replaced'])}"
            ]
        case "mlm":
            unigram = groups["by"]["unigram"]["accuracy"]
            return [
                f"{format_percent(scores['accuracy'])} of the hidden tokens are guessed right "
                f"(the most frequent one: {format_percent(unigram)}); loss {scores['loss']:.3f}"
            ]
        case "sts":
            return [
                f"similarity agrees with people's by Spearman {scores['spearman']:.3f} on "
                f"{count_of(counts['pairs'], 'pair')} (untrained encoder: {scores['random_spearman']:.3f})"
            ]
        case _:
            controls = {name: of["accuracy"] for name, of in groups["control"].items()}
            beside = ", ".join(f"{name} {format_percent(value)}" for name, value in controls.items())
            return [
                f"a linear probe of layer {scores['layer']} is right in {format_percent(scores['accuracy'])} of "
                f"{count_of(counts['dev'], 'example')} ({beside})"
            ]


def describe_study_plan(plan: Record, out: str) -> Lines:
    budget = ", ".join(
        f"{format_flops(amount)} {'FLOPs' if kind == 'flops' else kind}" for kind, amount in plan["budget"].items()
    )
    scores = ", ".join(plan["scores"]) or "held-out scores only"
    return [
        f"would run the study {plan['study']} in {out}: {count_of(len(plan['arms']), 'arm')}, "
        f"{count_of(len(plan['seeds']), 'seed')}, {budget} each, scored by {scores}",
        *(
            f"{name}{' (baseline)' if name == plan['baseline'] else ''}: {arm['objective']}, "
            f"{format_count(arm['parameters'])} parameters, {count_of(arm['steps'], 'step')}, "
            f"{format_count(arm['tokens'])} tokens; {_say_minutes(arm['estimated_minutes'])} a seed"
            for name, arm in plan["arms"].items()
        ),
        f"{count_of(plan['cells_left'], 'run')} left, {plan['jobs']} at a time: "
        f"{_say_minutes(plan['estimated_minutes'])}",
    ]


def describe_analysis_plan(plan: Record) -> Lines:
    return [
        f"would measure {_list_names(list(plan['models']), 8)} on {plan['data']} into {plan['out']}",
        f"{count_of(len(plan['measures']), 'measure')}: {', '.join(plan['measures'].values())}",
    ]


def describe_claims_plan(plan: Record, runs: str) -> Lines:
    """Without models that are trained already it is the plan of their study."""
    if "claims" not in plan:
        return describe_study_plan(plan, runs)
    models = list(dict.fromkeys(name for analysis in plan["analyses"] for name in analysis["models"]))
    return [
        f"would judge {count_of(len(plan['claims']), 'claim')} by the models of {runs}: {', '.join(plan['claims'])}",
        f"{count_of(len(models), 'model')} to measure: {_list_names(models, 8)}",
    ]


def describe_claims(result: Record) -> Lines:
    verdicts = Counter(claim["verdict"] for claim in result["claims"])
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    return [f"of {count_of(len(result['claims']), 'claim')}, {told}"]


def describe_report_plan(plan: Record) -> Lines:
    subjects = ", ".join(f"{path} ({kind})" for path, kind in plan["subjects"].items())
    return [f"would {'write ' + plan['out'] if plan['out'] else 'serve a page'} about {subjects}"]


def describe_model(view: Record) -> Lines:
    """A model folder, as `show` prints it."""
    encoder, name = view["encoder"], "tuned model" if view["network"] == "tuned" else view["network"]
    is_graph = "graph_bytes" in view
    size = (
        f"a graph of {_say_size(view['graph_bytes'])}" if is_graph else f"{format_count(view['parameters'])} parameters"
    )
    lines = [
        f"{view['path']}: {name}, {size}",
        f"{encoder['backbone']} encoder: {count_of(encoder['num_layers'], 'layer')} of width "
        f"{encoder['hidden_size']:,} with {count_of(encoder['num_heads'], 'head')}, vocabulary of "
        f"{encoder['vocab_size']:,}, rows of up to {encoder['sequence_length']:,} tokens",
    ]
    if head := view.get("head"):
        labels = f": {_list_names(head['labels'], 8)}" if head.get("labels") else ""
        lines.append(f"tuned to {head['kind']}{labels}")
    return lines


def describe_checkpoint(view: Record) -> Lines:
    progress = view["state"]["progress"]
    size = sum(file["bytes"] for file in view["files"].values())
    skipped = f"; {count_of(progress['skipped_steps'], 'step')} skipped" if progress.get("skipped_steps") else ""
    return [
        f"{view['path']}: after {count_of(progress['step'], 'step')}, {format_count(progress['tokens'])} tokens and "
        f"{format_seconds(progress['seconds'])} of training{skipped}",
        f"{count_of(len(view['files']), 'file')}, {_say_size(size)}",
    ]


# Asking


def describe_detect_plan(plan: Record) -> Lines:
    texts, characters = count_of(plan["texts"], "text"), count_of(plan["characters"], "character")
    return [f"would ask {plan['model']} about {texts} with {characters}"]


def describe_predict_plan(plan: Record, source: str) -> Lines:
    columns = ", ".join(f"{part} from '{column}'" for part, column in plan["columns"].items())
    bad = f"; {plan['bad_rows']:,} of them cannot be used" if plan["bad_rows"] else ""
    return [
        f"would answer {count_of(plan['rows'], 'row')} of {source} with {plan['model']} ({plan['task']}){bad}",
        *([f"columns: {columns}"] if columns else []),
    ]


def describe_proofread_plan(plan: Record) -> Lines:
    documents = plan["documents"]
    characters = count_of(sum(documents.values()), "character")
    return [
        f"would read {count_of(len(documents), 'document')} ({_list_names(list(documents))}), {characters}, "
        f"with {plan['model']}"
    ]


def describe_damage(result: Record) -> Lines:
    """How much of each kind of planted error proofreading finds, and how often it cries wolf."""
    names = {"typo": "typos", "swap": "swapped words", "ocr": "scanner's errors"}
    return [
        f"{names.get(kind, kind)}: {format_percent(found['recall'])} of {found['damaged']:,} planted are marked; "
        f"{format_percent(found['precision'])} of what is marked was planted; the first suggestion is the original in "
        f"{format_percent(found['corrected'])} of the planted ones that are marked"
        for kind, found in result["scores"].items()
    ]


def describe_serve_plan(plan: Record) -> Lines:
    settings = plan["settings"]
    keys = f"with one of {count_of(plan['keys'], 'key')}" if plan["keys"] else "without a key"
    return [
        f"would answer on http://{settings['host']}:{settings['port']}, {keys}",
        *(
            f"{model['name']}: {', '.join(model['can'])}; run by {model['runtime']}, rows of up to "
            f"{model['sequence_length']:,} tokens" + (f"; {_list_names(model['labels'], 8)}" if model["labels"] else "")
            for model in plan["models"]
        ),
    ]


# Giving

_FORMATS = {"hf": "for transformers", "onnx": "as ONNX graphs", "onnx-int8": "as ONNX graphs in 8 bits"}


def describe_export_plan(plan: Record) -> Lines:
    networks = ", ".join(f"{role} from {network['from']}" for role, network in plan["networks"].items())
    text = "on a few sentences of our own" if plan["data"] == "samples" else f"on {plan['data']}"
    return [
        f"would write {plan['out']} {_FORMATS[plan['format']]}: {networks}",
        f"tried {text}; licence: {plan['license'] or 'none'}",
    ]


def describe_export(result: Record) -> Lines:
    """What was written, and how far its answers are from the model's."""
    networks = result["networks"]
    return [
        f"{result['out']}: {count_of(len(networks), 'network')} {_FORMATS[result['format']]}",
        *(
            f"{role}: {_say_size(network['bytes'])}; {_say_fidelity(network['fidelity'])}"
            for role, network in networks.items()
        ),
    ]


def _say_fidelity(fidelity: Record) -> str:
    tried = f"{count_of(fidelity['answers'], 'answer')} tried"
    if "agreement" in fidelity:
        return f"of {tried}, {100 * fidelity['agreement']:.2f} % are the model's own"
    if is_number(fidelity.get("share_of_spread")):
        return f"in {tried}, off by {100 * fidelity['share_of_spread']:.2g} % of their standard deviation on average"
    return f"in {tried}, off by {fidelity['mean_difference']:.2g} on average"


def describe_compress_plan(plan: Record, out: str) -> Lines:
    variants = plan["variants"]
    return [
        f"would make {count_of(len(variants), 'variant')} of {plan['model']} in {out}: {', '.join(variants)}",
        f"{format_count(plan['parameters'])} parameters, judged by {format_key(plan['metric'])}; "
        f"{count_of(plan['recovery_steps'], 'step')} of training on {count_of(plan['training_rows'], 'row')} "
        "for what is pruned",
    ]


def describe_import_plan(plan: Record) -> Lines:
    return [f"would convert {plan['old']} into {plan['out']}"]


def describe_import(result: Record) -> Lines:
    return [f"{folder}: converted, weights as safetensors" for folder in result["models"]]
