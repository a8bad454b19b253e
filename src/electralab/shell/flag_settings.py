"""Named flags and dotted ones together: settings.

argparse.Namespace -> SettingsTree
"""

import argparse
from typing import Any

from electralab.config import SettingsTree
from electralab.errors import UsageError

Result = dict[str, Any]

COLUMN_FLAGS = ("text", "text_a", "text_b")


def collect(arguments: argparse.Namespace, flags: dict[str, str], dotted: SettingsTree) -> SettingsTree:
    """The named flags that were given, as settings, with the dotted ones on top."""
    settings: SettingsTree = {}
    for flag, path in flags.items():
        value = getattr(arguments, flag)
        section, dot, name = path.rpartition(".")
        if value is not None:
            branch = settings.setdefault(section, {}) if dot else settings
            branch[name] = value
    for section, value in dotted.items():
        if isinstance(value, dict):
            above = settings.get(section, {})
            if not isinstance(above, dict):
                raise UsageError(f"--{section.replace('_', '-')}: is given both as a value and as a section; keep one")
            settings[section] = {**above, **value}
        else:
            settings[section] = value
    return settings
