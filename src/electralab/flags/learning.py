"""The flags of the verbs that teach."""

import argparse
from typing import Any

from electralab.flags.values import count, positive, positive_int, shares
from electralab.flags.verb import add_settings, add_verb
from electralab.parser import Parser


def _add_quickstart(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "quickstart",
        "prepare, pre-train and try a tiny ELECTRA on a text that comes along",
        "electra quickstart --minutes 5",
    )
    parser.add_argument("inputs", nargs="*", metavar="INPUT", help="your own text instead")
    parser.add_argument("--out", default="runs/quickstart", metavar="RUN", help="the run folder (runs/quickstart)")
    parser.add_argument("--minutes", type=positive, default=5.0, metavar="M", help="of pre-training (5)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of all that is random (0)")
    add_settings(parser, "a preset or a TOML file for pre-training")


def _add_prepare(verbs: Any) -> None:
    parser = add_verb(
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
        "--tokenizer", metavar="PATH", help="a vocab.txt, tokenizer.json, model folder or prepared data"
    )
    parser.add_argument("--tokenizer-kind", choices=["wordpiece", "bpe", "unigram"], help="the tokenizer to learn")
    parser.add_argument("--lowercase", action=argparse.BooleanOptionalAction, help="fold case")
    parser.add_argument("--strip-accents", action=argparse.BooleanOptionalAction, help="remove accents")
    parser.add_argument("--documents", choices=["blank-lines", "lines", "files"], help="where a .txt document ends")
    parser.add_argument("--field", metavar="NAME", help="the field of .jsonl, the column of tables (default: text)")
    parser.add_argument(
        "--packing",
        choices=["contiguous", "pairs", "documents"],
        help="full rows (default), the paper's two segments, or one document a row (default with --symbols)",
    )
    parser.add_argument(
        "--drop-duplicates",
        action=argparse.BooleanOptionalAction,
        help="drop documents exactly like an earlier one (default: yes; with --symbols no)",
    )
    parser.add_argument(
        "--repair", action=argparse.BooleanOptionalAction, help="mend broken encodings before anything else"
    )
    parser.add_argument("--symbols", action="store_true", default=None, help="JSONL lists taken as tokens as they are")
    parser.add_argument("--heldout-share", type=float, metavar="P", help="of the documents, kept for evaluation")
    parser.add_argument("--seed", type=int, metavar="S", help="of what is held out and of all else that is random (0)")
    add_settings(parser, "a TOML file of settings")


def _add_pretrain(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "pretrain",
        "train a generator and a discriminator; the same command again resumes",
        "electra pretrain --data data/mine --out runs/mine --config tiny --minutes 10 --masking.mask-share 0.2",
    )
    parser.add_argument("--data", required=True, metavar="DIR", help="what 'electra prepare' wrote")
    parser.add_argument("--out", required=True, metavar="RUN", help="the run folder")
    parser.add_argument("--size", choices=["tiny", "small", "base", "large"], help="sizes of both networks")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=positive_int, metavar="N", help="train for this many steps")
    budget.add_argument("--tokens", type=positive, metavar="N", help="train on this many tokens: 1e7")
    budget.add_argument(
        "--flops", type=positive, metavar="X", help="train for this many floating-point operations: 1e14"
    )
    budget.add_argument(
        "--minutes",
        type=positive,
        metavar="M",
        help="train for about this long; turned into steps by a short probe, once",
    )
    parser.add_argument("--seed", type=int, metavar="S", help="of first weights, masks and all else that is random (0)")
    parser.add_argument("--save-every", type=count, default=500, metavar="N", help="steps between checkpoints (500)")
    parser.add_argument("--log-every", type=count, default=20, metavar="N", help="steps between log lines (20)")
    parser.add_argument("--keep", type=positive_int, default=2, metavar="N", help="checkpoints to keep (2)")
    parser.add_argument(
        "--snapshots", type=shares, default=[], metavar="P,P", help="export at these shares of the run too: 0.25,0.5"
    )
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    parser.add_argument(
        "--objective",
        metavar="NAME",
        help="electra, electra-15, electric, replace-mlm, all-tokens-mlm, mlm, bert, causal, permutation; or as "
        "published: roberta, albert, gpt, xlnet",
    )
    parser.add_argument("--procedure", metavar="NAME", help="joint, two-stage, adversarial, minimax, minimax-literal")
    parser.add_argument("--sentence-task", metavar="NAME", help="of mlm and bert: next-sentence or sentence-order")
    parser.add_argument("--init-from", metavar="DIR", help="start new training from this model's weights")
    parser.add_argument(
        "--init-generator", metavar="DIR", help="start the generator from this one, and the rest from --init-from"
    )
    parser.add_argument(
        "--match-tokens", action="store_true", help="with another tokenizer, start with the tokens that both have"
    )
    parser.add_argument(
        "--branch-from", metavar="DIR", help="go on from this checkpoint of another run, with this run's schedule"
    )
    parser.add_argument("--extend", action="store_true", help="go on with a larger budget")
    parser.add_argument("--allow-inexact", action="store_true", help="resume with another number of threads")
    add_settings(parser, "a preset (tiny, small, base, large, paper-small, …) or a TOML file")


