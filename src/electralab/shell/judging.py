"""Parsed words -> a verb that looks, and its result on standard output."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from electralab import summaries, verbs
from electralab.artifacts import write_json
from electralab.config import SettingsTree
from electralab.display import Display
from electralab.errors import InputError, StudyFailed
from electralab.shell.flag_settings import Result, collect
from electralab.shell.json_line import print_json
from electralab.shell.summary import print_summary
from electralab.showing import print_artifact
from electralab.tables import (
    analysis_tables,
    claims_tables,
    evaluation_tables,
    study_tables,
)


def _evaluate(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    result = verbs.evaluate(
        arguments.model,
        arguments.suite,
        arguments.data,
        generator=arguments.generator,
        task=arguments.task,
        config=arguments.config,
        settings=collect(arguments, {"seed": "seed"}, dotted),
        threads=arguments.threads,
        dry_run=arguments.dry_run,
    )
    if arguments.dry_run:
        print_summary(summaries.describe_evaluation_plan(result), arguments, console)
        return result
    if arguments.out:
        write_json(Path(arguments.out), result)
    print_summary(summaries.describe_evaluation(result), arguments, console)
    for table in evaluation_tables(result):
        console.print(table)
    return result


def _study(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    result = verbs.run_study(
        arguments.config,
        arguments.corpus,
        arguments.out,
        settings=dotted,
        **{
            name: getattr(arguments, name)
            for name in ("data", "flops", "tokens", "steps", "seeds", "only", "jobs", "threads", "dry_run")
        },
    )
    if arguments.dry_run:
        print_summary(summaries.describe_study_plan(result, arguments.out), arguments, console)
        return _require_data(result, is_json=arguments.json)
    for table in study_tables(result):
        console.print(table)
    print_summary(summaries.describe_folder(arguments.out), arguments, console)
    console.print(f"report  {arguments.out}/report.md")
    result = {"out": arguments.out, **result}
    if arguments.json and any(cell["error"] for cell in result["cells"]):
        print_json(result)
    _require_finished(result)
    return result


def _require_data(plan: Result, *, is_json: bool) -> Result:
    """A plan is shown whole, and ends as the run would where data is missing."""
    if not plan["refusal"]:
        return plan
    if is_json:
        print_json(plan)
    raise InputError(plan["refusal"])


def _require_finished(results: Result) -> None:
    """A study whose cells failed has its table all the same, and ends with their names."""
    failed = [f"{cell['arm']} seed {cell['seed']} ({cell['error']})" for cell in results["cells"] if cell["error"]]
    if failed:
        of = f"{len(failed)} of {len(results['cells'])} cells failed"
        raise StudyFailed(f"{results['name']}: {of}: {'; '.join(failed)}; the same command runs them again")


_LOOKING = ("tagged", "pairs", "analogies", "senses", "rows", "vectors", "points", "times")


def _analyze(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    more = ("seed", "classes", "domains", "runs", "tradeoff", "examples", "untrained")
    flags = {name: name for name in (*_LOOKING, *more)}
    result = verbs.analyze(
        arguments.models,
        arguments.data,
        arguments.out,
        only=arguments.only,
        config=arguments.config,
        settings=collect(arguments, flags, dotted),
        threads=arguments.threads,
        dry_run=arguments.dry_run,
    )
    if arguments.dry_run:
        print_summary(summaries.describe_analysis_plan(result), arguments, console)
        return result
    for table in analysis_tables(result):
        console.print(table)
    print_summary(summaries.describe_folder(arguments.out), arguments, console)
    console.print(f"tables and pictures  {arguments.out}/README.md")
    return {"out": arguments.out, **result}


def _claims(arguments: argparse.Namespace, dotted: SettingsTree, console: Console) -> Result:
    study = ("corpus", "data", "study", "flops", "seeds", "jobs", "threads")
    flags = (*study, "only", "domains", "tradeoff", "config", "dry_run")
    result = verbs.judge_claims(
        arguments.runs,
        settings=collect(arguments, {name: name for name in _LOOKING}, dotted),
        **{name: getattr(arguments, name) for name in flags},
    )
    if arguments.dry_run:
        print_summary(summaries.describe_claims_plan(result, arguments.runs), arguments, console)
        return _require_data(result, is_json=arguments.json) if "refusal" in result else result
    for table in claims_tables(result):
        console.print(table)
    print_summary(summaries.describe_claims(result), arguments, console)
    if Path(arguments.runs).is_dir():
        console.print(f"table  {arguments.runs}/claims.md")
    return result


def _report(arguments: argparse.Namespace, _: SettingsTree, console: Console) -> Result:
    # With --json standard output is for the result.
    ready = sys.stderr if arguments.json else sys.stdout
    result = verbs.report(
        arguments.runs,
        arguments.out,
        **{name: getattr(arguments, name) for name in ("data", "watch", "port", "dry_run")},
        on_ready=lambda address: print(address, file=ready, flush=True),
    )
    if arguments.dry_run:
        print_summary(summaries.describe_report_plan(result), arguments, console)
        return result
    for text in result["warnings"]:
        console.print(f"warning: {text}", style="yellow")
    console.print(f"page  {result['out']}")
    return result


def _show(arguments: argparse.Namespace, _: SettingsTree, console: Console) -> Result:
    if arguments.model is not None:
        Display().tell_loading(only_live=True)
    result = verbs.show(arguments.path, row=arguments.row, model=arguments.model)
    if arguments.dry_run:
        console.print(f"{arguments.path}: {result['kind']}")
    else:
        print_artifact(result, console)
    return result


VERBS = {
    "evaluate": _evaluate,
    "study": _study,
    "analyze": _analyze,
    "claims": _claims,
    "report": _report,
    "show": _show,
}
