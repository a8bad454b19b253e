"""The words of the shell: every verb with its flags.

words -> argparse.Namespace
"""

import argparse
from typing import Any

from electralab.parser import Parser, Words


def _verb(verbs: Any, name: str, summary: str, example: str) -> Parser:
    parser: Parser = verbs.add_parser(
        name,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object on standard output")
    parser.add_argument("--dry-run", action="store_true", help="print the resolved plan and do nothing")
    return parser


def _add_settings(parser: Parser, what: str) -> None:
    parser.add_argument("--config", metavar="FILE", help=f"{what}; any setting also as --section.name VALUE")


def _add_prepare(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "prepare",
        "turn text into tokenized, packed rows",
        "electra prepare books/ news.jsonl.gz --out data/mine --vocab-size 8192",
    )
    parser.add_argument("inputs", nargs="+", metavar="INPUT", help="files, folders, globs, or - for standard input")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="entries of the learned vocabulary")
    parser.add_argument("--sequence-length", type=int, metavar="N", help="tokens per row")
    parser.add_argument(
        "--tokenizer", metavar="PATH", help="a vocab.txt, tokenizer.json or model folder to use instead"
    )
    parser.add_argument("--tokenizer-kind", choices=["wordpiece", "bpe", "unigram"], help="what to learn")
    parser.add_argument("--lowercase", action=argparse.BooleanOptionalAction, help="fold case")
    parser.add_argument("--strip-accents", action=argparse.BooleanOptionalAction, help="remove accents")
    parser.add_argument("--documents", choices=["blank-lines", "lines", "files"], help="where a .txt document ends")
    parser.add_argument("--field", metavar="NAME", help="the field of .jsonl, the column of tables (default: text)")
    parser.add_argument("--packing", choices=["contiguous", "pairs"], help="full rows, or the paper's two segments")
    parser.add_argument(
        "--repair", action=argparse.BooleanOptionalAction, help="mend broken encodings before anything else"
    )
    parser.add_argument("--symbols", action="store_true", default=None, help="JSONL lists taken as tokens as they are")
    parser.add_argument("--heldout-share", type=float, metavar="P", help="of the documents, kept for evaluation")
    parser.add_argument("--seed", type=int, metavar="S")
    _add_settings(parser, "a TOML file of settings")


def _add_pretrain(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "pretrain",
        "train a generator and a discriminator; the same command again resumes",
        "electra pretrain --data data/mine --out runs/mine --config tiny --minutes 10 --masking.mask-share 0.2",
    )
    parser.add_argument("--data", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    parser.add_argument("--out", required=True, metavar="RUN", help="the run folder")
    parser.add_argument("--size", choices=["tiny", "small", "base", "large"], help="sizes of both networks")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=_positive_int, metavar="N")
    budget.add_argument("--tokens", type=_positive, metavar="N")
    budget.add_argument("--flops", type=_positive, metavar="X")
    budget.add_argument("--minutes", type=_positive, metavar="M", help="turned into steps by a short probe, once")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--save-every", type=_count, default=500, metavar="N", help="steps between checkpoints (500)")
    parser.add_argument("--log-every", type=_count, default=20, metavar="N", help="steps between log lines (20)")
    parser.add_argument("--keep", type=_positive_int, default=2, metavar="N", help="checkpoints to keep (2)")
    parser.add_argument(
        "--snapshots", type=_shares, default=[], metavar="P,P", help="export at these shares of the run too: 0.25,0.5"
    )
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    parser.add_argument(
        "--objective",
        metavar="NAME",
        help="electra, electra-15, electric, replace-mlm, all-tokens-mlm, mlm, bert, causal, permutation",
    )
    parser.add_argument("--procedure", metavar="NAME", help="joint, two-stage, adversarial, minimax, minimax-literal")
    parser.add_argument("--sentence-task", metavar="NAME", help="of mlm and bert: next-sentence or sentence-order")
    parser.add_argument("--init-from", metavar="DIR", help="start new training from this model's weights")
    parser.add_argument("--extend", action="store_true", help="go on with a larger budget")
    parser.add_argument("--allow-inexact", action="store_true", help="resume with another number of threads")
    _add_settings(parser, "a preset (tiny, small, base, large, paper-small, …) or a TOML file")