def _add_finetune(verbs: Any) -> None:
    parser = add_verb(
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
    parser.add_argument("--keep", type=count, default=1, metavar="N", help="checkpoints of a finished seed to keep (1)")
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
    parser.add_argument("--seeds", type=positive_int, default=1, metavar="N", help="runs, each with its seed (1)")
    parser.add_argument("--seed", type=int, metavar="S", help="the first seed (0)")
    parser.add_argument("--epochs", type=positive, metavar="X", help="default: the paper's, more for few rows")
    parser.add_argument("--steps", type=positive_int, metavar="N", help="instead of epochs")
    parser.add_argument("--train-rows", type=positive_int, metavar="N", help="learn from so many rows at most")
    parser.add_argument(
        "--min-steps", type=count, metavar="N", help="of few rows: no fewer steps, unless --epochs or --steps is given"
    )
    parser.add_argument("--learning-rate", type=positive, metavar="X", help="default: the paper's for the size")
    parser.add_argument("--batch-size", type=positive_int, metavar="N", help="rows in a step (32)")
    parser.add_argument("--sequence-length", type=positive_int, metavar="N", help="tokens in a row")
    parser.add_argument(
        "--head", choices=["released", "huggingface"], help="dropout and linear (default), or that of transformers"
    )
    parser.add_argument(
        "--from-scratch", action="store_true", default=None, help="forget what MODEL learned: a baseline for it"
    )
    parser.add_argument("--encoder-dropout", type=float, metavar="P", help="default: as in pre-training")
    parser.add_argument("--save-every", type=count, default=500, metavar="N", help="steps between checkpoints (500)")
    parser.add_argument("--log-every", type=count, default=0, metavar="N", help="steps between log lines (10 lines)")
    parser.add_argument(
        "--no-baseline", dest="baseline", action="store_false", help="score no simple methods on the same examples"
    )
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    parser.add_argument("--allow-inexact", action="store_true", help="resume with another number of threads")
    add_settings(parser, "a TOML file of settings")


def _add_glue(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "glue",
        "tune and score a model on every task of GLUE; the same command again goes on",
        "electra glue runs/mine --data glue/ --tasks cola,sst2,rte --seeds 3 --out runs/mine-glue",
    )
    parser.add_argument("model", metavar="MODEL", help="a run or model folder, ours or Hugging Face's")
    parser.add_argument("--data", required=True, metavar="DIR", help="the GLUE folder, with CoLA/, SST-2/, … in it")
    parser.add_argument("--tasks", metavar="NAME,NAME", help="default: every task whose files are there, but WNLI")
    _add_tuning(parser)


def _add_flops(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "flops",
        "count the parameters, FLOPs, memory and time of a pre-training run that was not started",
        "electra flops --config paper-small --vocab-size 30522 --objective mlm --steps 1450000",
    )
    parser.add_argument("--table", action="store_true", help="the runs of the paper, as published and as counted here")
    parser.add_argument("--data", metavar="DIR", help="what 'electra prepare' wrote; or, without any,")
    parser.add_argument("--vocab-size", type=positive_int, metavar="N", help="entries of the vocabulary (8192)")
    parser.add_argument("--sequence-length", type=positive_int, metavar="N", help="tokens per row (128)")
    parser.add_argument("--size", choices=["tiny", "small", "base", "large"], help="sizes of both networks")
    budget = parser.add_mutually_exclusive_group()
    budget.add_argument("--steps", type=positive_int, metavar="N", help="count a run of this many steps")
    budget.add_argument("--tokens", type=positive, metavar="N", help="count a run on this many tokens: 1e7")
    budget.add_argument("--flops", type=positive, metavar="X", help="count a run of this many operations: 1e14")
    parser.add_argument("--objective", metavar="NAME", help="what is learned, as named by pretrain (electra)")
    parser.add_argument(
        "--procedure", metavar="NAME", help="how two networks are trained, as named by pretrain (joint)"
    )
    parser.add_argument("--sentence-task", metavar="NAME", help="a task about sentences, as named by pretrain (none)")
    parser.add_argument("--threads", type=positive_int, default=0, metavar="N", help="default: the cores there are")
    add_settings(parser, "a preset (tiny, small, base, large, paper-small, …) or a TOML file")


VERBS = (_add_quickstart, _add_prepare, _add_pretrain, _add_finetune, _add_glue, _add_flops)
