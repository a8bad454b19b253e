"""The shell: words -> one call of a verb -> its result printed, and an exit status.

Only the standard library is imported until a verb runs: `electra --help` must be quick.
"""

import argparse
import difflib
import errno
import io
import json
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

from electralab.errors import ElectraError, Stopped, UsageError

Words = list[str]


class _Parser(argparse.ArgumentParser):
    """Errors as one sentence with the nearest known word, status 2."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{self._where}{message}; see '{self.prog} --help'")

    @property
    def _where(self) -> str:
        """The verb, before what is wrong with it."""
        return "".join(f"{verb}: " for verb in self.prog.split()[1:])

    @property
    def _flags(self) -> Words:
        return [option for action in self._actions for option in action.option_strings]

    def refuse_unknown(self, words: Words) -> None:
        for word in words:
            flag = word.partition("=")[0]
            what = "no flag named" if flag.startswith("-") else "unexpected argument"
            raise UsageError(f"{self._where}{what} '{flag}'; {_hint(flag, self._flags, self.prog)}")

    def check_flags(self, words: Words) -> None:
        """Before argparse complains about what a misspelt flag was meant to give."""
        until = words.index("--") if "--" in words else len(words)
        flags = [word for word in words[:until] if word.startswith("--")]
        self.refuse_unknown([flag for flag in flags if flag.partition("=")[0] not in self._flags])

    def gather(self, words: Words) -> Words:
        """Flags first, then the rest: argparse would take a verb's other words from one place only."""
        takes_value = {flag: action.nargs != 0 for action in self._actions for flag in action.option_strings}
        flags: Words = []
        others: Words = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            if word == "--":
                return [*flags, "--", *others, *rest]
            is_flag = word.startswith("-") and word != "-"
            (flags if is_flag else others).append(word)
            if takes_value.get(word) and rest:
                flags.append(rest.pop(0))
        return [*flags, *others]


def _hint(word: str, known: Sequence[str], program: str) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"see '{program} --help'"


def _verb(verbs: Any, name: str, summary: str, example: str) -> _Parser:
    parser: _Parser = verbs.add_parser(
        name,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on standard output")
    parser.add_argument("--dry-run", action="store_true", help="print the resolved plan and do nothing")
    return parser


def _add_settings(parser: _Parser, what: str) -> None:
    parser.add_argument("--config", metavar="FILE", help=f"{what}; any setting also as --section.name VALUE")


def _add_prepare(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "prepare",
        "turn text into tokenized, packed rows",
        "electra prepare books/ news.jsonl.gz --out data/mine --vocab-size 8192",
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="files, folders, globs, or - for standard input")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="entries of the learned vocabulary")
    parser.add_argument("--sequence-length", type=int, metavar="N", help="tokens per row")
    parser.add_argument(
        "--tokenizer", metavar="PATH", help="a vocab.txt, tokenizer.json or model folder to use instead"
    )
    parser.add_argument("--tokenizer-kind", choices=["wordpiece", "bpe", "unigram"], help="what to learn")
    parser.add_argument("--lowercase", action=argparse.BooleanOptionalAction, help="fold case")
    parser.add_argument("--strip-accents", action=argparse.BooleanOptionalAction, help="remove accents")
    parser.add_argument("--documents", choices=["blank-lines", "lines", "files"], help="where a .txt document ends")
    parser.add_argument("--field", metavar="NAME", help="the field of .jsonl, the column of tables (default: text)")
    parser.add_argument("--packing", choices=["contiguous", "pairs"], help="full rows, or the paper's two segments")
    parser.add_argument(
        "--repair", action=argparse.BooleanOptionalAction, help="mend broken encodings before anything else"
    )
    parser.add_argument("--symbols", action="store_true", default=None, help="JSONL lists taken as tokens as they are")
    parser.add_argument("--heldout-share", type=float, metavar="P", help="of the documents, kept for evaluation")
    parser.add_argument("--seed", type=int, metavar="S")
    _add_settings(parser, "a TOML file of settings")


def _add_pretrain(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "pretrain",
        "train a generator and a discriminator; the same command again resumes",
        "electra pretrain --data data/mine --out runs/mine --config tiny --minutes 10 --masking.mask-share 0.2",
    )
    parser.add_argument("--data", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    parser.add_argument("--out", required=True, metavar="RUN", help="the run folder")
    parser.add_argument("--size", choices=["tiny", "small", "base", "large"], help="sizes of both networks")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=_positive_int, metavar="N")
    budget.add_argument("--tokens", type=_positive, metavar="N")
    budget.add_argument("--flops", type=_positive, metavar="X")
    budget.add_argument("--minutes", type=_positive, metavar="M", help="turned into steps by a short probe, once")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--save-every", type=_count, default=500, metavar="N", help="steps between checkpoints (500)")
    parser.add_argument("--log-every", type=_count, default=20, metavar="N", help="steps between log lines (20)")
    parser.add_argument("--keep", type=_positive_int, default=2, metavar="N", help="checkpoints to keep (2)")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    parser.add_argument("--objective", metavar="NAME", help="electra")
    parser.add_argument("--procedure", metavar="NAME", help="joint")
    parser.add_argument("--init-from", metavar="DIR", help="start new training from this model's weights")
    parser.add_argument("--extend", action="store_true", help="go on with a larger budget")
    parser.add_argument("--allow-inexact", action="store_true", help="resume with another number of threads")
    _add_settings(parser, "a preset (tiny, small, base, large, paper-small, …) or a TOML file")