def _add_flops(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "flops",
        "count the parameters, FLOPs, memory and time of a pre-training run that was not started",
        "electra flops --config paper-small --vocab-size 30522 --objective mlm --steps 1450000",
    )
    parser.add_argument("--table", action="store_true", help="the runs of the paper, as published and as counted here")
    parser.add_argument("--data", metavar="DIR", help="what 'electra prepare' wrote; or, without any,")
    parser.add_argument("--vocab-size", type=_positive_int, metavar="N", help="entries of the vocabulary (8192)")
    parser.add_argument("--sequence-length", type=_positive_int, metavar="N", help="tokens per row (128)")
    parser.add_argument("--size", choices=["tiny", "small", "base", "large"], help="sizes of both networks")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=_positive_int, metavar="N")
    budget.add_argument("--tokens", type=_positive, metavar="N")
    budget.add_argument("--flops", type=_positive, metavar="X")
    parser.add_argument("--objective", metavar="NAME", help="as of pretrain")
    parser.add_argument("--procedure", metavar="NAME", help="as of pretrain")
    parser.add_argument("--sentence-task", metavar="NAME", help="as of pretrain")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    _add_settings(parser, "a preset (tiny, small, base, large, paper-small, …) or a TOML file")


def _add_finetune(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "finetune",
        "teach a pre-trained model a task; the same command again resumes",
        "electra finetune runs/mine --task classify --data reviews/ --out runs/reviews --seeds 3",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument(
        "--task",
        required=True,
        metavar="NAME",
        help="cola, sst2, mrpc, stsb, qqp, mnli, qnli, rte, wnli; squad1, squad2; ner, chunking; "
        "own data: classify, pair, regress, label, qa",
    )
    parser.add_argument("--data", required=True, metavar="DIR", help="a folder with train.*, dev.*, test.*, or a file")
    _add_tuning(parser)
    parser.add_argument(
        "--keep", type=_count, default=1, metavar="N", help="checkpoints of a finished seed to keep (1)"
    )
    parser.add_argument(
        "--double-pairs", action=argparse.BooleanOptionalAction, help="learn from each pair in both orders"
    )
    parser.add_argument("--init-from", metavar="DIR", help="begin with the encoder of another tuned model")
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text; without it, found by name or content")
    parser.add_argument("--text-a", metavar="COLUMN", help="the column of the first text of a pair, or the question")
    parser.add_argument("--text-b", metavar="COLUMN", help="the column of the second, or the context")
    parser.add_argument("--label", metavar="COLUMN", help="the column of the class, the number, the tags or answers")


def _add_tuning(parser: Parser) -> None:
    parser.add_argument("--out", required=True, metavar="RUN", help="the run folder")
    parser.add_argument("--seeds", type=_positive_int, default=1, metavar="N", help="runs, each with its seed (1)")
    parser.add_argument("--seed", type=int, metavar="S", help="the first seed (0)")
    parser.add_argument("--epochs", type=_positive, metavar="X", help="default: the paper's for the task")
    parser.add_argument("--steps", type=_positive_int, metavar="N", help="instead of epochs")
    parser.add_argument("--learning-rate", type=_positive, metavar="X", help="default: the paper's for the size")
    parser.add_argument("--batch-size", type=_positive_int, metavar="N", help="rows in a step (32)")
    parser.add_argument("--sequence-length", type=_positive_int, metavar="N", help="tokens in a row")
    parser.add_argument(
        "--head", choices=["released", "huggingface"], help="dropout and linear (default), or that of transformers"
    )
    parser.add_argument(
        "--from-scratch", action="store_true", default=None, help="forget what MODEL learned: a baseline for it"
    )
    parser.add_argument("--encoder-dropout", type=float, metavar="P", help="default: as in pre-training")
    parser.add_argument("--save-every", type=_count, default=500, metavar="N", help="steps between checkpoints (500)")
    parser.add_argument("--log-every", type=_count, default=0, metavar="N", help="steps between log lines (50 lines)")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    parser.add_argument("--allow-inexact", action="store_true", help="resume with another number of threads")
    _add_settings(parser, "a TOML file of settings")


def _add_glue(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "glue",
        "tune and score a model on every task of GLUE; the same command again goes on",
        "electra glue runs/mine --data glue/ --tasks cola,sst2,rte --seeds 3 --out runs/mine-glue",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("--data", required=True, metavar="DIR", help="the GLUE folder, with CoLA/, SST-2/, … in it")
    parser.add_argument("--tasks", metavar="NAME,NAME", help="default: every task whose files are there, but WNLI")
    _add_tuning(parser)


def _add_evaluate(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "evaluate",
        "score a model as it is, without tuning",
        "electra evaluate runs/mine --suite blimp --data blimp.tar.xz",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("--suite", required=True, choices=["blimp", "rtd", "mlm", "sts", "probe"], help="what to score")
    parser.add_argument("--data", required=True, metavar="PATH", help="the suite's file or folder")
    parser.add_argument("--out", metavar="FILE", help="write the result as JSON here too")
    parser.add_argument("--generator", metavar="MODEL", help="of rtd: the fixed generator that replaces tokens")
    parser.add_argument("--task", metavar="NAME", help="of probe: the task whose files --data holds")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    _add_settings(parser, "a TOML file of settings")


def _add_study(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "study",
        "compare settings at equal compute, seed by seed; the same command again goes on",
        "electra study head-to-head --corpus data/mine --data benchmarks/ --out studies/mine --flops 4e13",
    )
    parser.add_argument(
        "config",
        metavar="STUDY",
        help="a TOML file, or one that comes along: paper-objectives, generator-size, weight-tying, "
        "training-procedure, mask-share, head-to-head, sample-efficiency, model-size, discriminator-options",
    )
    parser.add_argument("--corpus", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    parser.add_argument("--data", metavar="DIR", help="the folder in which the data of the scores lies")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the study")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--flops", type=_positive, metavar="X", help="of each arm, instead of the study's budget")
    budget.add_argument("--tokens", type=_positive, metavar="N", help="likewise")
    budget.add_argument("--steps", type=_positive_int, metavar="N", help="likewise")
    parser.add_argument("--seeds", type=_whole_numbers, metavar="S,S", help="of pre-training, instead of the study's")
    parser.add_argument(
        "--only", type=_names, default=[], metavar="ARM,ARM", help="run these arms only, the others later"
    )
    parser.add_argument(
        "--jobs", type=_positive_int, default=0, metavar="N", help="cells side by side (cores / threads)"
    )
    parser.add_argument("--threads", type=_positive_int, default=1, metavar="N", help="of each cell (1)")


def _add_compress(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "compress",
        "make smaller and faster variants of a model and measure them; the same command again goes on",
        "electra compress runs/reviews --data reviews/ --out compressed/ --prune 0.3,0.5 --max-loss 1",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder: a tuned model, or a pre-trained pair")
    parser.add_argument(
        "--data", required=True, metavar="PATH", help="of a tuned model its task's files; else prepared data or text"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder of the variants")
    parser.add_argument("--prune", type=_shares, metavar="P,P", help="shares of heads and neurons to remove (0.3)")
    parser.add_argument("--no-prune", action="store_const", const=[], dest="prune", help="leave the network whole")
    parser.add_argument("--drop-layers", type=_count, metavar="N", help="whole layers to leave out where pruned (0)")
    parser.add_argument(
        "--recovery-steps", type=_count, metavar="N", help="of training what is left (1000); 0 for none"
    )
    parser.add_argument("--graphs", type=_names, metavar="NAME,NAME", help="onnx, onnx-dynamic-int8, onnx-static-int8")
    parser.add_argument("--target-speedup", type=_positive, metavar="X", help="take the best that is so much faster")
    parser.add_argument("--max-loss", type=_number, metavar="X", help="take the fastest that loses so many points")
    parser.add_argument("--generator", metavar="MODEL", help="of a pair: the fixed generator that replaces tokens")
    parser.add_argument("--task", metavar="NAME", help="of a tuned model that does not say what it was tuned for")
    parser.add_argument("--seed", type=int, metavar="S")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    _add_settings(parser, "a TOML file of settings")


def _add_predict(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "predict",
        "answer for every row of a file with a tuned model",
        "electra predict runs/reviews new.csv --out answers.jsonl",
    )
    parser.add_argument("model", metavar="MODEL", help="a fine-tuning run or a tuned model folder")
    parser.add_argument("input", metavar="INPUT", help="a .csv, .tsv, .jsonl, .parquet or .txt file, or - for a pipe")
    parser.add_argument("--out", metavar="FILE", help=".jsonl, .csv or .tsv; default: JSON lines on standard output")
    parser.add_argument("--ensemble", action="store_true", help="average over all seeds of the run")
    parser.add_argument("--text", metavar="COLUMN", help="the column of the text; without it, found by name or content")
    parser.add_argument("--text-a", metavar="COLUMN", help="the column of the first text of a pair, or the question")
    parser.add_argument("--text-b", metavar="COLUMN", help="the column of the second, or the context")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    _add_settings(parser, "a TOML file of settings")


def _add_detect(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "detect",
        "say for each token of a text how likely it was replaced",
        "electra detect runs/quickstart 'The people of the United elephants are free.'",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("text", nargs="?", metavar="TEXT", help="the text, or - for standard input")
    parser.add_argument("--file", metavar="PATH", help="a file that holds the text")
    parser.add_argument("--lines", action="store_true", help="each line is a text of its own; --json gives a line each")
    _add_settings(parser, "a TOML file of settings")


def _add_serve(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "serve",
        "answer over HTTP, with a page to try it; SIGTERM lets it finish what it has begun",
        "electra serve runs/quickstart reviews=runs/reviews --port 8000",
    )
    parser.add_argument("models", nargs="+", metavar="MODEL", help="run or model folders, or NAME=FOLDER")
    parser.add_argument("--host", metavar="ADDRESS", help="to listen on (127.0.0.1); any other needs a key")
    parser.add_argument("--port", type=_count, metavar="N", help="to listen on (8000); 0 for any that is free")
    parser.add_argument("--key-file", metavar="FILE", help="keys, one a line, of which each request must bring one")
    parser.add_argument("--runtime", choices=["torch", "onnx"], help="what runs the networks (torch)")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    _add_settings(parser, "a TOML file of settings")


def _add_proofread(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "proofread",
        "name the words of documents that look wrong, and what may have been meant",
        "electra proofread letter.txt notes.md --model runs/mine --html proofs.html",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="text files, or - (or none) for standard input")
    parser.add_argument("--model", default="runs/quickstart", metavar="MODEL", help="a run or pair (runs/quickstart)")
    parser.add_argument("--threshold", type=float, metavar="P", help="how suspicious a word must be (0.5)")
    parser.add_argument(
        "--limit", type=_count, metavar="N", help="the most words to name in a document (50); 0 for all"
    )
    parser.add_argument("--suggestions", type=_count, metavar="N", help="for each word (3)")
    parser.add_argument("--html", metavar="FILE", help="write a page with the marked texts instead of lines")
    parser.add_argument("--measure", action="store_true", help="plant damage in the texts and say how much is found")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the damage (0)")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    _add_settings(parser, "a TOML file of settings")


def _add_show(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "show",
        "print any artifact in human form",
        "electra show runs/quickstart",
    )
    parser.add_argument(
        "path", metavar="PATH", help="a data folder, run, study, checkpoint, model folder or metrics.jsonl"
    )
    parser.add_argument("--row", type=int, metavar="N", help="of data: this training row with its pieces")
    parser.add_argument(
        "--model", metavar="MODEL", help="with --row: mask and corrupt the row and judge it by this run"
    )


def _add_quickstart(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "quickstart",
        "prepare, pre-train and try a tiny ELECTRA on a text that comes along",
        "electra quickstart --minutes 5",
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="your own text instead")
    parser.add_argument("--out", default="runs/quickstart", metavar="RUN")
    parser.add_argument("--minutes", type=_positive, default=5.0, metavar="M", help="of pre-training (5)")
    parser.add_argument("--seed", type=int, default=0, metavar="S")
    _add_settings(parser, "a preset or a TOML file for pre-training")


def _add_export(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "export",
        "write a model in a form that others can use, tried against the model first",
        "electra export runs/mine --format onnx-int8 --data my_texts/ --out models/mine-int8",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("--out", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument(
        "--format", default="hf", metavar="NAME", help="hf (for transformers), onnx, or onnx-int8 (default: hf)"
    )
    parser.add_argument(
        "--data", metavar="PATH", help="your text, or prepared data, to calibrate with and to try it on"
    )
    parser.add_argument(
        "--activations", choices=["dynamic", "static"], help="of onnx-int8: ranges found in each call, or on --data"
    )
    parser.add_argument("--license", default="", metavar="NAME", help="of the weights: apache-2.0, mit, …, or a file")
    parser.add_argument("--threads", type=_positive_int, default=0, metavar="N", help="default: the cores there are")
    _add_settings(parser, "a TOML file of settings")


def _add_import(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "import",
        "convert a legacy pickled or TensorFlow checkpoint into a safe model folder",
        "electra import old/ --out models/new",
    )
    parser.add_argument("old", metavar="OLD", help="a folder with pytorch_model.bin or a TensorFlow checkpoint")
    parser.add_argument("--out", required=True, metavar="NEW", help="the folder to write")


def _add_completion(verbs: Any) -> None:
    parser = _verb(verbs, "completion", "print a completion script for a shell", 'eval "$(electra completion bash)"')
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def _positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number above 0, got {text!r}")
    return value


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not float("-inf") < value < float("inf"):
        raise argparse.ArgumentTypeError(f"must be a number, got {text!r}")
    return value


def _names(text: str) -> Words:
    names = [name for name in text.split(",") if name]
    if not names:
        raise argparse.ArgumentTypeError(f"must be names with commas between them, got {text!r}")
    return names


def _shares(text: str) -> list[float]:
    shares = [_positive(share) for share in text.split(",")]
    if max(shares) >= 1:
        raise argparse.ArgumentTypeError(f"must be shares between 0 and 1, got {text!r}")
    return shares


def _whole_numbers(text: str) -> list[int]:
    return [_count(number) for number in text.split(",")]


def _positive_int(text: str) -> int:
    return _whole(text, least=1)


def _count(text: str) -> int:
    return _whole(text, least=0)


def _whole(text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError:
        value = least - 1
    if value < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
    return value


def build_parser() -> tuple[Parser, dict[str, Parser]]:
    from electralab import __version__

    parser = Parser(
        prog="electra",
        description="From a folder of text to a pre-trained, fine-tuned ELECTRA. Start with 'electra quickstart'.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"electra {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True, parser_class=Parser)
    for add in (
        *(_add_quickstart, _add_prepare, _add_pretrain, _add_finetune, _add_glue, _add_evaluate, _add_study),
        *(
            _add_flops,
            _add_compress,
            _add_predict,
            _add_detect,
            _add_proofread,
            _add_serve,
            _add_show,
            _add_export,
            _add_import,
            _add_completion,
        ),
    ):
        add(verbs)
    return parser, verbs.choices
