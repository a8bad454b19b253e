"""The kinds of input that can be measured on: every file of this folder is one, and its `INPUT` is found here.

    name -> MeasuredInput

A new kind is a new file; nothing else has to name it.
"""

from importlib import import_module
from pkgutil import iter_modules

from electralab.measuring.items import MeasuredInput

INPUTS: dict[str, MeasuredInput] = {
    item.name: item for item in (import_module(f"{__name__}.{module.name}").INPUT for module in iter_modules(__path__))
}
