"""Counts the house: how large, how fragmented, how typed and how well named the source is.

    python tools/house.py            the counts beside those of before, as a table (make house)
    python tools/house.py --packages lines, modules and functions of each package
    python tools/house.py --json     the counts of now
    python tools/house.py --where one      lines that bind a variable of that name; also: keys, dicts, once

How it counts is said in `COUNTS`, row by row. Everything is read with `ast` and `tokenize`; nothing is imported.
"""

import argparse
import ast
import json
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
BEFORE = Path(__file__).with_name("house_before.json")
PACKAGE = "electralab"

VAGUE_NAMES = ("one", "of", "found", "said")
_GENERICS = {"list", "dict", "tuple", "set", "frozenset", "type"}
Function = ast.FunctionDef | ast.AsyncFunctionDef

# What an addition touches today, tests and docs apart. A file that is gone is said, so that the list stays true.
ADDITIONS: dict[str, tuple[str, ...]] = {
    "a measure": ("analysis/measures/gradients.py",),
    "a verb": ("shell/commands/proofread.py",),
}

# Field of `Counts`, name of the row, what is to be reached, how it is counted.
COUNTS: tuple[tuple[str, str, str, str], ...] = (
    ("lines", "source lines", "≤ 31,000", "all lines of .py files in src, blank ones included; data files apart"),
    ("modules", "modules", "≤ 200", ".py files in src, `__init__` included"),
    ("functions_per_1000", "functions per 1,000 lines", "≤ 45", "every `def`, methods and nested ones included"),
    ("import_share", "import lines, %", "≤ 6", "lines that an import statement covers, wherever it stands"),
    ("comment_share", "comment lines, %", "≥ 2.5", "lines with nothing but a comment that is not for a tool"),
    ("median_function", "median function, lines", "", "from `def` to the last line: signature and docstring included"),
    ("p95_function", "95th percentile of functions, lines", "", "as above"),
    ("longest_function", "longest function, lines", "", "as above"),
    ("string_key_reads", "reads by string key", "≤ 250", 'x["key"] that is read and x.get("key"); types are no reads'),
    ("any_dicts", "`dict[str, Any]`", "", "and `Mapping[str, Any]`, every place"),
    (
        *("any_dicts_across", "`dict[str, Any]` across modules", "0"),
        "public functions with one in their signature, public fields and aliases of that type",
    ),
    ("anys", "`Any`", "", "every use of the name, imports apart"),
    ("class_names_twice", "class names defined twice", "0", "names that two or more `class` statements define"),
    (
        "vague_variables",
        "variables `one`, `of`, `found`, `said`",
        "0",
        "every binding: assigned, looped over, parameter",
    ),
    ("called_once", "private functions called once", "", "named `_x`, the name read once in their module"),
    ("called_once_short", "… of six lines or less", "", "as above"),
    ("one_importer", "modules with one importer", "", "imported by exactly one other module, `__init__` apart"),
    ("one_importer_short", "… of 100 lines or less", "", "as above"),
    ("kind_of_task", "files that know the task `qa`", "1", 'modules in which the string "qa" stands'),
    ("examples", "docstrings with an example", "", "functions and classes whose docstring has a `>>>` line"),
    ("test_lines", "test lines", "fewer", "all lines of .py files in tests"),
)


