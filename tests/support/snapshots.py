"""What reaches disk, wire, `--json`, terminal and pages, with everything that differs from run to run masked.

A JSON value becomes a line for each key: its path, its type, and its text where it is one. Elements of a list share
a line.
"""

import json
import re
import signal
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
from electra_process import Shell, Words
from golden_folders import COMMANDS

FOLDER = Path(__file__).parents[1] / "golden" / "snapshots"

VERBS = (
    *("quickstart", "prepare", "pretrain", "finetune", "fit", "glue", "flops", "evaluate", "study", "analyze"),
    *("claims", "report", "show", "detect", "predict", "proofread", "measure", "serve", "export", "compress", "import"),
    "completion",
)
TEXT = "Anna sees the old horse."
# Besides those that make the folders.
ANSWERS: dict[str, Words] = {
    **{f"{name} dry": (*words, "--dry-run") for name, words in COMMANDS.items() if name != "exported"},
    **{f"{name} again": COMMANDS[name] for name in ("run", "tuned", "study", "analysis", "small")},
    "glue": (
        *("glue", "run", "--data", "scores/glue", "--out", "glue", "--tasks", "cola", "--steps", 2),
        *("--threads", 1, "--no-baseline"),
    ),
    "flops": ("flops", "--data", "data", "--steps", 10, "--threads", 1),
    "flops table": ("flops", "--table"),
    "evaluate blimp": ("evaluate", "run", "--suite", "blimp", "--data", "scores/blimp", "--out", "blimp.json"),
    "evaluate rtd": ("evaluate", "run", "--suite", "rtd", "--data", "data", "--threads", 1),
    "evaluate mlm": ("evaluate", "run", "--suite", "mlm", "--data", "data", "--threads", 1),
    "evaluate probe": ("evaluate", "run", "--suite", "probe", "--task", "classify", "--data", "table"),
    "detect": ("detect", "run", TEXT),
    "predict": ("predict", "tuned", "new.csv", "--out", "answers.jsonl"),
    "proofread": ("proofread", "text.txt", "--model", "run", "--limit", 2),
    "proofread measure": ("proofread", "text.txt", "--model", "run", "--measure"),
    "export onnx": ("export", "run", "--format", "onnx", "--out", "onnx", "--data", "text.txt", "--threads", 1),
    **{f"show {name}": ("show", name) for name in COMMANDS},
    "show model": ("show", "run/export/discriminator"),
    "show tuned model": ("show", "tuned/export/model"),
    "show checkpoint": ("show", "run/checkpoints/step-6"),
    "show metrics": ("show", "run/metrics.jsonl"),
    "show row": ("show", "data", "--row", 1, "--model", "run"),
    **{f"report {name}": ("report", name, "--out", f"{name}.html") for name in ("analysis", "small")},
    "report several": ("report", "run", "tuned", "study", "analysis", "--out", "several.html"),
}
PAGES = (*("run/report.html", "tuned/report.html", "study/report.html", "analysis.html", "small.html", "several.html"),)
PROSE = (
    *("run/README.md", "tuned/README.md", "study/README.md", "study/report.md", "small/report.md"),
    *("analysis/README.md", "exported/discriminator/README.md", "exported/generator/README.md"),
    *("small/export/discriminator/README.md", "onnx/discriminator/README.md", "tuned/export/model/README.md"),
)
POSTS: dict[str, tuple[str, dict[str, Any]]] = {
    "detect": ("/v1/detect", {"text": TEXT, "model": "run"}),
    "detect texts": ("/v1/detect", {"texts": [TEXT, "Ben."], "model": "run"}),
    "fill": ("/v1/fill", {"text": "Anna sees the [MASK].", "top": 2, "model": "run"}),
    "fill at": ("/v1/fill", {"text": TEXT, "at": [[0, 4]], "top": 2, "model": "run"}),
    "play": ("/v1/play", {"text": TEXT, "mask_share": 0.3, "seed": 7, "model": "run"}),
    "embed": ("/v1/embed", {"text": TEXT, "model": "run"}),
    "predict": ("/v1/predict", {"text": TEXT, "model": "tuned"}),
    "predict texts": ("/v1/predict", {"texts": [TEXT, "Ben."], "model": "tuned"}),
    "unknown model": ("/v1/detect", {"text": TEXT, "model": "other"}),
    "unknown field": ("/v1/detect", {"test": TEXT}),
    "unable": ("/v1/predict", {"text": TEXT, "model": "run"}),
}
GETS = ("/health", "/ready", "/v1/models", "/v1/examples", "/openapi.json")

_MASKS = (
    (re.compile(r"\b[0-9a-f]{12,64}\b"), "HASH"),
    (re.compile(r"[-+−]?\d[\d,.]*(?:e[-+]?\d+)?"), "#"),
    (re.compile(r"#(?: ?[#–:×/] ?#)+"), "#"),
    (re.compile(r"(?:# (?:minutes?|seconds?|hours?|ms|s|h|min)\b ?)+"), "TIME "),
)


