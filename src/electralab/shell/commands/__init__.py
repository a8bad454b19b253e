"""The verbs: each a file with its function of Python, its flags and its printed form.

A file has `SUMMARY`, `EXAMPLE`, a function of the file's own name (`electralab.pretrain` is `pretrain` of pretrain.py;
its signature has the defaults of the flags), `add_flags(parser)` and `run(call)`; where the verb takes settings also
`SETTINGS`, the class that holds them, and `RUNS_ON_RANKS` where torchrun may start it. A new file is a new verb, in the
shell and in Python. Only the standard library is imported at the top of it: `electra --help` reads them all.
"""

from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType

# The order in which a model lives, for the help; a verb that is not named here comes last.
_ORDER = (
    *("quickstart", "prepare", "pretrain", "finetune", "fit", "glue", "flops", "evaluate", "study", "analyze"),
    *("claims", "report", "show", "detect", "predict", "proofread", "serve", "export", "compress", "import"),
    "completion",
)


def list_verbs() -> list[str]:
    # Not by pkgutil, which loads `inspect`: that takes longer than to read the files. `import` is a word of Python, so
    # its file and function are import_model.
    verbs = [path.stem.removesuffix("_model") for folder in __path__ for path in Path(folder).glob("[!_]*.py")]
    return sorted(verbs, key=lambda verb: (_ORDER.index(verb) if verb in _ORDER else len(_ORDER), verb))


def python_name(verb: str) -> str:
    return "import_model" if verb == "import" else verb


def load_command(verb: str) -> ModuleType:
    return import_module(f"{__name__}.{python_name(verb)}")


def python_function(verb: str) -> FunctionType | None:
    """None of `completion`, which is about the words of the shell alone."""
    function: FunctionType | None = getattr(load_command(verb), python_name(verb), None)
    return function
