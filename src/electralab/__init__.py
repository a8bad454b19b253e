"""electralab: from a folder of text to a pre-trained, fine-tuned ELECTRA. The verbs of the shell are functions here."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from electralab.serving.model import Model

__version__ = "0.1.0"

# Names of before, for scripts that use them.
ALIASES = {"run_study": "study", "judge_claims": "claims"}


def load(path: "str | Path") -> "Model":
    """A model to ask from Python: `.detect`, `.fill`, `.play`, `.embed`, `.predict`, whatever its `.can` names.

    >>> electralab.load("run").can
    ('detect', 'fill', 'play', 'embed')
    """
    from pathlib import Path

    import_module("electralab.runtime").wait_passively()
    from electralab.serving.model import Model

    return Model(Path(path))


def __dir__() -> list[str]:
    from electralab.shell import commands

    verbs = {commands.python_name(verb) for verb in commands.list_verbs()} - {"completion"}
    return sorted({*verbs, *ALIASES, "load"})


def __getattr__(name: str) -> Any:
    """A verb is the function of its file in shell/commands/, imported when first used: `import electralab` alone loads
    neither torch nor anything else large. Type checkers read __init__.pyi, which is generated."""
    if name == "__all__":
        return __dir__()
    if name not in __dir__():
        raise AttributeError(f"module 'electralab' has no attribute {name!r}")
    import_module("electralab.runtime").wait_passively()
    verb = ALIASES.get(name, name)
    return getattr(import_module(f"electralab.shell.commands.{verb}"), verb)