def mask(text: str, folder: Path) -> str:
    """Without numbers, hashes, times, and where the folder lies."""
    if "fastest" in text or "picked for" in text:  # which variant it is changes with the machine's load
        return "(the fastest)"
    text = text.replace(str(folder), "DIR").replace(" ←", "")
    # How threads wait is set by whoever starts the process.
    text = text.replace("the runtime's default (spinning)", "WAITING").replace("OMP_WAIT_POLICY=passive", "WAITING")
    for pattern, word in _MASKS:
        text = pattern.sub(word, text)
    return text.rstrip()


def list_keys(value: Any, folder: Path, path: str = "") -> Iterator[str]:
    match value:
        case dict():
            yield f"{path} object" if not value else ""
            for key, inner in value.items():
                name = mask(str(key), folder)
                inner = "(the fastest)" if name == "picked" else inner
                yield from list_keys(inner, folder, f"{path}.{name}" if path else name)
        case list():
            yield f"{path}[] empty" if not value else ""
            for inner in value:
                yield from list_keys(inner, folder, f"{path}[]")
        case bool() | None:
            yield f"{path} {json.dumps(value)}"
        case int() | float():
            yield f"{path} {type(value).__name__}"
        case _:
            yield f"{path} {json.dumps(mask(str(value), folder), ensure_ascii=False)}"


def render_json(value: Any, folder: Path) -> list[str]:
    """In the order of the keys, each line once; a list of texts that say different things is cut after three."""
    lines = list(dict.fromkeys(filter(None, list_keys(value, folder))))
    counts: dict[str, int] = {}
    kept = []
    for line in lines:
        key = line.split(" ")[0]
        counts[key] = counts.get(key, 0) + 1
        if counts[key] <= 3:
            kept.append(line)
    return kept


class _VisibleText(HTMLParser):
    """Text that is neither style nor script, a line for each piece between tags."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, _attrs: Any) -> None:
        self._hidden += tag in ("script", "style", "template")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "template")

    def handle_data(self, data: str) -> None:
        if not self._hidden and data.strip():
            self.lines.append(" ".join(data.split()))


def render_page(text: str, folder: Path) -> list[str]:
    parser = _VisibleText()
    parser.feed(text)
    lines = (mask(line, folder) for line in parser.lines)
    # Axis labels and cells that are numbers alone come and go with the figures.
    return [line for line in lines if line.strip("# %()±,;.–-k") and not re.fullmatch(r"(?:#|TIME)[ #%kKMGT]*", line)]


def take_help(shell: Shell) -> dict[str, list[str]]:
    pages = {"": shell.must("--help").out} | {verb: shell.must(verb, "--help").out for verb in VERBS}
    return {f"electra {verb}".strip(): text.splitlines() for verb, text in pages.items()}


def take_wire(shell: Shell) -> dict[str, list[str]]:
    """Answers of a server, and which figures it counts."""
    running = shell.start("serve", "run", "tuned", "--port", 0, "--threads", 1)
    lines: dict[str, list[str]] = {}
    with httpx.Client(base_url=running.wait_for_address(), timeout=60) as client:
        for name, (path, body) in POSTS.items():
            answer = client.post(path, json=body)
            lines[f"POST {name}"] = [str(answer.status_code), *render_json(answer.json(), shell.folder)]
        for path in GETS:
            answer = client.get(path)
            lines[f"GET {path}"] = [str(answer.status_code), *render_json(answer.json(), shell.folder)]
        metrics = client.get("/metrics").text.splitlines()
        lines["GET /metrics"] = list(dict.fromkeys(mask(line, shell.folder) for line in metrics))
        lines["GET /"] = render_page(client.get("/").text, shell.folder)
    running.send(signal.SIGTERM)
    assert running.wait().status == 0
    return lines


def take_snapshots(shell: Shell, made: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """file -> section -> lines, in a folder whose folders were just made."""
    folder = shell.folder
    answers = {name: render_json(value, folder) for name, value in made.items()}
    told: dict[str, list[str]] = {}
    for name, words in ANSWERS.items():
        answers[name] = render_json(shell.must(*words, "--json").json, folder)
        # Which variant of a trade-off is marked, and so how its table is cut, changes with the machine's load.
        if name != "show small" and name.startswith(("show", "detect", "proofread", "flops", "evaluate")):
            lines = [mask(line, folder) for line in shell.must(*words).out.splitlines()]
            told[name] = [re.sub(r"[─━═│┃ ]+", " ", line).strip() for line in lines]
    disk: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*.json*")):
        name = mask(str(path.relative_to(folder)), folder)
        if path.suffix not in (".json", ".jsonl") or path.name in ("tokenizer.json",) or name.startswith("scores"):
            continue
        text = path.read_text()
        values = [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)
        lines = render_json(values, folder)
        twin = next((other for other, known in disk.items() if known == lines), "")
        disk[name] = [f"as {twin}"] if twin else lines
    pages = {name: render_page((folder / name).read_text(), folder) for name in PAGES}
    prose = {
        name: [mask(line, folder) for line in (folder / name).read_text().splitlines()]
        for name in PROSE
        if (folder / name).is_file()
    }
    return {
        "help": take_help(shell),
        "disk": disk,
        "answers": answers,
        "terminal": told,
        "wire": take_wire(shell),
        "pages": pages,
        "prose": prose,
    }


def write_snapshot(sections: dict[str, list[str]]) -> str:
    return "\n".join(f"=== {name}\n" + "".join(f"{line}\n" for line in lines) for name, lines in sections.items())
