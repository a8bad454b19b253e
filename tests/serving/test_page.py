"""The page is one file that needs nothing from elsewhere and runs under a policy that allows it nothing else."""

import re
from importlib import resources

PAGE = (resources.files("electralab") / "serving" / "page" / "index.html").read_text(encoding="utf-8")


def test_the_page_brings_everything_along() -> None:
    assert set(re.findall(r"\w+://[^\s'\"]+", PAGE)) == {"http://www.w3.org/2000/svg"}
    assert [len(re.findall(rf"<{tag}\b", PAGE)) for tag in ("script", "style", "link", "img")] == [1, 1, 1, 0]


def test_the_policy_finds_no_inline_style_or_handler() -> None:
    markup = re.sub(r"<(script|style)>.*?</\1>", "", PAGE, flags=re.DOTALL)
    assert re.findall(r"\s(?:style|on\w+)=", markup) == []
    assert not re.search(r"\beval\(|innerHTML|insertAdjacentHTML|document\.write", PAGE)


def test_every_word_of_the_markup_is_in_the_dictionary() -> None:
    said = set(re.findall(r'data-say(?:-\w+)?="(\w+)"', PAGE))
    dictionary = PAGE.split("const STRINGS", 1)[1].split("\n};", 1)[0]
    assert said <= set(re.findall(r"\b(\w+):", dictionary))
    markup = re.sub(r"<(script|style|title|noscript)>.*?</\1>|<!--.*?-->", "", PAGE, flags=re.DOTALL)
    assert set(re.findall(r">\s*([A-Za-z][^<]*?)\s*<", markup)) == {"ELECTRA"}
