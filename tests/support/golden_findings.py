"""Every analysis measure on one tiny model and a tuned one of it, as a text file: a line for each finding.

model | claim | measure | layer | series | part -> value, low, high; the control's value, low, high
"""

from pathlib import Path
from typing import Any

from electra_process import Shell
from golden_folders import Words

from electralab.corpus.samples import write_bundled_text

PATH = Path(__file__).parents[1] / "golden" / "findings.txt"
_SPEECHES = ("1946-Truman-1", "1981-Carter-1", "1912-Taft-1", "1885-Cleveland-1", "2026-Trump-1", "1830-Jackson-1")
_KEY = ("model", "claim", "name", "layer", "series", "part")
_RUN: Words = (
    *("--model.num-layers", 2, "--model.embedding-size", 8, "--model.num-heads", 2, "--model.feedforward-size", 16),
    *("--batch.size", 8, "--evaluation.rows", 16, "--evaluation.times", 5, "--threads", 1, "--steps", 12),
    *("--snapshots", "0.25,0.5"),
)


def measure_findings(shell: Shell) -> dict[str, list[str]]:
    """English text, five sizes of run, a tuned and a compressed one, then all measures."""
    folder = shell.folder
    write_bundled_text(folder / "text")
    (folder / "domains").mkdir()
    for name in _SPEECHES:
        (folder / "domains" / f"{name}.txt").write_text((folder / "text" / f"{name}.txt").read_text()[:12_000])
    people, things = ("Anna", "Ben", "Clara"), (("horse", "yes"), ("letter", "no"))
    rows = [f"{people[i % 3]} sees the {things[i % 2][0]}.,{things[i % 2][1]}\n" for i in range(32)]
    (folder / "table").mkdir()
    for split in ("train", "dev"):
        (folder / "table" / f"{split}.csv").write_text("text,label\n" + "".join(rows))
    texts = [f"text/{name}.txt" for name in _SPEECHES[:2]]
    shell.must("prepare", *texts, "--out", "data", "--vocab-size", 2000, "--sequence-length", 32)
    for width in (8, 12, 16, 20, 24):
        shell.must("pretrain", "--data", "data", "--out", f"sizes/w{width}", "--model.hidden-size", width, *_RUN)
    quick: Words = ("--epochs", 1, "--batch-size", 8, "--sequence-length", 16, "--threads", 1, "--no-baseline")
    shell.must("finetune", "sizes/w16", "--task", "classify", "--data", "table", "--out", "tuned", *quick)
    sparing: Words = ("--recovery-steps", 0, "--importance.rows", 8, "--measure.rounds", 1, "--measure.bootstrap", 5)
    shell.must(
        *("compress", "sizes/w16", "--data", "data", "--out", "small", "--prune", "0.5", "--threads", 1),
        *(*sparing, "--verdicts.limit", 8),
    )
    domains = ",".join(f"domains/{name}.txt" for name in _SPEECHES)
    # What compression costs is told in seconds too, which are no one's golden numbers: claim M42 is held elsewhere.
    ended = shell.must(
        *("analyze", "sizes/w16", "tuned", "--data", "data", "--out", "analysis", "--domains", domains),
        *("--tradeoff", "small", "--runs", "sizes", "--classes", "table/dev.csv", "--examples", "table"),
        *("--rows", 32, "--vectors", 100, "--points", 20, "--times", 5, "--threads", 1, "--json"),
    )
    return _list_findings(ended.json)


def _list_findings(analysis: dict[str, Any]) -> dict[str, list[str]]:
    lines: dict[str, list[str]] = {}
    for finding in analysis["findings"]:
        if finding["claim"] == "M42":
            continue
        name = " | ".join("" if finding[key] is None else str(finding[key]) for key in _KEY)
        control = finding["control"] or {}
        figures = [finding.get(key) for key in ("value", "low", "high")]
        figures += [control.get(key) for key in ("value", "low", "high")]
        assert name not in lines, name
        lines[name] = [repr(figure) for figure in figures]
    for missing in analysis["missing"]:
        lines[f"missing: {missing['model']} | {missing['claim']} | {missing['name']}"] = []
    return lines
