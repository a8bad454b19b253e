"""docs/continuing.md: its commands are run as they stand, on a pair that `transformers` made; only sizes differ."""

import json
import re
from pathlib import Path

import pytest
import torch
import transformers
from electra_process import Shell, run_page
from little_runs import SMALL, write_text

pytestmark = pytest.mark.flow

PAGE = Path(__file__).parents[2] / "docs" / "continuing.md"
EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES: dict[str, int] = {"embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
# As the released small size is to the preset, so is this pair to these settings.
WORDS = (
    "--model.embedding-size 16 --model.hidden-size 32 --model.num-layers 1 --model.num-heads 2 "
    "--model.feedforward-size 64 --batch.size 4 --evaluation.rows 4 --threads 1"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With `released/`, as Hugging Face lays a pair out, and `my_texts/`."""
    folder = tmp_path_factory.mktemp("continuing")
    (folder / "my_texts").mkdir()
    write_text(folder / "my_texts" / "a.txt")
    (folder / "examples").symlink_to(EXAMPLES)
    shell = Shell(folder)
    shell.must("prepare", "my_texts", "--out", "learned", "--vocab-size", 150)
    vocab = json.loads((folder / "learned/tokenizer/tokenizer.json").read_text())["model"]["vocab"]
    torch.manual_seed(0)
    config = transformers.ElectraConfig(vocab_size=len(vocab), intermediate_size=64, **SIZES)
    judge = transformers.ElectraForPreTraining(config)
    guesser = transformers.ElectraForMaskedLM(config)
    guesser.electra.embeddings.load_state_dict(judge.electra.embeddings.state_dict())  # as they were trained
    for name, network in (("discriminator", judge), ("generator", guesser)):
        place = folder / "released" / f"electra-small-{name}"
        network.save_pretrained(place)
        pieces = "\n".join(sorted(vocab, key=lambda piece: vocab[piece]))
        (place / "vocab.txt").write_text(f"{pieces}\n")
        (place / "tokenizer_config.json").write_text(json.dumps({"do_lower_case": True, "strip_accents": False}))
    tokenizer = ("--tokenizer", "released/electra-small-discriminator")
    shell.must("prepare", "my_texts", "--out", "short", *tokenizer, "--sequence-length", 32)
    return folder


def test_the_page_does_what_it_says(folder: Path) -> None:
    text = PAGE.read_text().replace("--config small", f"--config small {WORDS}").replace("--steps 1000", "--steps 2")
    text = text.replace("--out runs/domain-messages", "--out runs/domain-messages --steps 2 --threads 1")
    released, _, other = text.partition("## Start from another objective")
    said = run_page(folder, released)
    run_page(folder, other)
    # Rows were 128 long; what the model could read before it still can.
    for model in ("runs/domain/export/discriminator", "runs/domain-messages/export/model"):
        assert json.loads((folder / model / "config.json").read_text())["max_position_embeddings"] == 512
    assert "starts from random weights" not in said
    assert re.search(r"released/electra-small-discriminator: \d+ of \d+ tokens are carried over by their text", said)


def continue_from(folder: Path, run: str, *words: str | int) -> str:
    """A step at next to no learning rate; returned is what it says."""
    still = ("--optimizer.learning-rate", "1e-30", "--optimizer.weight-decay", 0, "--steps", 1)
    sizes = ("--model.backbone", "electra", "--model.embedding-size", 16, "--generator.width-share", 1)
    return Shell(folder).must("pretrain", "--data", "short", "--out", run, *SMALL, *sizes, *still, *words).err


@torch.no_grad()
def test_both_networks_go_on_as_they_were_released_at_every_position(folder: Path) -> None:
    said = continue_from(
        folder,
        "both",
        *("--init-from", "released/electra-small-discriminator"),
        *("--init-generator", "released/electra-small-generator"),
    )
    assert "starts from random weights" not in said
    assert "token table" not in said
    ids = torch.randint(5, 100, (1, 500), generator=torch.Generator().manual_seed(0))
    for name, kind in (("discriminator", "ElectraForPreTraining"), ("generator", "ElectraForMaskedLM")):
        load = getattr(transformers, kind).from_pretrained
        theirs, ours = load(folder / "released" / f"electra-small-{name}"), load(folder / "both" / "export" / name)
        assert torch.allclose(ours.eval()(ids).logits, theirs.eval()(ids).logits, atol=1e-5)


def test_a_lone_discriminator_says_that_the_generator_begins_anew(folder: Path) -> None:
    said = continue_from(folder, "lone", "--init-from", "released/electra-small-discriminator")
    assert (
        "warning: released/electra-small-discriminator: holds no generator to start from: what it does not share "
        "starts from random weights; give one with --init-generator"
    ) in said


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ("discriminator", "discriminator", "holds no generator, which --init-generator needs; give the folder of one"),
        ("generator", "generator", "holds a generator; give --init-from the discriminator that goes with it"),
    ],
)
def test_two_folders_of_one_role_are_refused(folder: Path, first: str, second: str, sentence: str) -> None:
    words = ("--init-from", f"released/electra-small-{first}", "--init-generator", f"released/electra-small-{second}")
    sizes = ("--model.backbone", "electra", "--model.embedding-size", 16, "--generator.width-share", 1)
    ended = Shell(folder).run("pretrain", "--data", "short", "--out", "no", *SMALL, *sizes, "--steps", 1, *words)
    assert ended.status == 1
    assert ended.err.splitlines()[-1].endswith(sentence)
    assert not (folder / "no" / "run.json").exists()
