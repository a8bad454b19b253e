"""`electra detect`, `electralab.detect`: how likely each token of a text was replaced."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from electralab.shell.call import Call, Parser, print_json, settle
from electralab.terminal import tame

if TYPE_CHECKING:
    from electralab.config import GivenSettings
    from electralab.records.answers import Detection, TokenScore
    from electralab.reporting.blocks import MarkedText

SUMMARY = "estimate for each token of a text how likely it was replaced"
EXAMPLE = "electra detect hour-en 'The goverment moved to there new house in 1902.'"
SETTINGS = "electralab.serving.series:DetectConfig"

_LONGEST_WORD = 24
_MOST_EXPLAINED = 20


def add_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL", help="a run, a model folder of ours or of Hugging Face, or hour-en")
    add("text", nargs="?", metavar="TEXT", help="the text, or - for standard input")
    add("--logs", metavar="PATH", help="new lines of the log that the model was trained on")
    add("--file", metavar="PATH", help="a file that holds the text, or for a model of time series a CSV table")
    add("--raw", action="store_true", help="only the discriminator's probabilities, without the calibration")
    rate = "the share of words, or events and sequences, that are wrong, if not that of the calibration"
    add("--error-rate", dest=".error_rate", type=float, metavar="P", help=rate)
    share = "of time series: the share of normal points that may be called odd"
    add("--html", metavar="FILE", help="of time series: write a page with plots and windows")
    add("--evidence", dest=".series.evidence", help="of time series: what is combined ({choices})")
    add("--false-alarm-rate", dest=".series.false_alarm_rate", type=float, metavar="P", help=share)
    add("--lines", action="store_true", help="read each line as a text; --json prints one line for each")


def detect(
    model: str | Path,
    texts: Iterable[str] = (),
    *,
    logs: str | Path | None = None,
    raw: bool = False,
    config: str | None = None,
    settings: GivenSettings | None = None,
) -> list[Detection]:
    """For each text its tokens with character spans and p_replaced, and which of them are the most suspicious.

    A calibrated model (`electralab.calibrate`) also says p_wrong, unless `raw` leaves it out.

    A model of symbols takes JSON lists; with `logs`, the path of new lines of its log, there is a detection for each
    session, whose tokens are the events of lines. `warning` says where the model's held-out scores speak against its
    verdicts.

    >>> (detection,) = electralab.detect("run", ["we the people"])
    >>> [token.text for token in detection.tokens]
    ['we', 'the', 'people']
    """
    from electralab.serving.model import Model
    from electralab.serving.series import DetectConfig

    loaded = Model(Path(model), settle(DetectConfig, config, settings), raw=raw)
    return loaded.detect_log(Path(logs)) if logs else loaded.detector.detect_many(list(texts))


def run(call: Call) -> None:
    from electralab.errors import UsageError
    from electralab.records.answers import Detection
    from electralab.reporting.format import format_number_of

    flags = call.flags
    if sum(given is not None for given in (flags.text, flags.file, flags.logs)) != 1:
        raise UsageError("detect: give one of TEXT, --file PATH, --logs PATH, or - for standard input")
    if flags.logs is not None:
        _run_logs(call)
        return
    if flags.file is not None and not flags.dry_run and reads_series(Path(flags.model)):
        run_series(call)
        return
    if flags.file is not None or flags.text == "-":
        text = read_source(call, flags.file if flags.file is not None else "-", is_file=flags.file is not None)
    else:
        # Bytes that are no text arrive from the shell as lone surrogates.
        text = _decode(call, flags.text.encode(errors="surrogateescape"), "TEXT", may_be_cut=False)
    texts = [text]
    if flags.lines:
        texts = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text.strip() else []
    if flags.dry_run:
        characters = sum(map(len, texts))
        asked = f"{format_number_of(len(texts), 'text')} with {format_number_of(characters, 'character')}"
        call.print_plan(f"would ask {flags.model} about {asked}")
        call.answer(model=flags.model, texts=len(texts), characters=characters)
        return
    call.say_loading(flags.model)
    detections = call.ask(detect, texts=[line for line in texts if line.strip()] if flags.lines else texts)
    if flags.lines:
        # A blank line has an answer too, or the numbers of lines would be lost.
        answers = iter(detections)
        detections = [next(answers) if line.strip() else Detection(text=line, tokens=()) for line in texts]
    if flags.json:
        # A line for each text; of no text at all still an object, for a program that awaits one.
        for values in [detection.to_json() for detection in detections] or [{}]:
            print_json(values)
        return
    for detection in detections:
        if call.console.is_terminal:
            call.print(mark_tokens(detection))
            continue
        # For a pipe, which shows no colours: a token a line.
        is_calibrated = any(token.p_wrong is not None for token in detection.tokens)
        names = ["start", "end", "p_replaced", *(["p_wrong"] if is_calibrated else []), "token"]
        call.console.file.write("\t".join(names) + "\n")
        for token in detection.tokens:
            wrong = f"{token.p_wrong:.4f}\t" if token.p_wrong is not None else ""
            call.console.file.write(f"{token.start}\t{token.end}\t{token.p_replaced:.4f}\t{wrong}{tame(token.text)}\n")
    # On standard error, beside what a pipe takes; of many texts only what holds of all.
    if warnings := [detection.warning for detection in detections if detection.warning]:
        call.display.say(f"warning: {warnings[0]}", style="yellow")
    if len(detections) == 1 and (named := format_suspects(detections[0])):
        call.display.say(named)


def _run_logs(call: Call) -> None:
    """Of each session that something speaks against, the lines that do, the most suspicious first."""
    from electralab.reporting.format import format_number_of

    flags = call.flags
    if flags.dry_run:
        call.print_plan(f"would ask {flags.model} about the lines of {flags.logs}")
        call.answer(model=flags.model, logs=flags.logs)
        return
    call.say_loading(flags.model)
    detections = call.ask(detect)
    if flags.json:
        for detection in detections:
            print_json(detection.to_json())
        return
    if detections and detections[0].warning:
        call.display.say(f"warning: {detections[0].warning}", style="yellow")
    named = [
        detection
        for detection in detections
        if detection.is_alarm or (detection.suspicious and not detection.is_relative)
    ]
    # Without a calibration in the order of the log.
    named.sort(key=lambda detection: -(detection.suspicion or 0.0))

    def write(*cells: object) -> None:
        call.console.file.write(tame("\t".join(map(str, cells))) + "\n")

    write("session", "line", "suspicion", "event", "reasons", "template")
    for detection in named:
        if detection.is_alarm:
            where, why = f"{detection.lines[0]}-{detection.lines[-1]}", "; ".join(detection.reasons)
            write(detection.session, where, f"{detection.p_wrong:.4f}", "", why, "")
        for index in () if detection.is_relative else detection.suspicious:
            token = detection.tokens[index]
            why = "; ".join(token.reasons) or ("event never seen" if token.unknown else "")
            line, template = detection.lines[index], token.template or ""
            write(detection.session, line, f"{token.suspicion:.4f}", token.text, why, template)
    call.display.say(f"{format_number_of(len(named), 'session')} of {len(detections):,} with suspicious lines")


def reads_series(model: Path) -> bool:
    """Whether it is a model of time series, found without loading it."""
    from electralab.records.series import SeriesSymbols

    return any((model / place / SeriesSymbols.FILE).is_file() for place in ("", "export", ".."))


def run_series(call: Call) -> None:
    from electralab.artifacts import write_file
    from electralab.errors import UsageError
    from electralab.reporting.format import format_number_of
    from electralab.reporting.series_page import render_detection, tabulate_windows
    from electralab.serving.model import Model
    from electralab.serving.series import DetectConfig

    flags = call.flags
    call.say_loading(flags.model)
    config = settle(DetectConfig, flags.config, call.settings)
    if config.error_rate is not None:
        raise UsageError(
            "--error-rate: moves p_wrong, which points of time series do not have; --false-alarm-rate says how many "
            "normal points may be called odd"
        )
    detection = Model(Path(flags.model), config).series_detector.detect(flags.file, config.series)
    for note in detection.notes:
        call.display.say(f"{detection.source}: {note}", style="yellow")
    if detection.warning:
        call.display.say(f"warning: {detection.warning}", style="yellow")
    if flags.html:
        write_file(Path(flags.html), render_detection(detection))
        call.display.say(f"page  {flags.html}")
    if flags.json:
        print_json(detection.to_json())
        return
    if call.console.is_terminal or flags.verbose:
        call.print(tabulate_windows(detection))
    else:  # for a pipe, a point a line
        call.console.file.write("\t".join(["time", "p_odd", "is_odd", *detection.columns]) + "\n")
        for point in detection.points:
            p_odd = "" if point.p_odd is None else f"{point.p_odd:.6f}"
            is_odd = int(point.p_odd is not None and point.p_odd >= detection.threshold)
            values = ("" if value is None else f"{value:g}" for value in point.values)
            call.console.file.write("\t".join([tame(point.time), p_odd, str(is_odd), *values]) + "\n")
    windows = format_number_of(len(detection.windows), "window")
    call.display.say(f"{windows} in {format_number_of(len(detection.points), 'point')} of {detection.source}")


def mark_tokens(detection: Detection) -> MarkedText:
    """The text as it is, each token with its suspicion; those named though they do not pass 0.5 underlined."""
    from electralab.reporting.blocks import MarkedText, TokenSpan

    named = {index for index in detection.suspicious if detection.tokens[index].suspicion <= 0.5}
    spans = [
        TokenSpan(token.start, token.end, token.suspicion, "replaced" if index in named else "")
        for index, token in enumerate(detection.tokens)
    ]
    return MarkedText(detection.text, spans)


def format_suspects(detection: Detection) -> str:
    """In words, what colours cannot say: the most suspicious where none passes, and tokens that are unknown."""
    from electralab.reporting.format import format_names

    def widen(token: TokenScore) -> str:
        """The word that a token is a piece of, in scripts that put spaces between words; else the token itself."""
        text, start, end = detection.text, token.start, token.end
        while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
            start -= 1
        while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
            end += 1
        return text[start:end] if end - start <= _LONGEST_WORD else token.text

    tokens = [detection.tokens[index] for index in detection.suspicious]
    explained = {widen(token): f"{widen(token)}: {'; '.join(token.reasons)}" for token in tokens if token.reasons}
    why = "\n".join(list(explained.values())[:_MOST_EXPLAINED])
    if detection.is_relative:
        named = ", ".join(f"{widen(token)} ({token.suspicion:.2f})" for token in tokens)
        relative = f"none of {len(detection.tokens):,} tokens passes 0.5; the most suspicious of this text: {named}"
        return f"{relative}\n{why}" if why else relative
    if why:
        return why
    unknown = [token.text for token in tokens if token.unknown and token.p_replaced <= 0.5]
    return f"never seen in training, and suspicious for that alone: {format_names(unknown, 5)}" if unknown else ""


def read_source(call: Call, source: str, *, is_file: bool = False) -> str:
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


def _decode(call: Call, data: bytes, source: str, *, may_be_cut: bool = True) -> str:
    """Text in UTF-8; `head -c` and a broken download cut inside a character, which costs that character only."""
    from electralab.errors import InputError

    try:
        text, used = codecs.utf_8_decode(data, "strict", not may_be_cut)
    except UnicodeDecodeError as error:
        raise InputError(f"{source}: not UTF-8 at byte {error.start}; convert it, for example with iconv") from None
    if used < len(data):
        call.display.say(f"{source}: ends inside a character, which is left out", style="yellow")
    return text.removeprefix("\ufeff")
