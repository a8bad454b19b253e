"""What a sentence, a row and a request walk through: the functions of electralab that each verb enters, in order.

    python tools/walks.py [FILE]      writes docs/walks.md, or FILE

Every verb runs on a tiny example in this process (pre-training of two steps on a network of one layer), with a profile
that notes each function of the package when it is entered for the first time. Functions of other libraries, generator
expressions, lambdas and what a module does when it is imported do not count.
"""

import argparse
import asyncio
import inspect
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

SOURCE = Path(__file__).resolve().parent.parent / "src" / "electralab"
NETWORK = {"num_layers": 1, "hidden_size": 16, "embedding_size": 16, "num_heads": 2, "feedforward_size": 16}
# Counted at the commit from which this tree was redrawn, on the same kind of examples.
BEFORE = {"prepare": 147, "pretrain": 506, "detect": 123, "finetune": 508, "predict": 212, "serve": 80}


class Walk:
    """Notes the functions entered while it is on, in every thread that begins after it was made."""

    def __init__(self) -> None:
        self.entered: dict[str, None] | None = None
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _argument: Any) -> None:
        code = frame.f_code
        # The body of a class or module is no function: its names are not in fast locals.
        is_function = code.co_flags & inspect.CO_OPTIMIZED and not code.co_name.startswith("<")
        if self.entered is not None and event == "call" and is_function and code.co_filename.startswith(str(SOURCE)):
            module = Path(code.co_filename).relative_to(SOURCE).with_suffix("").as_posix()
            self.entered.setdefault(f"{module}: {code.co_qualname}")

    @contextmanager
    def noted(self) -> Iterator[list[str]]:
        """The functions entered inside, each once, in order; filled in at the end."""
        functions: list[str] = []
        self.entered = {}
        yield functions
        functions.extend(self.entered)
        self.entered = None


def walk(folder: Path) -> dict[str, list[str]]:
    profile = Walk()
    import electralab
    from electralab.display import Display

    quiet = Display(quiet=True)
    text = "the cat sat on the mat and the dog saw the cat. " * 40
    (folder / "text.txt").write_text("\n\n".join([text] * 20))
    rows = [f"the {'cat' if number % 2 else 'dog'} sat,{number % 2}" for number in range(40)]
    (folder / "rows.csv").write_text("\n".join(["text,label", *rows]) + "\n")
    data, run, tuned = folder / "data", folder / "run", folder / "tuned"
    prepare = {"tokenizer": {"vocab_size": 64}, "packing": {"sequence_length": 16}}
    train: dict[str, Any] = {"model": NETWORK, "batch": {"size": 4}, "evaluation": {"rows": 4, "times": 1}}

    walks: dict[str, Callable[[], object]] = {
        "prepare": lambda: electralab.prepare([folder / "text.txt"], data, settings=prepare, display=quiet),
        "pretrain": lambda: electralab.pretrain(data, run, settings=train, steps=2, threads=1, display=quiet),
        "detect": lambda: electralab.load(run).detect("the cat sat on the mat"),
        "finetune": lambda: electralab.finetune(
            run, "classify", folder / "rows.csv", tuned, settings={"steps": 2}, threads=1, display=quiet
        ),
        "predict": lambda: electralab.load(tuned).predict(["the cat sat"]),
    }
    functions: dict[str, list[str]] = {}
    for verb, run_verb in walks.items():
        with profile.noted() as entered:
            run_verb()
        functions[verb] = entered
    functions["serve"] = asyncio.run(walk_request(profile, run))
    threading.setprofile(None)
    sys.setprofile(None)
    return functions


async def walk_request(profile: Walk, run: Path) -> list[str]:
    """One request of a server that stands ready."""
    import httpx

    import electralab
    from electralab.serving.app import build_app
    from electralab.serving.batching import BatchingConfig
    from electralab.serving.service import InferenceService, LimitsConfig

    model = electralab.load(run)
    service = InferenceService({"run": model}, LimitsConfig(), BatchingConfig(), needs_key=False)
    app = build_app(service, [], ["localhost"])
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        body = {"text": "the cat sat on the mat"}
        assert (await client.post("/v1/detect", json=body)).status_code == 200
        with profile.noted() as entered:
            assert (await client.post("/v1/detect", json=body)).status_code == 200
    return entered


def write_up(functions: dict[str, list[str]]) -> str:
    """Each walk as the modules it comes to, in order, with the functions entered there for the first time."""
    lines = [
        "# Walks",
        "",
        "What a sentence (`prepare`, `pretrain`, `detect`), a row (`finetune`, `predict`) and a request (`serve`) walk",
        "through: the functions of electralab that are entered, each where it is entered first. Written by",
        "`python tools/walks.py`, which says how it counts.",
        "",
        "| verb | functions entered before | now |",
        "|---|---:|---:|",
        *(f"| `{verb}` | {BEFORE[verb]} | {len(entered)} |" for verb, entered in functions.items()),
    ]
    for verb, entered in functions.items():
        lines += ["", f"## {verb}", ""]
        previous = ""
        for name in entered:
            module, _, function = name.partition(": ")
            if module != previous:
                lines.append(f"- `{module}`: {function}")
                previous = module
            else:
                lines[-1] += f", {function}"
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=SOURCE.parent.parent / "docs" / "walks.md")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        functions = walk(Path(folder))
    arguments.file.write_text(write_up(functions))
    for verb, entered in functions.items():
        print(f"{verb:<10}{BEFORE[verb]:>6}{len(entered):>6}")


if __name__ == "__main__":
    main()
