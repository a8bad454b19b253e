"""The description of the API as one page that needs nothing from elsewhere: every path with an example and an answer.

OpenAPI -> HTML
"""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem; }
pre { padding: 0.7rem; overflow-x: auto; border: 1px solid #8886; border-radius: 6px; }
h2 { margin-top: 2.5rem; }
td, th { text-align: left; vertical-align: top; padding: 0.2rem 1rem 0.2rem 0; }
"""

Tree = dict[str, Any]


def render_docs(schema: Tree, address: str, seen: Mapping[str, Tree]) -> str:
    """`address` is where the reader has found the server; `seen` has answers that it gives now, by their paths."""
    return "".join(_parts(schema, address, seen))


def _parts(schema: Tree, address: str, seen: Mapping[str, Tree]) -> Iterator[str]:
    title = escape(schema["info"]["title"])
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}: API</title>'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<link rel="icon" href="data:,"><style>{_STYLE}</style></head><body>'
    yield '<p><a href="/">Back to the page</a></p>'
    yield f"<h1>{title} {escape(schema['info']['version'])}</h1><p>{escape(schema['info']['description'])}</p>"
    yield '<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>'
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield from _operation(schema, path, method.upper(), operation, address)
            yield from _answer(operation, seen.get(path))
            yield from _statuses(operation)
    yield "</body></html>\n"


def _operation(schema: Tree, path: str, method: str, operation: Tree, address: str) -> Iterator[str]:
    where = f"{escape(address)}{escape(path)}"
    yield f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
    key = " -H 'Authorization: Bearer KEY'" if "security" in operation else ""
    body = operation.get("requestBody")
    if body is None:
        yield f"<pre>curl{key} {where}</pre>"
    else:
        kind = _find(schema, body["content"]["application/json"]["schema"])
        for example in kind["examples"]:
            data = escape(json.dumps(example, ensure_ascii=False))
            yield f"<pre>curl{key} {where} \\\n"
            yield f"  -H 'Content-Type: application/json' -d '{data}'</pre>"
        yield "<table><tr><th>field</th><th>meaning</th></tr>"
        for name, field in kind["properties"].items():
            says = field.get("description", "") + (f" Default {field['default']}." if field.get("default") else "")
            yield f"<tr><td><code>{escape(name)}</code></td><td>{escape(says)}</td></tr>"
        yield "</table>"


def _answer(operation: Tree, seen: Tree | None) -> Iterator[str]:
    described = operation["responses"]["200"].get("content", {}).get("application/json", {})
    example = seen if seen is not None else described.get("example")
    if example is not None:
        says = "answers now" if seen is not None else "answers, for example"
        yield f"<p>It {says}</p><pre>{escape(json.dumps(example, ensure_ascii=False, indent=1))}</pre>"


def _statuses(operation: Tree) -> Iterator[str]:
    yield "<table><tr><th>status</th><th>meaning</th></tr>"
    for status, answer in sorted(operation["responses"].items()):
        yield f"<tr><td>{escape(status)}</td><td>{escape(answer['description'])}</td></tr>"
    yield "</table>"


def _find(schema: Tree, reference: Tree) -> Tree:
    name = reference["$ref"].rsplit("/", 1)[-1]
    found: Tree = schema["components"]["schemas"][name]
    return found
