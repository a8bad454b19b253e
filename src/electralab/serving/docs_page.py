"""The description of the API as one page that needs nothing from elsewhere: every path with an example to paste.

OpenAPI -> HTML
"""

import json
from collections.abc import Iterator
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


def render_docs(schema: Tree) -> str:
    return "".join(_parts(schema))


def _parts(schema: Tree) -> Iterator[str]:
    title = escape(schema["info"]["title"])
    yield f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}: API</title>'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
    yield f"<h1>{title} {escape(schema['info']['version'])}</h1><p>{escape(schema['info']['description'])}</p>"
    yield '<p>For programs: <a href="/openapi.json">/openapi.json</a>.</p>'
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            yield from _operation(schema, path, method.upper(), operation)
    yield "</body></html>\n"


def _operation(schema: Tree, path: str, method: str, operation: Tree) -> Iterator[str]:
    yield f"<h2><code>{method} {escape(path)}</code></h2><p>{escape(operation.get('description', ''))}</p>"
    key = " -H 'Authorization: Bearer KEY'" if "security" in operation else ""
    body = operation.get("requestBody")
    if body is None:
        yield f"<pre>curl{key} http://127.0.0.1:8000{escape(path)}</pre>"
    else:
        kind = _find(schema, body["content"]["application/json"]["schema"])
        for example in kind["examples"]:
            data = escape(json.dumps(example, ensure_ascii=False))
            yield f"<pre>curl{key} http://127.0.0.1:8000{escape(path)} \\\n"
            yield f"  -H 'Content-Type: application/json' -d '{data}'</pre>"
        yield "<table><tr><th>field</th><th>meaning</th></tr>"
        for name, field in kind["properties"].items():
            says = field.get("description", "") + (f" Default {field['default']}." if field.get("default") else "")
            yield f"<tr><td><code>{escape(name)}</code></td><td>{escape(says)}</td></tr>"
        yield "</table>"
    yield "<table><tr><th>status</th><th>meaning</th></tr>"
    for status, answer in sorted(operation["responses"].items()):
        yield f"<tr><td>{escape(status)}</td><td>{escape(answer['description'])}</td></tr>"
    yield "</table>"


def _find(schema: Tree, reference: Tree) -> Tree:
    name = reference["$ref"].rsplit("/", 1)[-1]
    found: Tree = schema["components"]["schemas"][name]
    return found
