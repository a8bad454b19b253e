"""The flags of the verbs that look."""

from typing import Any

from electralab.flags.values import count, names, positive, positive_int, whole_numbers
from electralab.flags.verb import add_settings, add_verb


def _add_evaluate(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "evaluate",
        "score a model as it is, without tuning",
        "electra evaluate runs/mine --suite blimp --data blimp.tar.xz",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument(
        "--suite",
        required=True,
        choices=["blimp", "rtd", "mlm", "sts", "probe"],
        help="minimal pairs, replaced tokens, masked tokens, sentence similarity, or a linear probe",
    )
    parser.add_argument("--data", required=True, metavar="PATH", help="the suite's file or folder")
    parser.add_argument("--out", metavar="FILE", help="write the result as JSON here too")
    parser.add_argument("--generator", metavar="MODEL", help="of rtd: the fixed generator that replaces tokens")
    parser.add_argument("--task", metavar="NAME", help="of probe: the task whose files --data holds")
    parser.add_argument("--seed", type=int, metavar="S", help="of what is masked, drawn and left out (0)")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a TOML file of settings")


def _add_study(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "study",
        "compare settings at equal compute, seed by seed; the same command again goes on",
        "electra study head-to-head --corpus data/mine --data benchmarks/ --out studies/mine --flops 4e13",
    )
    parser.add_argument(
        "config",
        metavar="STUDY",
        help="a TOML file, or one that comes along: paper-objectives, generator-size, weight-tying, "
        "training-procedure, mask-share, head-to-head, sample-efficiency, model-size, discriminator-options, claims, "
        "family",
    )
    parser.add_argument("--corpus", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    parser.add_argument("--data", metavar="DIR", help="the folder in which the data of the scores lies")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the study")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--flops", type=positive, metavar="X", help="of each arm, instead of the study's budget")
    budget.add_argument("--tokens", type=positive, metavar="N", help="of each arm, instead of the study's budget")
    budget.add_argument("--steps", type=positive_int, metavar="N", help="of each arm, instead of the study's budget")
    parser.add_argument("--seeds", type=whole_numbers, metavar="S,S", help="of pre-training, instead of the study's")
    parser.add_argument(
        "--only", type=names, default=[], metavar="ARM,ARM", help="run these arms only, the others later"
    )
    parser.add_argument(
        "--jobs", type=positive_int, default=0, metavar="N", help="cells side by side (cores / threads)"
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="of each cell (1)")


def _add_looking(parser: Any) -> None:
    """What models are asked about, and how closely."""
    parser.add_argument("--tagged", metavar="FILE", help="CoNLL: words with tags, instead of our English ones")
    parser.add_argument(
        "--pairs", metavar="FILE", help="a table of sentences (source) and changed ones (target), instead of ours"
    )
    parser.add_argument(
        "--analogies", metavar="FILE", help="a table of a, b, c, d: a is to b as c to d, instead of ours"
    )
    parser.add_argument("--senses", metavar="FILE", help="a table of word, sense and sentence, instead of ours")
    parser.add_argument("--rows", type=positive_int, metavar="N", help="the most rows of text to look at (256)")
    parser.add_argument("--vectors", type=positive_int, metavar="N", help="the most states in one figure (1000)")
    parser.add_argument("--points", type=positive_int, metavar="N", help="the most points of a picture (600)")
    parser.add_argument("--times", type=positive_int, metavar="N", help="draws for each interval (200)")


def _add_analyze(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "analyze",
        "measure what models learned, side by side; the same command again goes on",
        "electra analyze runs/mine --data data/mine --out analysis",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="runs or model folders, ours or Hugging Face's")
    parser.add_argument(
        "--data", required=True, metavar="PATH", help="prepared text, whose held-out rows are read, or text"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of figures, pictures and tables")
    parser.add_argument("--only", type=names, default=[], metavar="M30,M33", help="these claims only")
    _add_looking(parser)
    parser.add_argument("--domains", type=names, metavar="FILE,FILE", help="texts of other domains, to compare with")
    parser.add_argument("--runs", metavar="DIR", help="runs of several sizes, for the law that they follow")
    parser.add_argument("--tradeoff", metavar="DIR", help="of 'electra compress', for what smaller variants cost")
    parser.add_argument("--examples", metavar="DIR", help="data of the task of a tuned model, to be damaged")
    parser.add_argument("--classes", metavar="FILE", help="a table of text and label: are the classes apart?")
    parser.add_argument(
        "--no-untrained", dest="untrained", action="store_const", const=False, help="leave out the untrained twins"
    )
    parser.add_argument("--seed", type=int, metavar="S", help="of what is drawn: rows, states, intervals (0)")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a TOML file of settings")


def _add_claims(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "claims",
        "judge the claims about the method by models trained here; the same command again goes on",
        "electra claims --runs studies/claims --corpus data/mine --data benchmarks/",
    )
    parser.add_argument(
        "--runs", required=True, metavar="DIR", help="the folder of the study, or a claims.json to judge again"
    )
    parser.add_argument("--corpus", metavar="DIR", help="what 'electra prepare' wrote: train what is not there yet")
    parser.add_argument("--data", metavar="DIR", help="the folder in which the data of the scores lies")
    parser.add_argument("--study", default="claims", metavar="STUDY", help="with arms electra, mlm, causal (claims)")
    parser.add_argument("--only", type=names, default=[], metavar="M30,M41", help="judge these claims only")
    parser.add_argument("--flops", type=positive, metavar="X", help="of each arm, instead of the study's budget")
    parser.add_argument("--seeds", type=whole_numbers, metavar="S,S", help="of pre-training, instead of the study's")
    parser.add_argument(
        "--jobs", type=positive_int, default=0, metavar="N", help="cells side by side (cores / threads)"
    )
    parser.add_argument("--threads", type=positive_int, default=1, metavar="N", help="of each cell (1)")
    parser.add_argument(
        "--domains", type=names, default=[], metavar="FILE,FILE", help="texts of six other domains or more"
    )
    parser.add_argument("--tradeoff", metavar="DIR", help="what 'electra compress' wrote about one of the models")
    _add_looking(parser)
    add_settings(parser, "a TOML file of settings of the analysis")


def _add_report(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "report",
        "write one page about a run, or about several side by side",
        "electra report runs/mine --out report.html",
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="folders of runs, studies, trade-offs or analyses")
    parser.add_argument("--out", default="report.html", metavar="FILE", help="the page to write (report.html)")
    parser.add_argument("--data", metavar="DIR", help="prepared text: show the first run at work on a few of its rows")
    parser.add_argument("--watch", action="store_true", help="serve the page on this machine while training goes on")
    parser.add_argument("--port", type=count, default=8010, metavar="N", help="of --watch (8010); 0 for any free one")


def _add_show(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "show",
        "print any artifact in human form",
        "electra show runs/quickstart",
    )
    parser.add_argument(
        "path", metavar="PATH", help="a data folder, run, study, checkpoint, model folder or metrics.jsonl"
    )
    parser.add_argument("--row", type=int, metavar="N", help="of data: this training row with its pieces")
    parser.add_argument(
        "--model", metavar="MODEL", help="with --row: mask and corrupt the row and judge it by this run"
    )


VERBS = (_add_evaluate, _add_study, _add_analyze, _add_claims, _add_report, _add_show)
