"""A parser of words that answers what it does not know in one sentence, with the nearest word it does.

words -> argparse.Namespace, or UsageError
"""

import argparse
import difflib
from collections.abc import Sequence
from typing import NoReturn

from electralab.errors import UsageError

Words = list[str]


class Parser(argparse.ArgumentParser):
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
            raise UsageError(f"{self._where}{what} '{flag}'; {hint(flag, self._flags, self.prog)}")

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


def hint(word: str, known: Sequence[str], program: str) -> str:
    close = difflib.get_close_matches(word, known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"see '{program} --help'"
