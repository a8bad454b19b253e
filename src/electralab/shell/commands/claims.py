"""`electra claims`, `electralab.claims`: the claims about the method, decided by models trained here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, as_path, names, open_display, positive, whole_numbers
from electralab.shell.commands.analyze import add_measure_flags, analyze
from electralab.shell.commands.study import add_job_flags
from electralab.shell.commands.study import study as run_study

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.display import Display
    from electralab.records.findings import ClaimsPlan, ClaimsResult
    from electralab.records.study import StudyPlan

SUMMARY = "check claims about ELECTRA with models trained here; the same command resumes"
EXAMPLE = "electra claims --runs studies/claims --corpus data/mine --data benchmarks/"
SETTINGS = "electralab.analysis.data:AnalysisSettings"
CONFIG_HELP = "a TOML file of settings of the analysis"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--runs", required=True, metavar="DIR", help="the folder of the study, or a claims.json to decide again")
    add("--corpus", metavar="DIR", help="what 'electra prepare' wrote; missing models are trained on it")
    add("--data", metavar="DIR", help="the folder with the data of the scores")
    add("--study", metavar="STUDY", help="a study with the arms electra, mlm, causal")
    add("--only", type=names, metavar="M30,M41", help="decide only these claims")
    add("--flops", type=positive, metavar="X", help="budget of each arm, instead of the study's")
    add("--seeds", type=whole_numbers, metavar="S,S", help="seeds of pre-training, instead of the study's")
    add_job_flags(parser)
    add("--domains", type=names, metavar="FILE,FILE", help="texts of six other domains or more")
    add("--tradeoff", metavar="DIR", help="what 'electra compress' wrote about one of the models")
    add_measure_flags(parser)


def claims(
    runs: str | Path,
    *,
    corpus: str | Path | None = None,
    data: str | Path | None = None,
    study: str = "claims",
    only: Sequence[str] = (),
    flops: float | None = None,
    seeds: Sequence[int] | None = None,
    domains: Sequence[str] = (),
    tradeoff: str | Path | None = None,
    config: str | None = None,
    settings: GivenSettings | None = None,
    jobs: int = 0,
    threads: int = 1,
    dry_run: bool = False,
    display: Display | None = None,
) -> ClaimsResult | ClaimsPlan | StudyPlan:
    """What trained models say about each claim of the notes: holds, does not hold, or undecided at this scale.

    With `corpus` the models of the study are trained where they are not there yet; without it, only those that are
    there are judged. `settings` are those of the analysis. `runs` may also be a claims.json, whose figures are then
    judged again by the rules of now.

    >>> electralab.claims("studies/claims", corpus="data", data="benchmarks", dry_run=True).study
    'claims'
    """
    display = open_display(display)
    from electralab.analysis.claims import stage
    from electralab.analysis.claims.rules import required_measures, select_claims
    from electralab.errors import UsageError
    from electralab.events import Result
    from electralab.records.findings import Analysis, AnalysisPlan, ClaimsPlan
    from electralab.records.study import StudyPlan
    from electralab.reporting.page import with_page

    runs, chosen = Path(runs), select_claims(only)
    if runs.is_file():
        if corpus is not None:
            raise UsageError(f"claims: {runs} is a file, to be judged again as it is; leave out --corpus")
        return stage.decide_again(runs, chosen)
    if corpus is not None:
        trained = run_study(
            study,
            corpus,
            runs,
            data=data,
            flops=flops,
            seeds=seeds,
            jobs=jobs,
            threads=threads,
            dry_run=dry_run,
            display=display,
        )
        if isinstance(trained, StudyPlan):
            return trained
    results = stage.read_runs(runs)
    models, tuned = stage.list_models(runs, results), stage.list_tuned(runs, results)
    given = {**(settings or {}), **({"domains": list(domains)} if domains else {})}
    text, named, analyses = corpus or stage.find_corpus(runs), stage.name_arms(models), []

    def measure(paths: Iterable[Path], folder: str, measures: Sequence[str], given: GivenSettings) -> None:
        analysis = analyze(
            list(paths),
            text,
            runs / folder,
            only=measures,
            config=config,
            settings=given,
            threads=threads,
            dry_run=dry_run,
            display=display,
        )
        analyses.append(analysis)

    # Only what the chosen claims rest on is measured; what an earlier call measured is kept.
    if measures := required_measures(chosen):
        measure(models, stage.ANALYSIS, measures, given)
    measures = required_measures(chosen, of_tuned=True)
    if tuned is not None and measures:
        tuned_models, task_data = tuned
        named |= stage.name_arms(tuned_models)
        measure(tuned_models, stage.TUNED, measures, given | {"examples": str(task_data), "untrained": False})
    if dry_run:
        plans = [plan for plan in analyses if isinstance(plan, AnalysisPlan)]
        return ClaimsPlan(study=results.name, claims=tuple(claim.number for claim in chosen), analyses=tuple(plans))
    measured = [analysis for analysis in analyses if isinstance(analysis, Analysis)]
    decided = stage.decide_claims(chosen, runs, results, models, named, measured, domains, as_path(tradeoff))
    return display.follow(with_page(runs, [Result(decided)]))


def run(call: Call) -> None:
    from electralab.errors import InputError
    from electralab.records.study import StudyPlan
    from electralab.reporting.analysis_page import format_claim_values, format_verdicts
    from electralab.reporting.blocks import ClaimCard, Heading
    from electralab.reporting.format import format_number_of

    runs, result = call.flags.runs, call.ask(claims)
    if not call.prints_plan(result):
        call.print(Heading("what holds of the claims, at this scale"))
        for claim in result.claims:
            figures = [format_claim_values(claim), claim.why]
            call.print(ClaimCard(claim.number, format_verdicts(claim), claim.sentence, claim.measure, {}, figures))
        verdicts = sorted(Counter(claim.verdict for claim in result.claims).items())
        told = ", ".join(f"{count} {verdict}" for verdict, count in verdicts)
        call.print(f"of {format_number_of(len(result.claims), 'claim')}, {told}")
        if Path(runs).is_dir():
            call.print(f"table  {runs}/claims.md")
    call.answer(result)
    # Without models that are trained already it is the plan of their study, which may be one that cannot be run.
    if isinstance(result, StudyPlan) and result.refusal:
        raise InputError(result.refusal)
