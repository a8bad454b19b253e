"""Who may import whom, and what no module may do: the rules that keep the flow one-way and the start fast."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import electralab

SOURCE = Path(__file__).parents[1] / "src" / "electralab"
TESTS = Path(__file__).parent

FOUNDATION = {
    *("errors", "config", "artifacts", "randomness", "stopping", "runtime", "terminal"),
    *("events", "records", "statistics", "processes", "locations"),
}
ANALYSED = {
    *("corpus", "tokens", "model", "objective", "training"),
    *("pretraining", "tasks", "finetuning", "evaluation", "experiments"),
}
_USED = {"detection", "analysis", "fitting", "exporting", "compression", "serving", "measuring", "reporting"}
OFFERED = ANALYSED | _USED

# A part sees only parts above it. A part that is not written yet may have its row already.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "config": {"errors"},
    "artifacts": {"errors"},
    "randomness": set(),
    "stopping": {"errors"},
    "terminal": set(),
    "events": set(),
    "records": {"errors", "config", "artifacts"},
    # Draws by counter are those of randomness.
    "statistics": {"randomness"},
    "runtime": {"errors", "config", "records"},
    "processes": {"errors", "stopping", "runtime"},
    "locations": {"errors", "artifacts", "runtime"},
    "corpus": FOUNDATION,
    "tokens": FOUNDATION | {"corpus"},
    "model": FOUNDATION,
    "objective": FOUNDATION | {"tokens", "model"},
    "detection": FOUNDATION | {"corpus", "tokens", "model", "objective"},
    "training": FOUNDATION | {"model"},
    "pretraining": FOUNDATION | {"reporting", "tokens", "model", "objective", "training"},
    "tasks": FOUNDATION | {"corpus", "tokens", "model"},
    "finetuning": FOUNDATION | {"tokens", "model", "tasks", "training"},
    "fitting": FOUNDATION | {"tokens", "model", "tasks", "training", "finetuning"},
    "evaluation": FOUNDATION | {"corpus", "tokens", "model", "objective", "tasks"},
    "experiments": FOUNDATION | {"model", "pretraining", "tasks", "finetuning", "evaluation"},
    "analysis": FOUNDATION | ANALYSED | {"reporting"},
    "exporting": FOUNDATION | {"corpus", "tokens", "model", "finetuning", "evaluation"},
    "compression": FOUNDATION
    | {"corpus", "tokens", "model", "objective", "training", "tasks", "finetuning", "evaluation", "exporting"},
    "serving": FOUNDATION
    | {"corpus", "tokens", "model", "objective", "detection", "tasks", "finetuning", "fitting", "exporting"},
    "measuring": FOUNDATION | {"corpus", "detection", "tasks", "serving"},
    "reporting": FOUNDATION,
    # What a person sees of the parts above: progress as it comes, and artifacts in human form.
    "display": FOUNDATION,
    "inspection": FOUNDATION | OFFERED,
    "shell": FOUNDATION | OFFERED | {"display", "inspection"},
    "__main__": {"shell"},
    # The package offers the verbs as functions, imported when first asked for.
    "__init__": {"shell", "serving"},
}

# Every stage writes its own card and page.
_STAGES = ("pretraining", "finetuning", "fitting", "evaluation", "experiments", "analysis", "exporting", "compression")
for _stage in _STAGES:
    MAY_IMPORT[_stage] = MAY_IMPORT[_stage] | {"reporting"}

# What exports bring along for transformers is written for there, and never imported here.
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent.name != "hub")
# Loads torch, as training does; needs datatrove, which is an extra.
NEEDS_MORE = {"tokens/batches", "tokens/cluster"}
NAMES_THAT_OWN_NOTHING = {"utils", "util", "helpers", "common", "misc", "core", "base", "manager"}
VAGUE_NAMES = {"one", "of", "found", "said"}
# Offenders that are still there. Both may only shrink, the second after new names have taken the place of old ones.
VAGUE_NAMES_LEFT: dict[str, int] = {}
CLASS_NAMES_TWICE = 0


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").as_posix()


each_module = pytest.mark.parametrize("path", MODULES, ids=name_of)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports_in(path: Path, tree: ast.Module) -> Iterator[str]:
    """Dotted names of all a module imports, wherever in it, relative ones made absolute."""
    package = ["electralab", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def parts_imported(path: Path, tree: ast.Module) -> set[str]:
    dotted = (name.split(".") for name in imports_in(path, tree))
    return {name[1] for name in dotted if name[0] == "electralab" and len(name) > 1 and name[1] != "__version__"}


def uses_of(tree: ast.Module, owner: str, names: set[str]) -> list[int]:
    """Lines that reach for owner.name or import it from its owner."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if (
            isinstance(node, ast.Attribute)
            and node.attr in names
            and isinstance(node.value, ast.Name)
            and node.value.id == owner
        )
        or (isinstance(node, ast.ImportFrom) and node.module == owner and {a.name for a in node.names} & names)
    ]


