"""The pages: that of the server, the description of its API, and proofs as a file. None needs anything from elsewhere.

OpenAPI schema, Proof... -> HTML
"""

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader

from electralab.records.answers import Proof

_ADDRESS = re.compile(r"[A-Za-z0-9.-]{1,253}(:\d{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:\d{1,5})?")


@cache
def _templates() -> Environment:
    # With autoescape, because every text on these pages is somebody else's.
    loader = PackageLoader("electralab", "serving/page")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)


def read_page() -> str | None:
    """The page of the server, where it comes with the package."""
    page = resources.files("electralab") / "serving" / "page" / "index.html"
    return page.read_text(encoding="utf-8") if page.is_file() else None


def render_docs(schema: Mapping[str, Any], address: str, current: Mapping[str, Any]) -> str:
    """Every path of the API with an example and an answer.

    `address` is where the reader has reached the server; `current` has answers that it gives now, by their paths.
    """

    def to_json(value: Any, indent: int | None = None) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    def body_schema(operation: Mapping[str, Any]) -> Any:
        reference = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"]
        return schema["components"]["schemas"][reference.rsplit("/", 1)[-1]]

    return (
        _templates()
        .get_template("docs.html")
        .render(schema=schema, address=address, current=current, to_json=to_json, body_schema=body_schema)
    )


def find_address(host: str) -> str:
    """By which whoever reads the page has reached the server; another where the header is no address."""
    return f"http://{host}" if _ADDRESS.fullmatch(host) else "http://127.0.0.1:8000"


def render_proofs(proofs: Sequence[Proof], warning: str | None = None) -> str:
    """The texts with their suspicious words marked, and what may have been meant.

    `warning` is what the model's held-out scores say against its findings.
    """
    return _templates().get_template("proofs.html").render(proofs=proofs, warning=warning)


def write_policy(page: str) -> str:
    """A page may run and wear what it brings along, as it stands, and talk to its own server; nothing else."""
    hashes = {
        tag: " ".join(
            f"'sha256-{base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()}'"
            for inside in re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", page, re.DOTALL)
        )
        for tag in ("script", "style")
    }
    # Hashes instead of 'unsafe-inline': a script that somebody's text smuggled into the page would not run.
    sources = {
        "default-src": "'none'",
        "script-src": hashes["script"] or "'none'",
        "style-src": hashes["style"] or "'none'",
        "img-src": "'self' data:",
        "connect-src": "'self'",
        **dict.fromkeys(("base-uri", "form-action", "frame-ancestors"), "'none'"),
    }
    return "; ".join(f"{name} {allowed}" for name, allowed in sources.items())
