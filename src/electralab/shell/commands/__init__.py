"""The verbs of the shell: each a file with its flags, its call and its printed form.

A file has `SUMMARY`, `EXAMPLE`, `FUNCTION` (whose signature has the defaults of the flags), `add_flags(parser)` and
`run(call)`; where the verb takes settings also `SETTINGS`, the class that holds them, and `CONFIG_HELP`. A new file is
a new verb.
"""

from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

# The order in which a model lives, for the help; a verb that is not named here comes last.
_ORDER = (
    *("quickstart", "prepare", "pretrain", "finetune", "glue", "flops", "evaluate", "study", "analyze", "claims"),
    *("report", "show", "detect", "predict", "proofread", "serve", "export", "compress", "import", "completion"),
)


def list_verbs() -> list[str]:
    # `import` is a word of Python, so its file is import_.py.
    verbs = [module.name.removesuffix("_") for module in iter_modules(__path__)]
    return sorted(verbs, key=lambda verb: (_ORDER.index(verb) if verb in _ORDER else len(_ORDER), verb))


def load_command(verb: str) -> ModuleType:
    return import_module(f"{__name__}.{verb}{'_' if verb == 'import' else ''}")
