"""`electra claims`: the claims about the method, decided by models trained here."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from electralab import api
from electralab.shell.commands.analyze import add_measure_flags
from electralab.shell.commands.study import add_job_flags
from electralab.shell.parser import Parser, names, positive, whole_numbers

if TYPE_CHECKING:
    from electralab.records.findings import ClaimsPlan, ClaimsResult
    from electralab.records.study import StudyPlan
    from electralab.shell.call import Call

SUMMARY = "judge the claims about the method by models trained here; the same command again goes on"
EXAMPLE = "electra claims --runs studies/claims --corpus data/mine --data benchmarks/"
FUNCTION = api.claims
SETTINGS = "electralab.analysis.settings:AnalysisSettings"
CONFIG_HELP = "a TOML file of settings of the analysis"


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--runs", required=True, metavar="DIR", help="the folder of the study, or a claims.json to judge again")
    add("--corpus", metavar="DIR", help="what 'electra prepare' wrote: train what is not there yet")
    add("--data", metavar="DIR", help="the folder in which the data of the scores lies")
    add("--study", metavar="STUDY", help="with arms electra, mlm, causal")
    add("--only", type=names, metavar="M30,M41", help="judge these claims only")
    add("--flops", type=positive, metavar="X", help="of each arm, instead of the study's budget")
    add("--seeds", type=whole_numbers, metavar="S,S", help="of pre-training, instead of the study's")
    add_job_flags(parser)
    add("--domains", type=names, metavar="FILE,FILE", help="texts of six other domains or more")
    add("--tradeoff", metavar="DIR", help="what 'electra compress' wrote about one of the models")
    add_measure_flags(parser)


def run(call: "Call") -> "ClaimsResult | ClaimsPlan | StudyPlan":
    from electralab.records.findings import ClaimsPlan
    from electralab.records.study import StudyPlan
    from electralab.reporting.analysis_blocks import format_claim_values, format_verdicts
    from electralab.reporting.blocks import ClaimCard, Heading
    from electralab.reporting.format import format_names, format_number_of
    from electralab.shell.commands.study import show_plan

    flags = call.flags
    result = api.claims(
        flags.runs,
        corpus=flags.corpus,
        data=flags.data,
        study=flags.study,
        only=flags.only,
        flops=flags.flops,
        seeds=flags.seeds,
        domains=flags.domains,
        tradeoff=flags.tradeoff,
        config=flags.config,
        settings=call.settings,
        jobs=flags.jobs,
        threads=flags.threads,
        dry_run=flags.dry_run,
        display=call.display,
    )
    if isinstance(result, StudyPlan):
        # Without models that are trained already it is the plan of their study.
        show_plan(call, result, flags.runs)
        return result
    number = format_number_of(len(result.claims), "claim")
    if isinstance(result, ClaimsPlan):
        models = list(dict.fromkeys(name for analysis in result.analyses for name in analysis.models))
        judged = f"would judge {number} by the models of {flags.runs}: {', '.join(result.claims)}"
        call.print_plan([judged, f"{format_number_of(len(models), 'model')} to measure: {format_names(models, 8)}"])
        return result
    call.print(Heading("what holds of the claims, at this scale"))
    for claim in result.claims:
        figures = [format_claim_values(claim), claim.why]
        call.print(ClaimCard(claim.number, format_verdicts(claim), claim.sentence, claim.measure, {}, figures))
    verdicts = Counter(claim.verdict for claim in result.claims)
    call.print_lines([f"of {number}, {', '.join(f'{count} {verdict}' for verdict, count in sorted(verdicts.items()))}"])
    if Path(flags.runs).is_dir():
        call.print_lines([f"table  {flags.runs}/claims.md"])
    return result
