"""Proofs as one page of HTML that needs nothing else: the text with its suspicious words marked, and what may be meant.

Proof... -> HTML
"""

from collections.abc import Sequence
from html import escape

from electralab.serving.proofreader import Finding, Proof

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1f2933; --paper: #fdfdfb; --soft: #5d6875; --rule: #dfe3e8; --mark: 214 69 16; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --paper: #16191d; --soft: #9aa5b1; --rule: #2f363f; --mark: 255 138 84; }
}
body { margin: 0 auto; max-width: 46rem; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 1.05rem/1.7 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2.5rem; overflow-wrap: anywhere; }
p.count { color: var(--soft); margin-top: -0.5rem; }
p.warning { border-left: 4px solid rgb(var(--mark)); padding-left: 0.8rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; border-top: 1px solid var(--rule); padding-top: 1rem; }
mark { color: inherit; background: rgb(var(--mark) / 0.16); border-bottom: 2px solid rgb(var(--mark));
  border-radius: 2px; }
mark.relative { border-bottom-style: dotted; }
mark small { color: var(--soft); font-size: 0.78em; }
mark small::before { content: " → "; }
table { border-collapse: collapse; width: 100%; font-size: 0.92rem; } th { text-align: left; color: var(--soft); }
td, th { border-bottom: 1px solid var(--rule); padding: 0.3rem 0.6rem 0.3rem 0; vertical-align: top; }
td.p { font-variant-numeric: tabular-nums; }
@media print { body { max-width: none; } }
"""


def compose_page(proofs: Sequence[Proof], warning: str | None = None) -> str:
    """`warning` is what the model's held-out scores say against its verdicts."""
    told = [f'<p class="warning">{escape(warning[:1].upper() + warning[1:])}.</p>'] if warning else []
    parts = "\n".join([*told, *(_compose_proof(proof) for proof in proofs)])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Proofs</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Words that look out of place</h1>
{parts}
</main>
</body>
</html>
"""


def _compose_proof(proof: Proof) -> str:
    named = proof.findings or proof.most_suspicious
    table = ""
    if named:
        rows = "\n".join(_compose_row(finding) for finding in sorted(named, key=lambda one: -one.word.suspicion))
        heads = "".join(f'<th scope="col">{name}</th>' for name in ("line", "word", "suspicion", "perhaps"))
        table = f"<table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    return f"""<section>
<h2>{escape(proof.source)}</h2>
<p class="count">{_count(proof)}</p>
<div class="text" dir="auto">{_mark_text(proof)}</div>
{table}
</section>"""


def _count(proof: Proof) -> str:
    if proof.findings:
        return f"{len(proof.findings):,} of {proof.words:,} words"
    if proof.most_suspicious:
        return (
            f"none of {proof.words:,} words passes the threshold; marked with dots: the {len(proof.most_suspicious)} "
            "most suspicious of this text"
        )
    return f"none of {proof.words:,} words"


def _mark_text(proof: Proof) -> str:
    parts, end = [], 0
    kind = "" if proof.findings else ' class="relative"'
    for finding in proof.findings or proof.most_suspicious:
        word = finding.word
        parts.append(escape(proof.text[end : word.start]))
        best = f"<small>{escape(finding.suggestions[0].text)}</small>" if finding.suggestions else ""
        parts.append(f'<mark{kind} title="suspicion {word.suspicion:.2f}">{escape(word.text)}{best}</mark>')
        end = word.end
    return "".join([*parts, escape(proof.text[end:])])


def _compose_row(finding: Finding) -> str:
    perhaps = ", ".join(escape(one.text) for one in finding.suggestions)
    cells = (f"<td>{finding.line}</td>", f"<td>{escape(finding.word.text)}</td>")
    return f'<tr>{"".join(cells)}<td class="p">{finding.word.suspicion:.2f}</td><td>{perhaps}</td></tr>'
