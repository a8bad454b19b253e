"""What the shell and Python both offer: each verb resolves its settings, runs its stage and returns its result.

words or keyword arguments -> settings -> stage -> result
"""

from electralab.verbs.asking import detect, load, predict, proofread, serve
from electralab.verbs.giving import compress, export, import_model
from electralab.verbs.judging import analyze, evaluate, judge_claims, report, run_study, show
from electralab.verbs.learning import finetune, flops, glue, prepare, pretrain

__all__ = [
    "analyze",
    "compress",
    "detect",
    "evaluate",
    "export",
    "finetune",
    "flops",
    "glue",
    "import_model",
    "judge_claims",
    "load",
    "predict",
    "prepare",
    "pretrain",
    "proofread",
    "report",
    "run_study",
    "serve",
    "show",
]
