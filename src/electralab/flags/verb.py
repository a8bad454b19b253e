"""What every verb has: a summary, an example, --json, --dry-run, --verbose, and settings from a file."""

import argparse
from typing import Any

from electralab.parser import Parser


def add_verb(verbs: Any, name: str, summary: str, example: str) -> Parser:
    parser: Parser = verbs.add_parser(
        name,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on standard output")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and do nothing")
    parser.add_argument("--verbose", action="store_true", help="print every setting and figure, not only the main ones")
    return parser


def add_settings(parser: Parser, what: str) -> None:
    parser.add_argument("--config", metavar="FILE", help=f"{what}; any setting also as --section.name VALUE")