@dataclass(frozen=True)
class Module:
    path: Path
    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, filename=str(self.path))

    @cached_property
    def nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def functions(self) -> list[Function]:
        return [node for node in self.nodes if isinstance(node, Function)]

    @property
    def num_lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def part(self) -> str:
        """The package, or the module itself where it stands in none."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else "__init__"


@dataclass(frozen=True, slots=True)
class Counts:
    lines: int
    modules: int
    functions: int
    functions_per_1000: float
    import_share: float
    comment_share: float
    median_function: float
    p95_function: int
    longest_function: int
    string_key_reads: int
    any_dicts: int
    any_dicts_across: int
    anys: int
    class_names_twice: int
    vague_variables: int
    called_once: int
    called_once_short: int
    one_importer: int
    one_importer_short: int
    kind_of_task: int
    examples: int
    test_lines: int


def read_modules(source: Path) -> list[Module]:
    modules = []
    # What exports bring along for another library is data here, written in that library's manner.
    for path in sorted(path for path in source.rglob("*.py") if path.parent.name != "hub"):
        parts = path.relative_to(source.parent).with_suffix("").parts
        modules.append(Module(path, ".".join(parts).removesuffix(".__init__"), path.read_text(encoding="utf-8")))
    return modules


def count_house(modules: list[Module], tests: Path) -> Counts:
    lines = sum(module.num_lines for module in modules)
    lengths = sorted(_num_lines(function) for module in modules for function in module.functions)
    once = [function for module in modules for function in called_once(module)]
    alone, aliases = one_importer(modules), any_aliases(modules)
    classes = Counter(name for module in modules for name in class_names(module))
    return Counts(
        lines=lines,
        modules=len(modules),
        functions=len(lengths),
        functions_per_1000=round(1000 * len(lengths) / max(lines, 1), 1),
        import_share=round(100 * sum(count_import_lines(module) for module in modules) / max(lines, 1), 1),
        comment_share=round(100 * sum(count_comment_lines(module) for module in modules) / max(lines, 1), 1),
        median_function=median(lengths or [0]),
        p95_function=lengths[int(0.95 * len(lengths))] if lengths else 0,
        longest_function=lengths[-1] if lengths else 0,
        string_key_reads=sum(1 for module in modules for _ in string_key_reads(module)),
        any_dicts=sum(is_any_dict(node) for module in modules for node in module.nodes),
        any_dicts_across=sum(1 for module in modules for _ in any_dicts_across(module, aliases)),
        anys=sum(isinstance(node, ast.Name) and node.id == "Any" for module in modules for node in module.nodes),
        class_names_twice=sum(count > 1 for count in classes.values()),
        vague_variables=sum(1 for module in modules for _ in bindings(module, VAGUE_NAMES)),
        called_once=len(once),
        called_once_short=sum(_num_lines(function) <= 6 for function in once),
        one_importer=len(alone),
        one_importer_short=sum(module.num_lines <= 100 for module in alone),
        kind_of_task=sum(_has_string(module, "qa") for module in modules),
        examples=sum(_has_example(node) for module in modules for node in module.nodes),
        test_lines=sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests.rglob("*.py")),
    )


def _num_lines(function: Function) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def count_import_lines(module: Module) -> int:
    statements = (node for node in module.nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in statements)


def count_comment_lines(module: Module) -> int:
    with module.path.open("rb") as file:
        comments = [token for token in tokenize.tokenize(file.readline) if token.type == tokenize.COMMENT]
    for_tools = ("# noqa", "# type:", "# ruff:", "# fmt:", "# mypy:", "#!")
    return sum(
        not token.line[: token.start[1]].strip() and not token.string.startswith(for_tools) for token in comments
    )


def string_key_reads(module: Module) -> Iterator[ast.AST]:
    # @app.get("/v1/models") names a route.
    decorators = {id(mark) for node in module.nodes if isinstance(node, Function) for mark in node.decorator_list}
    for node in module.nodes:
        match node:
            case ast.Call() if id(node) in decorators:
                continue
            case ast.Subscript(value=value, slice=ast.Constant(value=str()), ctx=ast.Load()) if not _is_type(value):
                yield node
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=str()), *_]):
                yield node


def _is_type(node: ast.expr) -> bool:
    """Literal["a"], list["Later"], Iterator["Later"]: a CamelCase name or a built-in generic, not a TABLE."""
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in _GENERICS or (name[:1].isupper() and not name.isupper())


def is_any_dict(node: ast.AST) -> bool:
    if (
        not isinstance(node, ast.Subscript)
        or not isinstance(node.value, ast.Name)
        or not isinstance(node.slice, ast.Tuple)
    ):
        return False
    keys = [item.id for item in node.slice.elts if isinstance(item, ast.Name)]
    return node.value.id in {"dict", "Mapping", "MutableMapping"} and keys == ["str", "Any"]


def any_aliases(modules: list[Module]) -> set[str]:
    """Dotted names of types that are only another word for a dictionary of anything."""
    return {
        f"{module.name}.{target.id}"
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.Assign) and is_any_dict(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def any_dicts_across(module: Module, all_aliases: set[str]) -> Iterator[ast.AST]:
    seen = {name for name in all_aliases if name.rpartition(".")[0] == module.name} | (
        all_aliases & {*imported(module)}
    )
    aliases = {name.rpartition(".")[2] for name in seen}

    def has_any_dict(annotation: ast.expr | None) -> bool:
        nodes = ast.walk(annotation) if annotation is not None else ()
        return any(is_any_dict(node) or (isinstance(node, ast.Name) and node.id in aliases) for node in nodes)

    def look(body: list[ast.stmt]) -> Iterator[ast.AST]:
        for node in body:
            name = getattr(node, "name", "")
            if name.startswith("_") and not name.startswith("__"):
                continue
            if isinstance(node, ast.ClassDef):
                yield from look(node.body)
            elif isinstance(node, Function):
                arguments = node.args
                given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
                given += [extra for extra in (arguments.vararg, arguments.kwarg) if extra]
                if has_any_dict(node.returns) or any(has_any_dict(argument.annotation) for argument in given):
                    yield node
            elif isinstance(node, ast.AnnAssign):
                if has_any_dict(node.annotation) and not ast.unparse(node.target).startswith("_"):
                    yield node
            elif isinstance(node, ast.Assign) and is_any_dict(node.value):
                yield node

    yield from look(module.tree.body)


def class_names(module: Module) -> list[str]:
    return [node.name for node in module.nodes if isinstance(node, ast.ClassDef)]


def bindings(module: Module, names: tuple[str, ...]) -> Iterator[tuple[str, int]]:
    """(name, line) wherever one of the names is given a value."""
    for node in module.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in names:
            yield node.id, node.lineno
        elif isinstance(node, ast.arg) and node.arg in names:
            yield node.arg, node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name in names:
            assert node.name is not None
            yield node.name, node.lineno


def called_once(module: Module) -> list[Function]:
    private = [node for node in module.functions if node.name.startswith("_") and not node.name.startswith("__")]
    read = Counter(node.id for node in module.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    read += Counter(node.attr for node in module.nodes if isinstance(node, ast.Attribute))
    return [function for function in private if read[function.name] == 1]


def one_importer(modules: list[Module]) -> list[Module]:
    known = {module.name: module for module in modules}
    importers: dict[str, set[str]] = {name: set() for name in known}
    for module in modules:
        for name in imported(module):
            # `from electralab.a import b` names a module b, or a thing of the module a.
            owner = name if name in known else name.rpartition(".")[0]
            if owner in known and owner != module.name:
                importers[owner].add(module.name)
    return [
        known[name] for name, users in importers.items() if len(users) == 1 and known[name].path.name != "__init__.py"
    ]


def imported(module: Module) -> Iterator[str]:
    """Dotted names of all a module imports, relative ones made absolute."""
    package = module.name.split(".") if module.path.name == "__init__.py" else module.name.split(".")[:-1]
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _has_string(module: Module, text: str) -> bool:
    return any(isinstance(node, ast.Constant) and node.value == text for node in module.nodes)


def _has_example(node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef | Function) and ">>> " in (ast.get_docstring(node) or "")


def print_table(counts: Counts, before: Counts, additions: dict[str, int], subject: str) -> None:
    print("| count | before | now | to reach | how it is counted |\n|---|---|---|---|---|")
    for field, name, target, how in COUNTS:
        print(f"| {name} | {_figure(getattr(before, field))} | {_figure(getattr(counts, field))} | {target} | {how} |")
    how = "the list `ADDITIONS`, tests and docs apart"
    for addition, files in ADDITIONS.items():
        print(f"| files to touch for {addition} | {additions[addition]} | {len(files)} | 1 | {how} |")
    print(f"\nBefore: {subject}.")


def _figure(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


def print_packages(modules: list[Module]) -> None:
    print(f"{'':16}{'lines':>8}{'modules':>8}{'functions':>10}{'/1000':>6}{'imports%':>9}{'comments%':>10}", end="")
    print(f"{'keys':>6}{'Any':>5}{'vague':>6}{'once':>6}{'1 imp.':>7}")
    alone = one_importer(modules)
    for part in sorted({module.part for module in modules}):
        inside = [module for module in modules if module.part == part]
        lines, functions = sum(module.num_lines for module in inside), sum(len(module.functions) for module in inside)
        imports, comments = (
            100 * sum(count(module) for module in inside) / max(lines, 1)
            for count in (count_import_lines, count_comment_lines)
        )
        keys = sum(1 for module in inside for _ in string_key_reads(module))
        anys = sum(isinstance(node, ast.Name) and node.id == "Any" for module in inside for node in module.nodes)
        vague = sum(1 for module in inside for _ in bindings(module, VAGUE_NAMES))
        once = sum(len(called_once(module)) for module in inside)
        print(f"{part:16}{lines:8,}{len(inside):8}{functions:10}{1000 * functions / max(lines, 1):6.0f}", end="")
        print(f"{imports:9.1f}{comments:10.1f}{keys:6}{anys:5}{vague:6}{once:6}", end="")
        print(f"{sum(module.part == part for module in alone):7}")


def print_where(modules: list[Module], what: str) -> None:
    aliases = any_aliases(modules)
    for module in modules:
        nodes: list[ast.AST] = []
        match what:
            case "keys":
                nodes = list(string_key_reads(module))
            case "dicts":
                nodes = list(any_dicts_across(module, aliases))
            case "once":
                nodes = list(called_once(module))
            case _:
                for name, line in bindings(module, (what,)):
                    print(f"{module.path}:{line}: {name}")
        for node in nodes:
            print(f"{module.path}:{getattr(node, 'lineno', 0)}: {ast.unparse(node).splitlines()[0]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="another checkout to count")
    parser.add_argument("--json", action="store_true", help="the counts of now as JSON")
    parser.add_argument("--packages", action="store_true", help="package by package")
    parser.add_argument("--where", metavar="WHAT", help="lines of: keys, dicts, once, or a variable's name")
    parser.add_argument("--record", action="store_true", help=f"write {BEFORE.name} from the checkout given")
    arguments = parser.parse_args()
    source = arguments.root / "src" / PACKAGE
    if not source.is_dir():
        sys.exit(f"{source}: no such folder; give the root of a checkout")
    modules = read_modules(source)
    if arguments.packages:
        return print_packages(modules)
    if arguments.where:
        return print_where(modules, arguments.where)
    counts = count_house(modules, arguments.root / "tests")
    content = asdict(counts)
    if arguments.record:
        command = ["git", "-C", str(arguments.root), "log", "-1", "--format=%h, %s"]
        subject = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        content |= {"commit": subject, "additions": {addition: len(files) for addition, files in ADDITIONS.items()}}
        BEFORE.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    elif arguments.json:
        print(json.dumps(content, indent=2))
    else:
        before = json.loads(BEFORE.read_text(encoding="utf-8"))
        subject, additions = before.pop("commit"), before.pop("additions")
        print_table(counts, Counts(**before), additions, subject)
        for file in (file for files in ADDITIONS.values() for file in files):
            if not (source / file).exists():
                print(f"{file}: is gone; bring the list ADDITIONS up to date", file=sys.stderr)
    return None


if __name__ == "__main__":
    main()
