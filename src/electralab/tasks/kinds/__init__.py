"""The kinds of task: every file of this folder is one, and its `KIND` is found here by name.

    name of a kind -> TaskKind

A new kind is a new file: it brings its own task for people's files, and nothing else has to name it.
"""

from importlib import import_module
from pkgutil import iter_modules

from electralab.tasks.kind import AnyKind

KINDS: dict[str, AnyKind] = {
    kind.name: kind for kind in (import_module(f"{__name__}.{module.name}").KIND for module in iter_modules(__path__))
}
