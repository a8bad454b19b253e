"""Makes a model that comes with the package: text -> prepared data -> run -> weights in 16 bits, calibration, card.

    python tools/box_model.py --data $DATA --out runs/hour-en
    python tools/box_model.py --out runs/hour-en --run runs/trained/run

The same command resumes. With --run a finished run is taken, beside which its `data`, `text` and held-out novels lie;
it is only read.
"""

import argparse
import lzma
import math
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Template

import electralab
from electralab.artifacts import (
    MANIFEST,
    describe_files,
    new_folder,
    read_json,
    sha256_file,
    sha256_json,
    write_file,
)
from electralab.errors import InputError
from electralab.exporting.export import LICENSE, read_license
from electralab.model.folders.folder import (
    Storage,
    has_untrained_segments,
    load_network,
    read_objective,
    save_network,
)
from electralab.records.calibration import Calibration
from electralab.records.evaluation import EvaluationResult, Suite
from electralab.records.kinds import MODELS
from electralab.records.prepared import PreparedReport
from electralab.records.run import METRICS, PretrainResults, RunExamples, RunFingerprint
from electralab.reporting.cards import describe_scores
from electralab.runtime import use_threads
from electralab.tokens.tokenizer import Tokenizer

WIKIS = {"enwiki": "English Wikipedia of about 2015, long articles; CC BY-SA"}
WIKIS |= {"simplewiki": "Simple English Wikipedia of about 2016; CC BY-SA"}
NOVELS = "novels by their chapters; public domain"
HELD_OUT_BOOKS = 20
ROLES = ("discriminator", "generator")
VOCAB_SIZE = 8192
STEPS = 13_000
# The hour's preset; products in 16 bits where the processor is faster at them.
SETTINGS = {"runtime": {"precision": "auto"}}
TERMS = "cc-by-sa-4.0"
MOST_BYTES = 16_000_000
RUN_FILES = ("config.toml", METRICS, RunFingerprint.FILE, PretrainResults.FILE, RunExamples.FILE)
CARD = Path(__file__).parent / "box_card.md"


@dataclass(frozen=True, slots=True)
class Scored:
    """One way to store the weights, on held-out rows."""

    storage: Storage
    folder: Path
    """A run's folder as far as `export` goes."""
    rtd: EvaluationResult
    mlm: EvaluationResult

    def loss(self, suite: Suite) -> float:
        return score(self.rtd if suite == "rtd" else self.mlm, "loss")

    def lost_to(self, other: "Scored") -> float:
        """How far both losses are from the other's, in shares of them."""
        return sum(abs(self.loss(suite) / other.loss(suite) - 1) for suite in ("rtd", "mlm"))


def score(result: EvaluationResult, name: str) -> float:
    value = result.score(name)
    return math.nan if value is None else value


def ask(model: Path, suite: Suite, data: Path, generator: Path | None = None) -> EvaluationResult:
    result = electralab.evaluate(model, suite, data, generator=generator, settings={"heldout": {"bootstrap": 0}})
    assert isinstance(result, EvaluationResult)
    return result


def split_novels(documents: list[str], books: Path) -> tuple[list[str], list[str]]:
    """Chapters stand in the order of the list of books, which says how many each has: those to read, those held out."""
    header, *rows = [line.split("\t") for line in books.read_text(encoding="utf-8").splitlines() if line]
    chapters = [int(row[header.index("chapters")]) for row in rows]
    if sum(chapters) != len(documents):
        raise InputError(f"{books}: counts {sum(chapters):,} chapters, the novels have {len(documents):,}; restore it")
    kept = sum(chapters[:-HELD_OUT_BOOKS])
    return documents[:kept], documents[kept:]


def write_text(corpora: Path, out: Path) -> None:
    """The text folder, and beside it the novels that are not read."""
    novels = lzma.decompress((corpora / "novels/novels.txt.xz").read_bytes()).decode()
    documents = [document for document in novels.strip("\n").split("\n\n") if document]
    read, held_out = split_novels(documents, corpora / "novels/BOOKS.tsv")
    for path, chosen in ((out / "text/novels.txt", read), (out / "novels-held-out.txt", held_out)):
        text = "\n\n".join(chosen) + "\n"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            write_file(path, text)
    for name in WIKIS:
        source, target = corpora / name / f"{name}.txt.xz", out / "text" / f"{name}.txt.xz"
        if not target.is_file() or sha256_file(target) != sha256_file(source):
            write_file(target, source.read_bytes())


