"""electralab: from a folder of text to a pre-trained, fine-tuned ELECTRA. The verbs of the shell are functions here."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = [
    "analyze",
    "claims",
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
    "quickstart",
    "report",
    "run_study",
    "serve",
    "show",
    "study",
]


def __getattr__(name: str) -> Any:
    """Verbs are imported when first used: `import electralab` alone loads neither torch nor anything else large."""
    if name in __all__:
        import_module("electralab.runtime").wait_passively()
        # The quickstart prints as it goes, so it belongs to the shell.
        module = "electralab.shell.commands.quickstart" if name == "quickstart" else "electralab.api"
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'electralab' has no attribute {name!r}")