def _add_detect(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "detect",
        "say for each token of a text how likely it was replaced",
        "electra detect runs/quickstart 'The people of the United elephants are free.'",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text, or - for standard input")
    parser.add_argument("--file", metavar="PATH", help="a file that holds the text")
    parser.add_argument("--lines", action="store_true", help="each line is a text of its own; --json gives a line each")
    _add_settings(parser, "a TOML file of settings")


def _add_show(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "show",
        "print any artifact in human form",
        "electra show runs/quickstart",
    )
    parser.add_argument("path", metavar="PATH", help="a data folder, run, checkpoint, model folder or metrics.jsonl")
    parser.add_argument("--row", type=int, metavar="N", help="of data: this training row with its pieces")
    parser.add_argument(
        "--model", metavar="MODEL", help="with --row: mask and corrupt the row and judge it by this run"
    )


def _add_quickstart(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "quickstart",
        "prepare, pre-train and try a tiny ELECTRA on a text that comes along",
        "electra quickstart --minutes 5",
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="your own text instead")
    parser.add_argument("--out", default="runs/quickstart", metavar="RUN")
    parser.add_argument("--minutes", type=_positive, default=5.0, metavar="M", help="of pre-training (5)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    _add_settings(parser, "a preset or a TOML file for pre-training")


def _add_import(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "import",
        "convert a legacy pickled or TensorFlow checkpoint into a safe model folder",
        "electra import old/ --out models/new",
    )
    parser.add_argument("old", metavar="OLD", help="a folder with pytorch_model.bin or a TensorFlow checkpoint")
    parser.add_argument("--out", required=True, metavar="NEW", help="the folder to write")


def _add_completion(verbs: Any) -> None:
    parser = _verb(verbs, "completion", "print a completion script for a shell", 'eval "$(electra completion bash)"')
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def _positive_int(text: str) -> int:
    return _whole(text, least=1)


def _count(text: str) -> int:
    return _whole(text, least=0)


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
    return value


def build_parser() -> tuple[_Parser, dict[str, _Parser]]:
    from electralab import __version__

    parser = _Parser(
        prog="electra",
        description="From a folder of text to a pre-trained ELECTRA. Start with 'electra quickstart'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"electra {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=_Parser)
    for add in (_add_quickstart, _add_prepare, _add_pretrain, _add_detect, _add_show, _add_import, _add_completion):
        add(verbs)
    return parser, verbs.choices


def split_overrides(words: Sequence[str]) -> tuple[Words, Words]:
    """Take dotted settings (`--masking.mask-share 0.25`) out before argparse could mistake their values for inputs."""
    plain: Words = []
    dotted: Words = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*plain, word, *rest], dotted
        flag = word.partition("=")[0]
        if not (flag.startswith("--") and "." in flag):
            plain.append(word)
            continue
        dotted.append(word)
        if "=" not in word and rest:
            dotted.append(rest.pop(0))
    return plain, dotted


def _run(words: Sequence[str]) -> int:
    parser, verbs = build_parser()
    plain, dotted = split_overrides(words)
    verb = plain[0] if plain else ""
    if verb in verbs:
        verbs[verb].check_flags(plain[1:])
        plain = [verb, *verbs[verb].gather(plain[1:])]
    elif not verb.startswith("-"):
        what = f"no verb named '{verb}'" if verb else "no verb given"
        raise UsageError(f"{what}; {_hint(verb, list(verbs), parser.prog)}")
    arguments, unknown = parser.parse_known_args(plain)
    verbs[arguments.verb].refuse_unknown(unknown)
    if dotted and not hasattr(arguments, "config"):
        verbs[arguments.verb].refuse_unknown(dotted)
    if arguments.verb == "completion":
        return _print_completion(parser, arguments)

    from electralab import shell

    result = shell.run_verb(arguments, dotted)
    if arguments.json:
        shell.print_json(result)
    return 0


def _print_completion(parser: _Parser, arguments: argparse.Namespace) -> int:
    import shtab

    script = shtab.complete(parser, shell=arguments.shell)
    sys.stdout.write(json.dumps({"shell": arguments.shell, "script": script}) + "\n" if arguments.json else script)
    return 0


def _raise_stopped(number: int, _frame: object) -> NoReturn:
    raise Stopped(number)


def _ignore_signals() -> None:
    """What was asked for is being done: a second signal must not tear the farewell."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def main(words: Sequence[str] | None = None) -> int:
    if words is None:
        # Before a stage listens itself, while libraries load, a signal still ends in our exit status.
        signal.signal(signal.SIGTERM, _raise_stopped)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A terminal that knows only ASCII gets a stand-in for what it cannot show, not an error.
            sys.stdout.reconfigure(errors="replace")
    try:
        status = _run(sys.argv[1:] if words is None else words)
        sys.stdout.flush()
        return status
    except ElectraError as error:
        sys.stderr.write(f"electra: {error}\n")
        return error.status
    except Stopped as stopped:
        _ignore_signals()
        sys.stderr.write("electra: stopped; the same command goes on from here\n")
        return stopped.status
    except KeyboardInterrupt:
        _ignore_signals()
        return 130
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        _silence_stdout()
        return 0
    except OSError as error:
        sys.stderr.write(f"electra: {_explain(error)}\n")
        return 1


def _silence_stdout() -> None:
    """What could not be written must not be tried again, and complained about, when Python flushes at exit."""
    sys.stdout = open("/dev/null", "w")  # noqa: SIM115, PTH123


def _explain(error: OSError) -> str:
    """The last resort: what the operating system refused and no stage foresaw, as one sentence."""
    where = error.filename
    # Whoever else writes names the file that is too large for its disk.
    is_stdout = where is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    try:
        sys.stdout.flush()
    except OSError:
        is_stdout = True
    if is_stdout:
        _silence_stdout()
        where = where or "standard output"
    reason = error.strerror or str(error)
    return f"{where}: {reason}" if where else reason