def store(run: Path, out: Path, storage: Storage) -> Path:
    """Both networks with their tokenizer, in a folder that is named by what they come from."""
    networks = {role: run / "export" / role for role in ROLES}
    origin = sha256_json([describe_files(folder) for folder in networks.values()])
    folder = out / f"{storage}-{origin[:8]}"
    for role, source in networks.items():
        if (folder / "export" / role / MANIFEST).is_file():
            continue
        network, tokenizer = load_network(source), Tokenizer.load(source)
        special, encoder = tokenizer.special, network.config
        with new_folder(folder / "export" / role, kind="model") as target:
            save_network(
                target,
                network,
                pad_id=special.pad,
                cls_id=special.cls,
                sep_id=special.sep,
                objective=read_objective(source),
                has_untrained_segments=has_untrained_segments(source),
                storage=storage,
            )
            tokenizer.save(target, max_length=encoder.sequence_length, has_segments=encoder.backbone == "electra")
            write_file(target / LICENSE, read_license(TERMS).text)
    return folder


def score_storage(run: Path, data: Path, out: Path, storage: Storage) -> Scored:
    """Asked what the run in 32 bits is asked: the same rows, masks and replaced tokens."""
    folder = store(run, out, storage)
    rtd, mlm = ask(folder, "rtd", data, generator=run), ask(folder, "mlm", data)
    scored = Scored(storage, folder, rtd, mlm)
    print(
        f"{storage}: discriminator loss {scored.loss('rtd'):.5f}, AUC {score(rtd, 'auc'):.4f}, "
        f"generator loss {scored.loss('mlm'):.5f}, accuracy {score(mlm, 'accuracy'):.4f}",
        flush=True,
    )
    return scored


