"""A result as one line of JSON on standard output."""

import json
import sys
from typing import Any

from electralab.terminal import escape_json


def print_json(result: Any) -> None:
    """One line on standard output; where that knows only ASCII, escaped instead of replaced by stand-ins."""
    is_utf8 = (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    sys.stdout.write(escape_json(json.dumps(result, ensure_ascii=not is_utf8)) + "\n")
