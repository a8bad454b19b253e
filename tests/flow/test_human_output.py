"""What a person reads: a few lines of words from every verb; keys and settings only where they are asked for."""

import re
from pathlib import Path

import pytest
from electra_process import Shell
from little_runs import SMALL, write_scores

pytestmark = pytest.mark.flow

MESSAGES = Path(__file__).parents[2] / "examples" / "messages.csv"
# `counts.train_rows  398`: a key of a result, not a word. Names of files have a dot as well, but no underscore.
KEY = re.compile(r"^\s*[a-z]+(\.[a-z_]+)*\.\w*_\w*\s|^\s*settings\.", re.MULTILINE)
TINY = ("--threads", 1, "--epochs", 1, "--evaluation.times", 1)


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Shell:
    """A folder with data, a pre-trained run, and the same run tuned."""
    shell = Shell(tmp_path_factory.mktemp("worked"))
    for name in ("data", "text.txt"):
        (shell.folder / name).symlink_to(prepared / name)
    (shell.folder / "messages.csv").symlink_to(MESSAGES)
    (shell.folder / "new.txt").write_text("where is my parcel?\nthe lamp is broken.\n")
    write_scores(shell.folder)
    shell.must("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 4)
    shell.must("finetune", "run", "--task", "classify", "--data", "messages.csv", "--out", "tuned", *TINY)
    return shell


PLANS: dict[str, str] = {
    "quickstart": "would prepare the bundled text into runs/quickstart/data",
    "prepare text.txt --out other": "would prepare 1 file (text.txt), 54.7 kB, into other",
    "pretrain --data data --out new --steps 7 --threads 1": "would pre-train new on data: electra, size tiny",
    "pretrain --data data --out run --steps 4 --threads 1": "every step is taken already",
    "finetune run --task classify --data messages.csv --out t": "would fine-tune run for classify on messages.csv",
    "glue run --data glue --tasks cola --out g": "would fine-tune run for 1 task of GLUE into g",
    "flops --config tiny": "would count electra of size tiny with the budget --steps 5000",
    "evaluate run --suite rtd --data data": "would score run/export/discriminator by rtd on data",
    "analyze run --data data --out a --only M30": "1 measure: information",
    "report run": "would write report.html about run (run)",
    "show data": "data: data",
    "detect run Anna": "would ask run about 1 text with 4 characters",
    "predict tuned new.txt": "would answer 2 rows of new.txt with tuned (classify)",
    "proofread text.txt --model run": "would read 1 document (text.txt)",
    "measure run text.txt": "would measure run on text.txt",
    "serve run tuned": "tuned: embed, predict; run by torch",
    "export run --out m": "would write m for transformers: discriminator from run/export/discriminator",
    "compress tuned --data messages.csv --out c": "would make 5 variants of tuned in c: fp32, fp16, bf16, pruned-30",
    "import old --out new": "would convert old into new",
    "completion bash": "would print a completion script for bash",
}


@pytest.mark.parametrize("line", PLANS)
def test_a_dry_run_is_a_few_lines_of_words(worked: Shell, line: str) -> None:
    out = worked.must(*line.split(), "--dry-run").out
    assert PLANS[line] in out
    assert len(out.splitlines()) <= 8
    assert not KEY.search(out), out


def test_a_dry_run_has_every_setting_where_it_is_asked_for(worked: Shell) -> None:
    words = ("pretrain", "--data", "data", "--out", "new", "--steps", 7, "--threads", 1, "--dry-run")
    assert "settings.optimizer.learning_rate" in worked.must(*words, "--verbose").out
    assert worked.must(*words, "--json").json["settings"]["optimizer"]["learning_rate"] == 0.002


RESULTS: dict[str, str] = {
    "prepare text.txt --out data --vocab-size 200 --sequence-length 32": (
        "data: 120 documents became 12,000 tokens in 398 training rows\n"
        "held out for evaluation: 7 rows of 2 documents\n"
        "vocabulary: 114 entries, 1.11 tokens a word; no token is unknown\n"
    ),
    "show data": "held out for evaluation: 7 rows of 2 documents\n",
    "show run/export/discriminator": "modern encoder: 1 layer of width 32 with 2 heads, vocabulary of 114",
    "show tuned/export/model": "tuned to classify: cancellation, complaint, praise, question\n",
    "show run/checkpoints/step-4": "run/checkpoints/step-4: after 4 steps, 1,024 tokens and ",
    "export run --out model-hf": "model-hf: 2 networks for transformers\n",
}


@pytest.mark.parametrize("line", RESULTS)
def test_a_result_is_a_few_lines_of_words(worked: Shell, line: str) -> None:
    out = worked.must(*line.split()).out
    assert RESULTS[line] in out
    assert len(out.splitlines()) <= 4
    assert not KEY.search(out), out


def test_what_was_left_out_is_said_in_words(shell: Shell) -> None:
    texts = shell.folder / "texts"
    texts.mkdir()
    (texts / "a.txt").write_text((shell.folder / "text.txt").read_text() + "\n\nshort\n\n" + 2 * "it comes twice\n\n")
    (texts / "picture.png").write_bytes(b"\x89PNG")
    ended = shell.must("prepare", "texts", "--out", "d", "--vocab-size", 200, "--filters.min-characters", 10)
    assert "left out: 2 documents (1 duplicate, 1 too short)\n" in ended.out
    assert "not read, because it is no text that can be read: texts/picture.png\n" in ended.out


EVALUATIONS: dict[str, str] = {
    "rtd --data data": r"replaced tokens are told from original ones with AUC 0\.\d+ \(chance: 0\.5\)",
    "mlm --data data": r"% of the hidden tokens are guessed right \(the most frequent one: [\d.]+ %\)",
    "probe --task classify --data messages.csv": r"a linear probe of layer \S+ is right in [\d.]+ % of 40 examples",
}


@pytest.mark.parametrize("suite", EVALUATIONS)
def test_an_evaluation_says_first_what_its_score_means(worked: Shell, suite: str) -> None:
    words: list[str] = ["evaluate", "run", "--suite", *suite.split(), "--threads", "1", "--probe.max-iterations", "20"]
    assert re.search(EVALUATIONS[suite], worked.must(*words).out.splitlines()[0])


def test_training_ends_with_what_its_page_says_first(worked: Shell) -> None:
    out = worked.must("pretrain", "--data", "data", "--out", "run", *SMALL, "--steps", 4).out
    assert "It was trained for 4 steps on 1,024 tokens of data in " in out
    assert "The discriminator ranks a replaced token above an original token " in out
    assert out.lower().count("verdict: ") == 1
    out = worked.must("finetune", "run", "--task", "classify", "--data", "messages.csv", "--out", "tuned", *TINY).out
    assert "A pre-trained model was fine-tuned for the task classify on " in out
    assert "The accuracy on the dev set is " in out
    assert out.lower().count("a baseline ") + out.lower().count("better than its baselines") == 1


def test_measured_proofreading_says_how_much_it_finds(worked: Shell) -> None:
    out = worked.must("proofread", "text.txt", "--model", "run", "--measure", "--threads", 1).out
    words = ("proofread", "text.txt", "--model", "run", "--measure", "--threads", 1, "--json")
    typos = worked.must(*words).json["measurements"][0]
    assert out.startswith(f"typos: {typos['wrong']:,} of {typos['items']:,} words are wrong (planted); ")


def test_verbose_lists_every_key_below_the_words(worked: Shell) -> None:
    out = worked.must("show", "data", "--verbose").out
    assert out.startswith("data: 120 documents became")
    assert "report.counts.train_rows" in out


def test_answers_for_a_pipe_stay_alone(worked: Shell) -> None:
    plain, verbose = (worked.must("detect", "run", "Anna sees it.", *more).out for more in ((), ("--verbose",)))
    assert plain == verbose
