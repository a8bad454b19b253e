"""`electra detect`: how likely each token of a text was replaced."""

import codecs
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from electralab import api
from electralab.shell.parser import Parser

if TYPE_CHECKING:
    from electralab.records.answers import Detection, TokenScore
    from electralab.reporting.blocks import MarkedText
    from electralab.shell.call import Call

SUMMARY = "say for each token of a text how likely it was replaced"
EXAMPLE = "electra detect runs/quickstart 'The people of the United elephants are free.'"
FUNCTION = api.detect
SETTINGS = "electralab.serving.inputs:WindowConfig"
CONFIG_HELP = "a TOML file of settings"
IS_PRINTED_WHOLE = True

_LONGEST_WORD = 24


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    add("text", nargs="?", metavar="TEXT", help="the text, or - for standard input")
    add("--file", metavar="PATH", help="a file that holds the text")
    add("--lines", action="store_true", help="each line is a text of its own; --json gives a line each")


def run(call: "Call") -> Any:
    from electralab.reporting.format import format_number_of
    from electralab.shell.call import print_json

    flags = call.flags
    texts = _read_texts(call)
    if flags.dry_run:
        plan = {"model": flags.model, "texts": len(texts), "characters": sum(map(len, texts))}
        asked = f"{format_number_of(len(texts), 'text')} with {format_number_of(plan['characters'], 'character')}"
        call.print_plan([f"would ask {flags.model} about {asked}"])
        return plan
    call.say_loading(flags.model)
    detections = api.detect(flags.model, texts, config=flags.config, settings=call.settings)
    for detection in detections:
        if call.console.is_terminal:
            call.print(mark_tokens(detection))
        else:
            call.console.file.write("" if flags.json else _tabulate(detection))
    if not flags.json:
        _tell_suspects(detections, call)
    if not flags.lines:
        return detections[0]
    if flags.json:
        # One object a line: the last is left to the caller, who ends the line.
        for detection in detections[:-1]:
            print_json(detection)
    return detections[-1] if detections else {}


def mark_tokens(detection: "Detection") -> "MarkedText":
    """The text as it is, each token with its suspicion; those named though they do not pass 0.5 underlined."""
    from electralab.reporting.blocks import MarkedText, TokenSpan

    named = {index for index in detection.suspicious if detection.tokens[index].p_replaced <= 0.5}
    spans = [
        TokenSpan(token.start, token.end, token.p_replaced, "replaced" if index in named else "")
        for index, token in enumerate(detection.tokens)
    ]
    return MarkedText(detection.text, spans)


def _tabulate(detection: "Detection") -> str:
    """For a pipe, which shows no colours: a token a line."""
    from electralab.terminal import tame

    rows = [f"{token.start}\t{token.end}\t{token.p_replaced:.4f}\t{tame(token.text)}" for token in detection.tokens]
    return "".join(f"{row}\n" for row in ["start\tend\tp_replaced\ttoken", *rows])


def _tell_suspects(detections: Sequence["Detection"], call: "Call") -> None:
    """On standard error, beside what a pipe takes; of many texts only what holds of all."""
    if detections and detections[0].warning:
        call.display.say(f"warning: {detections[0].warning}", style="yellow")
    if len(detections) == 1 and (text := format_suspects(detections[0])):
        call.display.say(text)


def format_suspects(detection: "Detection") -> str:
    """In words, what colours cannot say: the most suspicious where none passes, and tokens that are unknown."""
    tokens = [detection.tokens[index] for index in detection.suspicious]
    if detection.is_relative:
        named = ", ".join(f"{_widen(detection.text, token)} ({token.p_replaced:.2f})" for token in tokens)
        number = len(detection.tokens)
        return f"none of {number:,} tokens passes 0.5; the most suspicious of this text: {named}"
    unknown = [token.text for token in tokens if token.unknown and token.p_replaced <= 0.5]
    if not unknown:
        return ""
    named = ", ".join(unknown[:5]) + (f" and {len(unknown) - 5:,} more" if len(unknown) > 5 else "")
    return f"never seen in training, and suspicious for that alone: {named}"


def _widen(text: str, token: "TokenScore") -> str:
    """The word that a token is a piece of, in scripts that put spaces between words; else the token itself."""
    start, end = token.start, token.end
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    return text[start:end] if end - start <= _LONGEST_WORD else token.text


def _read_texts(call: "Call") -> list[str]:
    from electralab.errors import UsageError

    flags = call.flags
    if (flags.text is None) == (flags.file is None):
        raise UsageError("detect: give one of TEXT, --file PATH, or - for standard input")
    if flags.file is not None or flags.text == "-":
        text = read_source(call, flags.file if flags.file is not None else "-", is_file=flags.file is not None)
    else:
        # Bytes that are no text arrive from the shell as lone surrogates.
        text = _decode(call, flags.text.encode(errors="surrogateescape"), "TEXT", may_be_cut=False)
    return [line for line in text.splitlines() if line.strip()] if flags.lines else [text]


def read_source(call: "Call", source: str, *, is_file: bool = False) -> str:
    """A text file, or standard input for `-`; `proofread` reads the same way."""
    from electralab.errors import InputError

    if source == "-" and not is_file:
        return _decode(call, sys.stdin.buffer.read(), "standard input")
    try:
        return _decode(call, Path(source).read_bytes(), source)
    except FileNotFoundError:
        raise InputError(f"{source}: no such file") from None
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror}); give a text file") from None


def _decode(call: "Call", data: bytes, source: str, *, may_be_cut: bool = True) -> str:
    """Text in UTF-8; `head -c` and a broken download cut inside a character, which costs that character only."""
    from electralab.errors import InputError

    try:
        text, used = codecs.utf_8_decode(data, "strict", not may_be_cut)
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 at byte {error.start}; convert it, for example with iconv") from None
    if used < len(data):
        call.display.say(f"{source}: ends inside a character, which is left out", style="yellow")
    return text.removeprefix("\ufeff")