def table(*rows: tuple[str, ...]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def describe_network(folder: Path) -> str:
    network = load_network(folder)
    config, parameters = network.config, sum(parameter.numel() for parameter in network.parameters())
    return (
        f"{parameters:,} parameters: {config.num_layers} layers of {config.hidden_size} with {config.num_heads} heads, "
        f"embeddings of {config.embedding_size}"
    )


def write_card(
    folder: Path,
    name: str,
    data: Path,
    storages: list[Scored],
    chosen: Scored,
    novels: tuple[EvaluationResult, EvaluationResult],
    held_out_chapters: int,
) -> None:
    run, results, report = RunFingerprint.read(folder), PretrainResults.read(folder), PreparedReport.read(data)
    manifest = read_json(data / MANIFEST)
    calibration = Calibration.read(folder / "export" / "calibration")
    network = load_network(folder / "export" / "discriminator").config
    texts = []
    for source in manifest["sources"]:
        stem = Path(source["path"]).name.split(".")[0]
        texts.append((Path(source["path"]).name, f"{source['bytes']:,}", source["sha256"], WIKIS.get(stem, NOVELS)))
    rtd, mlm = novels
    evaluation, runtime = run.settings["evaluation"], run.settings["runtime"]
    assert isinstance(evaluation, Mapping)
    assert isinstance(runtime, Mapping)
    rows_seen = results.tokens / network.sequence_length
    values = {
        "name": name,
        "objective": run.objective,
        "seed": run.settings["seed"],
        "discriminator": describe_network(folder / "export" / "discriminator"),
        "generator": describe_network(folder / "export" / "generator"),
        "vocab_size": f"{network.vocab_size:,}",
        "sequence_length": network.sequence_length,
        "steps": f"{results.step:,}",
        "tokens": f"{results.tokens:,}",
        "epochs": f"{rows_seen / report.counts.train_rows:.0%}",
        "flops": f"{results.flops:.3g}",
        "storage": chosen.storage,
        "documents": f"{report.counts.documents:,}",
        "data_tokens": f"{report.counts.tokens:,}",
        "texts": table(*texts),
        "held_out_books": HELD_OUT_BOOKS,
        "held_out_chapters": f"{held_out_chapters:,}",
        "rows": evaluation["rows"],
        "scores": table(*((line.name, line.value, line.baseline, line.meaning) for line in describe_scores(results))),
        "compared_rows": f"{chosen.rtd.counts['rows']:,}",
        "storages": table(
            *(
                (
                    f"**{each.storage}**" if each is chosen else each.storage,
                    f"{each.loss('rtd'):.5f}",
                    f"{score(each.rtd, 'auc'):.4f}",
                    f"{score(each.rtd, 'recall'):.4f}",
                    f"{each.loss('mlm'):.5f}",
                    f"{score(each.mlm, 'accuracy'):.4f}",
                )
                for each in storages
            )
        ),
        "novel_rows": f"{rtd.counts['rows']:,}",
        "novels": (
            f"AUC {score(rtd, 'auc'):.3f}, recall {score(rtd, 'recall'):.3f}, precision {score(rtd, 'precision'):.3f}; "
            f"the generator guesses {score(mlm, 'accuracy'):.1%} of hidden tokens"
        ),
        "error_rate": f"{calibration.error_rate:.0%}",
        "calibration_error": f"{calibration.calibration_error:.3f}",
        "calibration": table(
            *(
                (
                    kind,
                    f"{scores.words:,}",
                    f"{scores.auc:.3f}",
                    f"{scores.average_precision:.3f}",
                    f"{scores.precision_at_half:.3f}",
                )
                for kind, scores in calibration.scores.items()
            )
        ),
        "command": f"python tools/box_model.py --data $DATA --out runs/{name} {run.budget}",
        "precision": runtime["precision"],
    }
    write_file(folder / "README.md", Template(CARD.read_text(encoding="utf-8")).substitute(values))


def box(name: str, run: Path, out: Path, package: Path) -> Path:
    """A finished run, beside which its data and text lie -> the folder of the package."""
    data, text, held_out = run.parent / "data", run.parent / "text", run.parent / "novels-held-out.txt"
    if not (run / PretrainResults.FILE).is_file():
        raise InputError(f"{run}: is not finished (no {PretrainResults.FILE}); let it train to its end")
    storages: tuple[Storage, ...] = ("fp32", "fp16", "bf16")
    scored = [score_storage(run, data, out, storage) for storage in storages]
    chosen = min(scored[1:], key=lambda each: each.lost_to(scored[0]))
    print(f"{chosen.storage} loses less", flush=True)
    for file in RUN_FILES:
        write_file(chosen.folder / file, (run / file).read_bytes())
    if not (chosen.folder / "export" / "calibration" / MANIFEST).is_file():
        electralab.calibrate(chosen.folder, [text])
    novels = (ask(chosen.folder, "rtd", held_out), ask(chosen.folder, "mlm", held_out))
    chapters = len(held_out.read_text(encoding="utf-8").strip("\n").split("\n\n"))
    write_card(chosen.folder, name, data, scored, chosen, novels, chapters)
    write_file(chosen.folder / LICENSE, read_license(TERMS).text)
    size = sum(file["bytes"] for file in describe_files(chosen.folder).values())
    if size > MOST_BYTES:
        raise InputError(f"{chosen.folder}: has {size:,} bytes, a model of the package at most {MOST_BYTES:,}")
    with new_folder(package / name, kind="bundled model") as folder:
        shutil.copytree(chosen.folder, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".*", MANIFEST))
        for inner in (folder / "export").iterdir():
            shutil.copyfile(chosen.folder / "export" / inner.name / MANIFEST, inner / MANIFEST)
    print(f"{package / name}: {size / 1e6:.1f} MB")
    return package / name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--data", type=Path, help="the folder whose corpora are read; not needed with --run")
    add("--out", type=Path, required=True, help="where text, data, run and variants lie; the same command resumes")
    add("--run", type=Path, help="a finished run, beside which its data, text and novels-held-out.txt lie")
    add("--steps", type=int, default=STEPS, help="how long to pre-train (%(default)s)")
    add("--name", default="hour-en", help="the model's name (%(default)s)")
    add("--package", type=Path, default=MODELS, help="where it is put (the package in this checkout)")
    add("--threads", type=int, default=0, help="CPU threads of scoring and calibrating; default: all cores")
    given = parser.parse_args()
    run = given.run
    if run is None:
        if given.data is None:
            parser.error("give --data, or a finished run with --run")
        run = given.out / "run"
        write_text(given.data / "corpora", given.out)
        tokenizer = {"vocab_size": VOCAB_SIZE}
        electralab.prepare([given.out / "text"], given.out / "data", settings={"tokenizer": tokenizer})
        electralab.pretrain(given.out / "data", run, config="hour", settings=SETTINGS, steps=given.steps)
    use_threads(given.threads)
    box(given.name, run, given.out, given.package)


if __name__ == "__main__":
    main()
