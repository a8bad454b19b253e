"""The words of the shell: every verb with its flags.

words -> argparse.Namespace
"""

from electralab.flags import asking, giving, judging, learning
from electralab.parser import Parser


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    from electralab import __version__

    parser = Parser(
        prog="electra",
        description="From a folder of text to a pre-trained, fine-tuned ELECTRA. Start with 'electra quickstart'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"electra {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for add in (*learning.VERBS, *judging.VERBS, *asking.VERBS, *giving.VERBS):
        add(verbs)
    return parser, verbs.choices
