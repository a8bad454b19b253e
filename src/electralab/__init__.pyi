"""Written by tools/generate.py: the verbs, with their signatures."""

from pathlib import Path

from electralab.serving.model import Model
from electralab.shell.commands.analyze import analyze as analyze
from electralab.shell.commands.calibrate import calibrate as calibrate
from electralab.shell.commands.claims import claims as claims
from electralab.shell.commands.compress import compress as compress
from electralab.shell.commands.detect import detect as detect
from electralab.shell.commands.evaluate import evaluate as evaluate
from electralab.shell.commands.export import export as export
from electralab.shell.commands.finetune import finetune as finetune
from electralab.shell.commands.fit import fit as fit
from electralab.shell.commands.flops import flops as flops
from electralab.shell.commands.glue import glue as glue
from electralab.shell.commands.import_model import import_model as import_model
from electralab.shell.commands.measure import measure as measure
from electralab.shell.commands.plan import plan as plan
from electralab.shell.commands.predict import predict as predict
from electralab.shell.commands.prepare import prepare as prepare
from electralab.shell.commands.pretrain import pretrain as pretrain
from electralab.shell.commands.proofread import proofread as proofread
from electralab.shell.commands.quickstart import quickstart as quickstart
from electralab.shell.commands.report import report as report
from electralab.shell.commands.serve import serve as serve
from electralab.shell.commands.show import show as show
from electralab.shell.commands.study import study as study

__version__: str
__all__: list[str]
ALIASES: dict[str, str]
run_study = study
judge_claims = claims

def load(path: str | Path) -> Model: ...
