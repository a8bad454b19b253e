"""The texts of other domains by which M44 is judged: at most 400,000 characters of each, one file for each domain.

    python benchmarks/domain_texts.py --data DIR --out domains
    electra claims --runs studies/claims --domains "$(ls -d domains/*.txt | paste -sd,)"

DIR has corpora/, glue/ and squad/. Documents are separated by blank lines, as 'electra prepare' reads them.
The same sources give the same bytes, and `claims.json` says by their SHA-256 which texts were used.
"""

import argparse
import csv
import json
import lzma
from collections.abc import Iterator
from pathlib import Path

MOST = 400_000
CORPORA = {
    "enwiki": "corpora/enwiki/enwiki.txt.xz",
    "news": "corpora/news/reuters21578.txt.xz",
    "novels": "corpora/novels/novels.txt.xz",
    "portuguese": "corpora/pt_machado/pt_machado.txt.xz",
    "wikitext": "corpora/wikitext-2/wiki.valid.tokens",
}


def read_lines(path: Path) -> Iterator[str]:
    with lzma.open(path, "rt", encoding="utf-8") if path.suffix == ".xz" else path.open(encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def read_column(path: Path, column: int, *, has_header: bool) -> Iterator[str]:
    """Of one of GLUE's tables, which have no quoting; each row is a document of its own."""
    rows = csv.reader(read_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE)
    for number, row in enumerate(rows):
        if number or not has_header:
            yield from (row[column].strip(), "")


def read_questions(path: Path) -> Iterator[str]:
    for article in json.loads("\n".join(read_lines(path)))["data"]:
        for paragraph in article["paragraphs"]:
            yield from (question["question"].strip() for question in paragraph["qas"])
            yield ""


def list_domains(data: Path) -> Iterator[tuple[str, Iterator[str]]]:
    yield from ((name, read_lines(data / path)) for name, path in CORPORA.items())
    yield "linguists", read_column(data / "glue/CoLA/train.tsv", 3, has_header=False)
    yield "questions", read_questions(find_squad(data))
    yield "reviews", read_column(data / "glue/SST-2/train.tsv", 0, has_header=True)


def find_squad(data: Path) -> Path:
    return next(path for path in sorted((data / "squad/v1.1").glob("dev*")) if ".json" in path.name)


def cut(lines: Iterator[str]) -> str:
    """Whole lines, from the beginning."""
    kept, size = [], 0
    for line in lines:
        size += len(line) + 1
        if size > MOST:
            break
        kept.append(line)
    return "\n".join(kept).strip("\n") + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, lines in list_domains(arguments.data):
        text = cut(lines)
        (arguments.out / f"{name}.txt").write_text(text, encoding="utf-8")
        print(f"{name}: {len(text):,} characters")


if __name__ == "__main__":
    main()
