"""Rows of one segment leave the embedding of the second untrained; a task of pairs begins it as a copy of the first."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import electralab
from electralab.config import parse_overrides
from electralab.display import Display
from electralab.finetuning.task import load_pretrained
from electralab.model.folders.folder import load_encoder
from electralab.model.folders.hf_config import UNTRAINED_SEGMENTS

WORDS = ["cat", "dog", "cow", "sun", "sea", "sky"]
SMALL = (
    *("--model.num-layers", "1", "--model.hidden-size", "16", "--model.embedding-size", "16"),
    *("--model.num-heads", "2", "--model.feedforward-size", "16", "--batch.size", "4", "--evaluation.rows", "4"),
    *("--evaluation.times", "1", "--model.sharing", "embeddings", "--generator.num-heads", "1"),
)
ELECTRA = (*SMALL, "--model.backbone", "electra")


class Listener(Display):
    def __init__(self) -> None:
        super().__init__(quiet=True)
        self.said: list[str] = []

    def say(self, text: str, style: str = "") -> None:  # noqa: ARG002
        self.said.append(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With data packed both ways, a table of pairs and one of single texts, and `run`, of rows of one segment."""
    folder = tmp_path_factory.mktemp("segments")
    lines = [f"the {a} sees the {b}\nand the {b} sees the {a}" for a in WORDS for b in WORDS]
    (folder / "text.txt").write_text("\n\n".join(lines))
    for kind in ("contiguous", "pairs"):
        settings = {"tokenizer": {"vocab_size": 64}, "packing": {"sequence_length": 16, "kind": kind}}
        electralab.prepare([folder / "text.txt"], folder / kind, settings=settings, display=Display(quiet=True))
    pairs = [f"the {a},the {b},{'same' if a == b else 'other'}" for a in WORDS for b in WORDS]
    (folder / "pairs.csv").write_text("\n".join(["text_a,text_b,label", *pairs]) + "\n")
    texts = [f"the {word} {number},{'yes' if number % 2 else 'no'}" for word in WORDS for number in range(8)]
    (folder / "texts.csv").write_text("\n".join(["text,label", *texts]) + "\n")
    pretrain(folder, "contiguous", "run")
    return folder


def pretrain(folder: Path, data: str, run: str, words: tuple[str, ...] = ELECTRA, **options: Any) -> Path:
    settings = parse_overrides(list(words)).values
    asked: dict[str, Any] = {"steps": 4, "threads": 1, "settings": settings, "display": Display(quiet=True)} | options
    electralab.pretrain(folder / data, folder / run, **asked)
    return folder / run


def tune(model: Path, task: str, data: Path, out: Path, *words: str, **options: Any) -> list[str]:
    listener = Listener()
    settings = parse_overrides(["--steps", "1", "--optimizer.learning-rate", "1e-30", *words]).values
    electralab.finetune(model, task, data, out, settings=settings, threads=1, display=listener, **options)
    return [text for text in listener.said if "was never trained" in text]


def segments(folder: Path) -> torch.Tensor:
    found = load_encoder(folder).embeddings.segments
    assert found is not None
    return found.weight.detach()


def is_marked(run: Path) -> bool:
    return UNTRAINED_SEGMENTS in json.loads((run / "export/discriminator/config.json").read_text())


def test_a_run_says_of_its_networks_what_no_row_has_trained(folder: Path) -> None:
    assert is_marked(folder / "run")
    assert not is_marked(pretrain(folder, "pairs", "of-pairs"))
    assert not is_marked(pretrain(folder, "contiguous", "modern", SMALL))
    # What was trained once stays so; what was not still is not.
    assert not is_marked(pretrain(folder, "contiguous", "from-pairs", init_from=folder / "of-pairs", match_tokens=True))
    assert is_marked(pretrain(folder, "contiguous", "further", init_from=folder / "run"))


def test_a_task_of_pairs_begins_the_second_segment_as_the_first_and_says_so(folder: Path) -> None:
    before = segments(folder / "run/export/discriminator")
    assert not torch.equal(before[0], before[1])
    (note,) = tune(folder / "run", "pair", folder / "pairs.csv", folder / "tuned-pairs")
    assert note.startswith(
        f"{folder / 'run'}: was pre-trained on rows of one segment, so the segment of a pair's secon"
    )
    after = segments(folder / "tuned-pairs/export/model")
    assert torch.equal(after, before[0].expand_as(after))
    assert not load_pretrained(folder / "tuned-pairs", None).has_untrained_segments


def test_a_task_of_single_texts_leaves_it_and_passes_on_that_it_is_untrained(folder: Path) -> None:
    before = segments(folder / "run/export/discriminator")
    assert tune(folder / "run", "classify", folder / "texts.csv", folder / "tuned-texts") == []
    assert torch.equal(segments(folder / "tuned-texts/export/model"), before)
    second = folder / "second"
    (_,) = tune(folder / "run", "pair", folder / "pairs.csv", second, init_from=folder / "tuned-texts")
    assert torch.equal(*segments(second / "export/model"))


def test_a_segment_that_was_trained_and_a_start_from_scratch_are_left_alone(folder: Path) -> None:
    trained = pretrain(folder, "pairs", "trained")
    assert tune(trained, "pair", folder / "pairs.csv", folder / "tuned-trained") == []
    assert torch.equal(segments(folder / "tuned-trained/export/model"), segments(trained / "export/discriminator"))
    assert tune(folder / "run", "pair", folder / "pairs.csv", folder / "scratch", "--from-scratch", "true") == []
    assert not torch.equal(*segments(folder / "scratch/export/model"))


def test_an_export_for_others_still_says_it(folder: Path) -> None:
    electralab.export(folder / "run", folder / "exported", format="hf", display=Display(quiet=True))
    assert load_pretrained(folder / "exported", None).has_untrained_segments
