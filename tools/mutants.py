"""Do the tests notice when the source is wrong? Small faults are put in, one at a time: killed, or still alive.

    python tools/mutants.py src/electralab/objective --tests tests/objective
    python tools/mutants.py src/electralab/artifacts.py --tests tests/test_artifacts.py --sample 30 --tree ../older

A fault is one change of the syntax tree: a comparison, an operator, `and` for `or`, a constant, a condition without its
`not`, a value that is not returned, a statement that is left out. Annotations, decorators, messages and assertions
stay. A sample of the faults is drawn by `--seed`. Each is written into a copy of the tree, where those tests run that
come by its line, the quickest first, until one fails. A fault that no test comes by is alive.
"""

import argparse
import ast
import importlib
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

_COMPARISONS = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
_OPERATORS = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd},
}
# Types, messages and what only guards against ourselves: faults there say nothing about what is computed.
_SKIPPED_FIELDS = {"annotation", "returns", "decorator_list", "bases", "type_params"}
_SKIPPED_NODES = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
# Imported once, before the forks, where the tests need them. Not all that is needed: plug-ins pytest loads itself.
_SLOW_IMPORTS = (
    "numpy",
    "torch",
    "torch.testing",
    "scipy.stats",
    "sklearn.metrics",
    "transformers",
    "pydantic",
    "tokenizers",
)
# Other plug-ins take longer to load than most tests to run.
_PYTEST = ("-q", "-x", "-p", "_hypothesis_pytestplugin", "--hypothesis-seed=0", "--no-header")


@dataclass(frozen=True, slots=True)
class Mutant:
    path: Path
    node: int
    line: int
    what: str

    def mutate(self, text: str) -> str:
        tree = ast.parse(text)
        node = list(_walk(tree))[self.node]
        dict(_changes(node))[self.what](node)
        return ast.unparse(ast.fix_missing_locations(tree))


def list_mutants(path: Path) -> Iterator[Mutant]:
    """Every fault of a module, in the order of its nodes."""
    for index, node in enumerate(_walk(ast.parse(path.read_text()))):
        yield from (Mutant(path, index, node.lineno, what) for what, _ in _changes(node))


def _walk(node: ast.AST) -> Iterator[Any]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and name not in _SKIPPED_FIELDS and not isinstance(child, _SKIPPED_NODES):
                if hasattr(child, "lineno"):
                    yield child
                yield from _walk(child)


def _changes(node: ast.AST) -> Iterator[tuple[str, Any]]:
    """What can be made wrong at a node: in words, and the function that does it to the same node of a copy."""
    match node:
        case ast.Compare(ops=[kind, *_]) if type(kind) in _COMPARISONS:
            other = _COMPARISONS[type(kind)]
            yield f"{type(kind).__name__} -> {other.__name__}", lambda n: n.ops.__setitem__(0, other())
        case ast.BinOp(op=kind) | ast.AugAssign(op=kind) if type(kind) in _OPERATORS:
            swapped = _OPERATORS[type(kind)]
            yield f"{type(kind).__name__} -> {swapped.__name__}", lambda n: setattr(n, "op", swapped())
        case ast.BoolOp(op=kind):
            junction = ast.Or if isinstance(kind, ast.And) else ast.And
            yield f"{type(kind).__name__} -> {junction.__name__}", lambda n: setattr(n, "op", junction())
        case ast.UnaryOp(op=ast.Not() | ast.Invert() as kind):
            yield f"{type(kind).__name__} left out", lambda n: _become(n, n.operand)
        case ast.Constant(value=bool() as value):
            yield f"{value} -> {not value}", lambda n: setattr(n, "value", not value)
        case ast.Constant(value=int() | float() as number):
            yield f"{number} -> {number + 1}", lambda n: setattr(n, "value", number + 1)
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "return None", lambda n: setattr(n, "value", ast.Constant(None))
        case ast.Expr(value=ast.Call()) | ast.Delete() | ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_]):
            yield "statement left out", lambda n: _become(n, ast.Pass(lineno=n.lineno, col_offset=n.col_offset))


def _become(node: Any, other: ast.AST) -> None:
    node.__class__, node.__dict__ = other.__class__, other.__dict__


