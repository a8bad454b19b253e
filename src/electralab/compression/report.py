"""The trade-off to read: results -> report.md

The rows of its table are also what the shell prints.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from electralab.artifacts import read_json, write_file
from electralab.errors import DamagedArtifact

Results = dict[str, Any]

RESULTS = "tradeoff.json"
HEAD = ("variant", "heads", "neurons", "size", "ms, 1 row", "ms, 32 rows", "score", "speed-up", "loss", "efficiency")


def write_report(out: Path, results: Results) -> None:
    write_file(out / "report.md", "\n".join(_lines(results)) + "\n")


def read_results(out: Path) -> Results:
    """Refused where they could not be told."""
    path = out / RESULTS
    results = read_json(path, "run the command again")
    try:
        list(_lines(results))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise DamagedArtifact(f"{path}: not a trade-off; run 'electra compress' again") from None
    return dict(results)


def _lines(results: Results) -> Iterator[str]:
    yield f"# {results['model']}, compressed\n"
    yield (
        f"Scored by {describe_metric(results)} on {results['examples']:,} "
        f"{'rows' if results['metric'] == 'auc' else 'examples'} of `{results['data']}`, timed on "
        f"{results['threads']} thread{'s' if results['threads'] > 1 else ''}, variants in turn.\n"
    )
    yield f"| {' | '.join(HEAD)} |"
    yield f"|{'|'.join(['---', *['---:'] * (len(HEAD) - 1)])}|"
    yield from (f"| {' | '.join(row)} |" for row in tradeoff_rows(results))
    yield ""
    yield from (f"- {line}" for line in explain(results))
    yield "\n![speed-up and score](tradeoff.png)"
    if results["notes"]:
        yield "\n## Notes\n"
        yield from (f"- {note}" for note in results["notes"])


def tradeoff_rows(results: Results) -> list[list[str]]:
    rows = []
    for point in results["variants"]:
        is_baseline = point["name"] == results["baseline"]
        mark = "*" if point["is_floored"] else ""
        rows.append(
            [
                point["name"] + (" ←" if point["name"] == results["picked"] else ""),
                f"{point['kept']['heads']:,}",
                f"{point['kept']['neurons']:,}",
                format_bytes(point["bytes"]),
                *(f"{point['milliseconds'][size]:.2f}" for size in ("1", "32")),
                f"{100 * point['score']:.2f}",
                f"{point['speedup']:.2f}×",
                "" if is_baseline else f"{point['loss'] + 0.0:+.2f}{mark}",
                "" if is_baseline else f"{point['efficiency']:.2f}{mark}",
            ]
        )
    return rows


def explain(results: Results) -> Iterator[str]:
    floor = results["floor"]
    yield f"speed-up: latency of {results['baseline']} / latency, {describe_batch(results)}"
    yield f"loss: points of {describe_metric(results)} below {results['baseline']}"
    better = [point["name"] for point in results["variants"] if point["loss"] < -floor["points"]]
    if better:
        yield (
            f"a negative loss: {', '.join(better)} scored above {results['baseline']}, not below; most often the model "
            "was trained too little for its score to mean much: train it longer and compress it again"
        )
    yield (
        f"efficiency: speed-up / loss; * a loss below {floor['points']:.2f} counts as {floor['points']:.2f}, "
        f"{floor['origin']}"
    )
    yield "heads, neurons: what all layers together have"
    for name, reason in results["failed"].items():
        yield f"{name} failed: {reason}"
    asked = {name.replace("_", " "): value for name, value in results["asked"].items() if value is not None}
    if asked:
        wish = " and ".join(f"a {name} of {value:g}" for name, value in asked.items())
        yield f"picked for {wish}: {results['picked'] or 'none, no variant has it'}"


def describe_metric(results: Results) -> str:
    return "the AUC of replaced-token detection" if results["metric"] == "auc" else results["metric"].replace("_", " ")


def describe_batch(results: Results) -> str:
    size = results["speedup_batch"]
    return f"{size} row{'s' if size > 1 else ''} of {results['tokens'][str(size)]} tokens"


def format_bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
