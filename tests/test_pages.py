"""Every way of learning that can be named has a page, and every page is found from the index."""

import re
from pathlib import Path
from typing import get_args

import pytest

from electralab.model.settings import GeneratorConfig, GeneratorKind, Sharing
from electralab.objective.corruption import SamplingConfig
from electralab.objective.losses import LossConfig
from electralab.objective.masking import APPEARANCES, MaskingConfig
from electralab.objective.settings import PUBLISHED, ObjectiveName, Procedure, ProcedureConfig, SentenceTask

PAGES = Path(__file__).parents[1] / "docs" / "objectives"
DOCUMENTS = [*PAGES.parents[1].glob("*.md"), *PAGES.parent.rglob("*.md")]
NAMES = (
    *get_args(ObjectiveName),
    *get_args(Procedure),
    *(task for task in get_args(SentenceTask) if task != "none"),
    *get_args(GeneratorKind),
    *get_args(Sharing),
    *APPEARANCES,
    *(f"generator.{name}" for name in GeneratorConfig.model_fields),
    *(f"procedure_options.{name}" for name in ProcedureConfig.model_fields),
    *(f"masking.{name}" for name in MaskingConfig.model_fields),
    *(f"sampling.{name}" for name in SamplingConfig.model_fields),
    *(f"loss.{name}" for name in LossConfig.model_fields),
    *("model.share_layers", "model.discrepancy_attention", "model.adaptive_norm"),
)


def say(name: str) -> re.Pattern[str]:
    """`name` as it is written in settings, or as a flag."""
    last = name.rpartition(".")[2]
    spellings = {name, last, name.replace("_", "-"), last.replace("_", "-")}
    return re.compile("|".join(rf"[`\s.]{re.escape(spelling)}[`\s=]" for spelling in sorted(spellings)))


@pytest.mark.parametrize("name", NAMES)
def test_a_name_has_a_page(name: str) -> None:
    pages = [path for path in PAGES.glob("*.md") if path.name != "README.md"]
    assert any(say(name).search(path.read_text(encoding="utf-8")) for path in pages), f"no page speaks of {name}"


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_model_has_a_page_of_its_own_with_its_command(name: str) -> None:
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert f"--objective {name}" in text
    assert f"--objective {PUBLISHED[name]}" in text  # what it is here


def test_the_index_names_every_page_and_no_other() -> None:
    linked = set(re.findall(r"\]\((\w[\w-]*\.md)\)", (PAGES / "README.md").read_text(encoding="utf-8")))
    assert linked == {path.name for path in PAGES.glob("*.md")} - {"README.md"}


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)\s]+)\)", path.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        page = path.parent / file if file else path
        assert page.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in map(slug, headings), target