class CoverageRecorder:
    """A plug-in of pytest: which lines of the sources each test comes by, and how long it takes."""

    def __init__(self, sources: set[str]) -> None:
        self.sources, self.lines, self.seconds = sources, dict[str, set[str]](), dict[str, float]()
        self.test, self.began = "import", 0.0
        sys.settrace(self._enter)

    def _enter(self, frame: FrameType, _event: str, _argument: object) -> Any:
        return self._line if frame.f_code.co_filename in self.sources else None

    def _line(self, frame: FrameType, _event: str, _argument: object) -> Any:
        self.lines.setdefault(self.test, set()).add(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return self._line

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.test, self.began = nodeid, time.monotonic()
        sys.settrace(self._enter)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] = time.monotonic() - self.began
        self.test = "import"


def run_forked(tests: list[str], limit: float, report: Path | None = None, sources: set[str] | None = None) -> bool:
    """Whether the tests pass, in a child that has torch already; a child that takes too long has failed."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.setsid()
            sink = os.open("output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            import pytest

            recorder = CoverageRecorder(sources) if sources else None
            status = int(pytest.main([*_PYTEST, *tests], plugins=[recorder] if recorder else []))
            sys.settrace(None)
            if recorder and report:
                lines = {name: sorted(lines) for name, lines in recorder.lines.items()}
                libraries = [name for name in _SLOW_IMPORTS if name in sys.modules]
                report.write_text(json.dumps({"lines": lines, "seconds": recorder.seconds, "libraries": libraries}))
        finally:  # whatever happened: a child must not go on as its parent
            sys.stdout.flush()
            os._exit(status)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+", help="modules or packages to put faults into")
    parser.add_argument("--tests", nargs="+", required=True, help="files or folders of tests that should notice")
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="the tree that holds both")
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(flags.tree, tree, ignore=shutil.ignore_patterns(".*", "__pycache__"))
        os.chdir(tree)
        # Before the installed package, also in processes that tests start; nothing is compiled that a fault is in.
        sys.path.insert(0, str(tree / "src"))
        os.environ |= {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        sys.dont_write_bytecode = True
        paths = map(Path, flags.sources)
        files = sorted(file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py")))
        mutants = [mutant for file in files for mutant in list_mutants(file)]
        sample = random.Random(flags.seed).sample(mutants, min(flags.sample, len(mutants)))
        report = tree / "coverage.json"
        began = time.monotonic()
        if not run_forked(flags.tests, 3600, report, {str(tree / path) for path in files}):
            sys.exit(f"{Path('output.txt').read_text()[-3000:]}\nthe tests fail as they are")
        limit = 60 + 3 * (time.monotonic() - began)
        coverage = json.loads(report.read_text())
        seconds: dict[str, float] = coverage["seconds"]
        for library in coverage["libraries"]:
            importlib.import_module(library)
        by_time = sorted(seconds, key=seconds.__getitem__)
        if not run_forked(by_time[:20], limit):
            sys.exit(f"{Path('output.txt').read_text()[-3000:]}\nthe tests fail where libraries are loaded already")
        covered = {test: set(lines) for test, lines in coverage["lines"].items()}
        alive = []
        for mutant in sorted(sample, key=lambda mutant: (mutant.path, mutant.line)):
            place = f"{tree / mutant.path}:{mutant.line}"
            tests = [test for test in by_time if place in covered.get(test, ())]
            if not tests and place in covered.get(
                "import", ()
            ):  # a constant of the module: any of its functions reads it
                own = f"{tree / mutant.path}:"
                tests = [test for test in by_time if any(line.startswith(own) for line in covered.get(test, ()))]
            original = mutant.path.read_text()
            mutant.path.write_text(mutant.mutate(original))
            if not tests or run_forked(tests, limit):
                alive.append(mutant)
                print(f"alive: {mutant.path}:{mutant.line} {mutant.what} ({len(tests)} tests)", flush=True)
            mutant.path.write_text(original)
        killed = len(sample) - len(alive)
        shares = f"{killed} of {len(sample)} killed ({killed / len(sample):.0%})"
        print(f"{' '.join(flags.sources)}: {shares}, of {len(mutants)} faults, seed {flags.seed}")


if __name__ == "__main__":
    main()
