"""Every task that can be trained or predicted, by name: the official ones from catalog.toml, and those for own files.

name -> Task
"""

import re
import tomllib
from importlib.resources import files
from typing import Any

from electralab.errors import UsageError, suggest
from electralab.tasks.kind import Task
from electralab.tasks.kinds import KINDS

GLUE: tuple[str, ...] = ("cola", "sst2", "mrpc", "stsb", "qqp", "mnli", "qnli", "rte", "wnli")


def _official_tasks() -> list[Task]:
    def freeze(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: freeze(part) for name, part in value.items()}
        return tuple(value) if isinstance(value, list) else value

    catalog = tomllib.loads(files("electralab.tasks").joinpath("catalog.toml").read_text("utf-8"))
    tasks = []
    for name, own in catalog["tasks"].items():
        suite = own.pop("suite")
        fields = catalog["suites"][suite] | own
        if suite == "glue":
            display = fields["display"]
            fields = {"folder": [display], "submissions": {"test": f"{display}.tsv"}} | fields
        tasks.append(Task(name, kind=KINDS[fields.pop("kind")], **freeze(fields)))
    return tasks


# The tasks that a kind brings along read people's own files, and come last.
TASKS: dict[str, Task] = {
    task.name: task for task in (*_official_tasks(), *(task for kind in KINDS.values() for task in kind.own_tasks()))
}


def find_task(name: str) -> Task:
    """Whatever its case and punctuation.

    >>> find_task("SST-2").name, find_task("squad-2.0").name
    ('sst2', 'squad2')
    """
    wanted = plain_name(name)
    known = {alias: task for task in TASKS.values() for alias in (*task.aliases, task.name)}
    if wanted in known:
        return known[wanted]
    hint = suggest(wanted, known, f"known are {', '.join(TASKS)}")
    raise UsageError(f"--task: no task named {name!r}; {hint}")


def plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