def run_python(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_imports_are_found_in_every_form_they_take() -> None:
    text = """
import torch
import electralab.model.encoder
from electralab import artifacts
from . import sibling
from ..tokens.batches import Batch
def later():
    from electralab.shell.cli import main
"""
    assert list(imports_in(SOURCE / "objective" / "masking.py", ast.parse(text))) == [
        "torch",
        "electralab.model.encoder",
        "electralab.artifacts",
        "electralab.objective.sibling",
        "electralab.tokens.batches.Batch",
        "electralab.shell.cli.main",
    ]


def test_import_table_has_no_circle() -> None:
    above: set[str] = set()
    rows = dict(MAY_IMPORT)
    while rows:
        ready = {part for part, allowed in rows.items() if allowed <= above}
        assert ready, f"these parts import each other in a circle: {', '.join(sorted(rows))}"
        above |= ready
        rows = {part: allowed for part, allowed in rows.items() if part not in ready}


@each_module
def test_part_imports_only_parts_above_it(path: Path) -> None:
    part, imported = part_of(path), parts_imported(path, tree_of(path))
    assert part in MAY_IMPORT, f"{part}: a new part needs a row in the import table"
    forbidden = imported - MAY_IMPORT[part] - {part}
    assert not forbidden, f"{name_of(path)} imports {', '.join(sorted(forbidden))}, which {part} may not see"


@pytest.mark.parametrize("folder", [SOURCE, TESTS], ids=["src", "tests"])
def test_files_are_named_for_what_they_own(folder: Path) -> None:
    modules = [path for path in folder.rglob("*") if path.is_dir() or path.suffix == ".py"]
    assert [path for path in modules if path.stem in NAMES_THAT_OWN_NOTHING] == []


@each_module
def test_transformers_is_a_peer_and_not_a_dependency(path: Path) -> None:
    assert [name for name in imports_in(path, tree_of(path)) if name.split(".")[0] == "transformers"] == []


@each_module
def test_nothing_is_unpickled_but_by_the_legacy_importer(path: Path) -> None:
    tree = tree_of(path) if name_of(path) != "model/folders/legacy" else ast.Module([], [])
    roots = {name.split(".")[0] for name in imports_in(path, tree)}
    assert not roots & {"pickle", "dill", "shelve", "joblib", "marshal"}
    assert uses_of(tree, "torch", {"load", "save"}) == []
    permissions = [node for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "allow_pickle"]
    assert [ast.unparse(node) for node in permissions if ast.unparse(node) != "allow_pickle=False"] == []


@each_module
def test_only_runtime_reads_the_environment(path: Path) -> None:
    lines = uses_of(tree_of(path), "os", {"environ", "environb", "getenv", "putenv"})
    assert part_of(path) == "runtime" or lines == []


def test_preparing_text_does_not_load_torch() -> None:
    preparing = [
        "electralab." + name_of(path).replace("/", ".").removesuffix(".__init__")
        for path in MODULES
        if part_of(path) in {"corpus", "tokens"} and name_of(path) not in NEEDS_MORE
    ]
    if not preparing:
        pytest.skip("neither corpus nor tokens is written yet")
    program = f"""
import importlib, sys
for name in {preparing!r}:
    importlib.import_module(name)
    if "torch" in sys.modules:
        print(name)
        break
"""
    assert run_python(program) == "", "this module loads torch, which every worker would pay for"


@pytest.mark.parametrize("module", ["electralab", *(f"electralab.{part}" for part in sorted(FOUNDATION))])
def test_foundation_does_not_load_torch(module: str) -> None:
    assert run_python(f"import sys, {module}; print('torch' in sys.modules)") == "False\n"


def test_no_part_takes_the_name_of_a_verb() -> None:
    """Importing `electralab.x` binds the name x in the package, over the verb that users call there."""
    package = Path(electralab.__file__).parent
    # A folder that an older version left behind, with nothing but compiled files, is no part.
    parts = {path.stem for path in package.iterdir() if path.suffix == ".py" or any(path.glob("*.py"))}
    assert parts & set(electralab.__all__) == set()


def vague_names_in(part: str) -> list[str]:
    """Where a variable, a loop variable or a parameter is called by a word that says nothing of what it is."""
    return [
        f"{name_of(path)}:{getattr(node, 'lineno', 0)}"
        for path in MODULES
        if part_of(path) == part
        for node in ast.walk(tree_of(path))
        if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE_NAMES)
        or (isinstance(node, ast.arg) and node.arg in VAGUE_NAMES)
    ]


@pytest.mark.parametrize("part", sorted({part_of(path) for path in MODULES}))
def test_variables_are_nouns(part: str) -> None:
    offenders = vague_names_in(part)
    assert len(offenders) <= VAGUE_NAMES_LEFT.get(part, 0), f"name these for what they are: {', '.join(offenders)}"


def test_a_class_name_exists_once() -> None:
    classes = [node.name for path in MODULES for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    twice = sorted(name for name, count in Counter(classes).items() if count > 1)
    assert len(twice) <= CLASS_NAMES_TWICE, f"defined more than once: {', '.join(twice)}"


QUOTATIONS = re.findall(
    r"```python\n# (\S+)\n(.*?)```", (TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL
)


@pytest.mark.parametrize(("path", "quoted"), QUOTATIONS, ids=range(1, len(QUOTATIONS) + 1))
def test_what_contributing_quotes_stands_in_the_tree(path: str, quoted: str) -> None:
    """Line by line, however deep it is indented there."""
    lines = [line.strip() for line in (TESTS.parent / path).read_text(encoding="utf-8").splitlines()]
    wanted = [line.strip() for line in quoted.splitlines()]
    assert any(lines[start : start + len(wanted)] == wanted for start in range(len(lines))), f"{path} says otherwise"


def test_there_are_ten_rules_and_each_has_an_example() -> None:
    assert len(QUOTATIONS) == 10
